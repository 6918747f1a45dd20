"""A block's data parsed into frames: every item alone, malformed blobs beside them."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.pipeline.block_frames import (
    are_contents_of,
    batcher_transactions,
    blob_refs,
    data_items,
    parse_block,
)
from rollup_node.stages.derivation.reasons.l1 import BlobMalformed, FrameOutOfOrder, FramesEmpty
from rollup_node.stages.messages.blobs import BlobContent
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.forks.rules import L1Rules
from tests.conformance.kit.chain import BATCHER, STRANGER, L1Blocks, blobs, calldata
from tests.conformance.kit.notation import item, names

H1, H2 = b"\1" * 32, b"\2" * 32


def test_items_are_those_of_the_batcher_in_block_order() -> None:
    block = L1Blocks().add(calldata(b"1"), calldata(b"2", STRANGER), blobs([H1, H2], b"3"), calldata(b"4"))
    blob_block = block.inbox[2]
    items = data_items(block, BATCHER, L1Rules(blobs_as_data=True))
    assert items == [b"1", *blob_block.blobs, b"4"]
    assert blob_refs(items) == blob_block.blobs
    assert data_items(block, BATCHER, L1Rules()) == [b"1", b"3", b"4"]
    assert [batcher_transaction.data for batcher_transaction in batcher_transactions(block, STRANGER)] == [b"2"]


def test_contents_must_be_those_of_the_blobs_in_their_order() -> None:
    refs = blobs([H1, H2]).blobs
    first, second = BlobContent(H1, b"", None), BlobContent(H2, b"", None)
    assert are_contents_of([first, second], refs)
    for wrong in ([second, first], [first], [first, second, second], []):
        assert not are_contents_of(wrong, refs)


def test_each_item_is_parsed_alone() -> None:
    refs = blobs([H1, H2]).blobs
    contents = [BlobContent(H1, item("B0 B2"), None), BlobContent(H2, None, "made up")]
    parsed = parse_block(H1, BATCHER, [item("A0!"), *refs, b""], contents, L1Rules(contiguous_frames=True))
    assert (parsed.block, parsed.batcher) == (H1, BATCHER)
    assert [names(item.frames) for item in parsed.items] == ["A0!", "B0", ""]
    assert [[(effect, type(reason)) for effect, reason in item.drops] for item in parsed.items] == [
        [],
        [(DropEffect.DROPPED, FrameOutOfOrder)],
        [(DropEffect.IGNORED, FramesEmpty)],
    ]
    assert parsed.malformed == (BlobMalformed(1, H2, "made up"),)


@given(st.lists(st.binary(max_size=60), max_size=4), st.booleans())
def test_any_data_gives_frames_or_drops(data: list[bytes], pruning: bool) -> None:
    parsed = parse_block(H1, BATCHER, data, (), L1Rules(contiguous_frames=pruning))
    assert len(parsed.items) == len(data)
    for parsed_item in parsed.items:
        assert parsed_item.frames or parsed_item.drops
