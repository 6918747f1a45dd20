"""A block's data parsed into frames: every item alone, malformed blobs beside them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation.pipeline.block_frames import (
    parse_block,
)
from rollup_node.stages.protocol.forks.rules import L1Rules
from tests.conformance.kit.chain import BATCHER

H1 = b"\1" * 32


@settings(max_examples=40)
@given(st.lists(st.binary(max_size=60), max_size=4), st.booleans())
def test_any_data_gives_frames_or_drops(data: list[bytes], pruning: bool) -> None:
    parsed = parse_block(H1, BATCHER, data, (), L1Rules(contiguous_frames=pruning))
    assert len(parsed.items) == len(data)
    for parsed_item in parsed.items:
        assert parsed_item.frames or parsed_item.drops
