"""A block's data parsed into frames: every item alone, malformed blobs beside them."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.pipeline.block_frames import (
    batcher_transactions,
    blob_refs,
    data_items,
    parse_block,
)
from rollup_node.stages.protocol.forks.rules import L1Rules
from tests.conformance.kit.chain import BATCHER, STRANGER, L1Blocks, blobs, calldata

H1, H2 = b"\1" * 32, b"\2" * 32


def test_items_are_those_of_the_batcher_in_block_order() -> None:
    block = L1Blocks().add(calldata(b"1"), calldata(b"2", STRANGER), blobs([H1, H2], b"3"), calldata(b"4"))
    blob_block = block.inbox[2]
    items = data_items(block, BATCHER, L1Rules(blobs_as_data=True))
    assert items == [b"1", *blob_block.blobs, b"4"]
    assert blob_refs(items) == blob_block.blobs
    assert data_items(block, BATCHER, L1Rules()) == [b"1", b"3", b"4"]
    assert [batcher_transaction.data for batcher_transaction in batcher_transactions(block, STRANGER)] == [b"2"]


@given(st.lists(st.binary(max_size=60), max_size=4), st.booleans())
def test_any_data_gives_frames_or_drops(data: list[bytes], pruning: bool) -> None:
    parsed = parse_block(H1, BATCHER, data, (), L1Rules(contiguous_frames=pruning))
    assert len(parsed.items) == len(data)
    for parsed_item in parsed.items:
        assert parsed_item.frames or parsed_item.drops
