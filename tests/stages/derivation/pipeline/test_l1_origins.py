"""The L1 window: blocks that are appended and removed as the parent's epoch moves on."""

import msgspec

from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow, without_inbox
from rollup_node.stages.protocol.types import L2BlockRef
from tests.conformance.kit.chain import (
    FIRST_L1,
    GENESIS,
    L1Blocks,
)


def _l1(count: int) -> L1Blocks:
    l1 = L1Blocks()
    l1.skip(count)
    return l1


def _head(l1: L1Blocks, epoch: int) -> L2BlockRef:
    """Return a safe head with this origin, by its distance from genesis'."""
    return msgspec.structs.replace(GENESIS, l1_origin=l1.blocks[epoch].ref.id)


def test_epochs_before_the_parents_are_removed() -> None:
    """[E3]"""
    l1 = _l1(3)
    window = L1OriginWindow(l1.blocks[0])
    for block in l1.blocks[1:]:
        assert not window.advance_origin(block, GENESIS)
    assert window.blocks == l1.blocks
    window.advance_origin(l1.blocks[3], _head(l1, 2))
    assert window.blocks == l1.blocks[2:]


def test_a_block_behind_the_parents_origin_clears_the_window() -> None:
    """[E2]"""
    l1 = _l1(5)
    window = L1OriginWindow(l1.blocks[3])
    assert window.advance_origin(l1.blocks[4], _head(l1, 5))
    assert window.blocks == [] and len(window) == 0
    assert not window.advance_origin(l1.blocks[5], _head(l1, 5))
    assert window.blocks == l1.blocks[5:]
    assert window.block(FIRST_L1 + 4) is None
    assert window.ref(FIRST_L1 + 5) == l1.blocks[5].ref


def test_the_inbox_is_left_out() -> None:
    block = L1Blocks().add(b"data")
    kept = without_inbox(block)
    assert (block.inbox != (), kept.inbox) == (True, ())
    assert (kept.header, kept.deposits, kept.config_updates) == (block.header, block.deposits, block.config_updates)
