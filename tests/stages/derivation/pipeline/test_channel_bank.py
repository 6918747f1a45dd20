"""The channel stages beyond the conformance cases: the channels that are open, and the frames that count."""

from rollup_node.stages.derivation.pipeline.channel_bank import ChannelAssembler, ChannelBank
from rollup_node.stages.derivation.pipeline.outputs import PipelineEvents
from rollup_node.stages.protocol.forks.rules import L1Rules
from tests.conformance.kit.chain import L1Blocks
from tests.conformance.kit.notation import channel_id, frames, parts

ORIGIN = L1Blocks().last.ref
ANY = L1Rules(read_any_ready_channel=True)


def test_open_channels_have_their_frames_in_order_of_number() -> None:
    """[CB1] Before the first frame there is none."""
    events = PipelineEvents()
    bank = ChannelBank(events)
    assert bank.read(ORIGIN, ANY) is None and list(bank.open_channels) == []
    for frame in frames("B2 A0 B0 A0"):
        bank.ingest_frame(frame, ORIGIN, ANY)
    assert events.frames_added == 3, "a duplicate is ignored [MET11]"
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
