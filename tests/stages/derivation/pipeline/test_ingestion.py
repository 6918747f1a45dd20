"""Frame ingestion: channels over L1 blocks, and what a flush and a replaced channel stage discard."""

import pytest

from rollup_node.stages.derivation.pipeline.block_frames import BlockFrames, ItemFrames, parse_block
from rollup_node.stages.derivation.pipeline.ingestion import DataSource
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, PipelineEvents
from rollup_node.stages.derivation.reasons.l1 import BlobMalformed, SenderNotBatcher
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.types import L1Block
from tests.conformance.kit.chain import BATCHER, STRANGER, L1Blocks, blobs, calldata
from tests.conformance.kit.notation import item, names

H1, H2 = b"\1" * 32, b"\2" * 32
RULES = L1Rules(blobs_as_data=True)
CONTENTS = (BlobContent(H1, item("B0!"), None), BlobContent(H2, None, "made up"))


@pytest.fixture
def block() -> L1Block:
    """Calldata, two blobs of which the second is malformed, and a stranger's transaction."""
    return L1Blocks().add(calldata(item("A0!")), blobs([H1, H2]), calldata(b"junk", STRANGER))


def _frames(block: L1Block, batcher: bytes = BATCHER) -> BlockFrames:
    items: list[bytes] = [block.inbox[0].data]
    return parse_block(block.header.hash, batcher, [*items, *block.inbox[1].blobs], CONTENTS, RULES)


def _read(source: DataSource) -> list[str]:
    result = []
    while isinstance(popped := source.pop(), ItemFrames):
        result.append(names(popped.frames))
    assert popped is None
    return result


def test_blobs_are_needed_until_they_are_there(block: L1Block) -> None:
    events = PipelineEvents()
    source = DataSource(events)
    source.open(block, BATCHER, RULES)
    need = NeedBlobs(block.ref, block.inbox[1].blobs)
    assert source.pop() == source.pop() == need
    assert source.is_waiting_for(block.header.hash) and not source.is_waiting_for(H1)
    assert not source.add_blobs(H1, CONTENTS)
    assert not source.add_blobs(block.header.hash, CONTENTS[::-1])
    assert source.add_blobs(block.header.hash, CONTENTS)
    assert not source.add_blobs(block.header.hash, CONTENTS)
    assert _read(source) == ["A0!", "B0!"]
    assert [drop.reason.kind for drop in events.drops] == [SenderNotBatcher, BlobMalformed]


@pytest.mark.parametrize("with_block", [True, False])
def test_frames_that_were_parsed_ahead_replace_the_blobs(block: L1Block, with_block: bool) -> None:
    """With the block, or later in the place of the blobs, with the same drops in the same order."""
    events = PipelineEvents()
    source = DataSource(events)
    source.open(block, BATCHER, RULES, _frames(block) if with_block else None)
    assert source.is_waiting_for(block.header.hash) is not with_block
    assert source.add_frames(_frames(block)) is not with_block
    assert _read(source) == ["A0!", "B0!"]
    assert [drop.reason.kind for drop in events.drops] == [SenderNotBatcher, BlobMalformed]


def test_frames_of_another_block_or_batcher_are_refused(block: L1Block) -> None:
    source = DataSource(PipelineEvents())
    for wrong in (_frames(block)._replace(block=H2), _frames(block, STRANGER)):
        source.open(block, BATCHER, RULES, wrong)
        assert isinstance(source.pop(), NeedBlobs)
        assert not source.add_frames(wrong)
    assert source.add_frames(_frames(block))


def test_a_block_can_be_opened_by_its_frames_alone(block: L1Block) -> None:
    source = DataSource(PipelineEvents())
    source.open_parsed(_frames(block))
    assert _read(source) == ["A0!", "B0!"]
