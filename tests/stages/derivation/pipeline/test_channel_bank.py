"""The channel bank against a direct implementation of its rules, and the order in which channels are read."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.channel_bank import ChannelAssembler, ChannelBank
from rollup_node.stages.derivation.pipeline.outputs import PipelineEvents
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.forks.rules import L1Rules
from tests.conformance.kit.chain import L1Blocks
from tests.conformance.kit.notation import channel_id, frames, parts

ORIGIN = L1Blocks().last.ref
ANY = L1Rules(read_any_ready_channel=True)
FRAMES = st.builds(
    Frame,
    st.sampled_from([channel_id(letter) for letter in "ABC"]),
    st.integers(0, 4),
    st.binary(min_size=1, max_size=3),
    st.booleans(),
)


@dataclass
class _Channel:
    pieces: dict[int, bytes] = field(default_factory=dict)
    end: int | None = None


def _read(taken: list[Frame], any_ready: bool) -> list[bytes]:
    """CB1 to CB10 by their wording, without timeouts: what is read when a channel is read before each frame."""
    bank: dict[bytes, _Channel] = {}
    result: list[bytes] = []

    def read() -> None:
        while bank:
            ready = [
                key
                for key, channel in bank.items()
                if channel.end is not None and sorted(channel.pieces) == list(range(channel.end + 1))
            ]
            key = next(iter(bank)) if not any_ready else ready[0] if ready else None
            if key is None or key not in ready:
                return
            channel = bank.pop(key)
            result.append(b"".join(channel.pieces[number] for number in sorted(channel.pieces)))

    for frame in taken:
        read()
        channel = bank.setdefault(frame.channel, _Channel())
        if frame.number in channel.pieces or (frame.is_last and channel.end is not None):
            continue
        if channel.end is not None and frame.number >= channel.end:
            continue
        channel.pieces[frame.number] = frame.data
        if frame.is_last:
            channel.end = frame.number
            channel.pieces = {number: data for number, data in channel.pieces.items() if number <= frame.number}
    read()
    return result


@given(st.lists(FRAMES, max_size=16), st.booleans())
def test_frames_make_channels_in_any_order(taken: list[Frame], any_ready: bool) -> None:
    """[CB1 to CB10]"""
    rules = L1Rules(read_any_ready_channel=any_ready)
    events = PipelineEvents()
    bank = ChannelBank(events)
    result: list[bytes] = []

    def read() -> None:
        while (channel := bank.read(ORIGIN, rules)) is not None:
            result.append(channel.body)

    for frame in taken:
        read()
        bank.ingest_frame(frame, ORIGIN, rules)
    read()
    assert result == _read(taken, any_ready)
    ignored = [dropped for dropped in events.drops if dropped.effect is DropEffect.IGNORED]
    assert events.frames_added == len(taken) - len(ignored)


def test_open_channels_have_their_frames_in_order_of_number() -> None:
    bank = ChannelBank(PipelineEvents())
    for frame in frames("B2 A0 B0"):
        bank.ingest_frame(frame, ORIGIN, ANY)
    opened = bank.open_channels
    assert [(item.id, item.opened) for item in opened] == [(channel_id(name), ORIGIN.number) for name in "BA"]
    assert [[(number, parts(data)) for number, data in item.frames.items()] for item in opened] == [
        [(0, "B0"), (2, "B2")],
        [(0, "A0")],
    ]


RULES = L1Rules(channel_timeout=50)


def test_the_staging_channel_is_open_until_it_is_read() -> None:
    assembler = ChannelAssembler(PipelineEvents())
    assert not assembler.open_channels and len(assembler) == 0
    for frame in frames("A0 A1"):
        assembler.ingest_frame(frame, ORIGIN, RULES)
    assert len(assembler) == 1
    (opened,) = assembler.open_channels
    assert (opened.id, opened.opened, list(opened.frames)) == (channel_id("A"), ORIGIN.number, [0, 1])
