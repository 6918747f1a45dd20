"""The channel assembler against a direct implementation of its rules, and its flush."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.channel_assembler import ChannelAssembler
from rollup_node.stages.derivation.pipeline.events import PipelineEvents
from rollup_node.stages.derivation.reasons.channels import FrameWithoutChannel
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.forks.rules import L1Rules
from tests.conformance.kit.chain import L1Blocks
from tests.conformance.kit.notation import channel_id, frames

RULES = L1Rules(channel_timeout=50)
ORIGIN = L1Blocks().last.ref
FRAMES = st.builds(
    Frame,
    st.sampled_from([channel_id("A"), channel_id("B")]),
    st.integers(0, 3),
    st.binary(min_size=1, max_size=3),
    st.booleans(),
)


def test_a_flush_drops_the_staging_channel() -> None:
    events = PipelineEvents()
    assembler = ChannelAssembler(events)
    first, last = frames("A0 A1!")
    assembler.ingest_frame(first, ORIGIN, RULES)
    assert len(assembler) == 1
    assembler.flush()
    assert len(assembler) == 0
    assembler.ingest_frame(last, ORIGIN, RULES)
    assert [type(each.reason) for each in events.drops] == [FrameWithoutChannel]


def _channels(taken: list[Frame]) -> list[bytes]:
    """CA3 to CA7 by their wording: what frames assemble that come in this order."""
    found: list[bytes] = []
    staging: list[Frame] = []
    for frame in taken:
        if frame.number == 0:
            staging = [frame]
        elif staging and staging[0].channel == frame.channel and frame.number == len(staging):
            staging.append(frame)
        else:
            continue
        if frame.is_last:
            found.append(b"".join(each.data for each in staging))
            staging = []
    return found


@given(st.lists(FRAMES, max_size=12))
def test_frames_are_assembled_in_order(taken: list[Frame]) -> None:
    events = PipelineEvents()
    assembler = ChannelAssembler(events)
    found: list[bytes] = []
    for frame in taken:
        assembler.ingest_frame(frame, ORIGIN, RULES)
        channel = assembler.read(ORIGIN, RULES)
        if channel is not None:
            found.append(channel.body)
    assert found == _channels(taken)
    ignored = [dropped for dropped in events.drops if dropped.effect is DropEffect.IGNORED]
    assert events.frames_added == len(taken) - len(ignored)
    assert all(str(dropped) for dropped in events.drops)


def test_the_staging_channel_is_open_until_it_is_read() -> None:
    assembler = ChannelAssembler(PipelineEvents())
    assert not assembler.open_channels
    for frame in frames("A0 A1"):
        assembler.ingest_frame(frame, ORIGIN, RULES)
    (opened,) = assembler.open_channels
    assert (opened.id, opened.opened, list(opened.frames)) == (channel_id("A"), ORIGIN.number, [0, 1])
