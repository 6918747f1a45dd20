"""The checks of span batches beyond the conformance cases, and the extraction of their blocks."""

from collections.abc import Sequence

import msgspec

from rollup_node.stages.derivation.codec.batches import SpanBatch, SpanCursor
from rollup_node.stages.derivation.reasons.singular import L1WindowEmpty
from rollup_node.stages.derivation.reasons.span import NewBlockEpochTooOld, NewBlockEpochUnknown, SpanEpochTooNew
from rollup_node.stages.protocol.types import L2BlockRef
from tests.conformance.kit.batch_checks import ACCEPTED, BatchCheckHarness, dropped, undecided
from tests.conformance.kit.chain import FIRST_L1, GENESIS, forks_until
from tests.conformance.kit.planning import USER, Planned, child, plan, span


def _with_epochs(parent: L2BlockRef, *epochs: int) -> list[Planned]:
    """Blocks with these origins, by their distance from genesis'."""
    found: list[Planned] = []
    for epoch in epochs:
        found.append(child(parent, (USER,), FIRST_L1 + epoch))
        parent = found[-1].ref
    return found


def _decoded(checks: BatchCheckHarness, blocks: Sequence[Planned]) -> SpanBatch:
    batch = checks.decoded(span(blocks))
    assert isinstance(batch, SpanBatch)
    return batch


def test_without_an_l1_window_a_span_is_undecided() -> None:
    """[PX1]"""
    checks = BatchCheckHarness(forks_until("granite"))
    checks.l1_window.blocks = []
    assert checks.span(span(plan(GENESIS, 2))) == undecided(L1WindowEmpty)


def test_the_parent_of_an_overlap_may_be_genesis() -> None:
    checks = BatchCheckHarness(forks_until("granite"), safe=10)
    assert checks.span(span(plan(GENESIS, 11))) == ACCEPTED


def test_a_start_epoch_that_wraps() -> None:
    checks = BatchCheckHarness(forks_until("granite"), seq_window_size=FIRST_L1 + 100)
    wrapped = msgspec.structs.replace(_decoded(checks, plan(GENESIS, 2)), first_epoch=2**64 - 1)
    assert checks.span(wrapped) == dropped(SpanEpochTooNew)


def test_extraction_skips_blocks_of_the_safe_chain() -> None:
    checks = BatchCheckHarness(forks_until("holocene"), safe=2)
    batch = _decoded(checks, plan(GENESIS, 4))
    cursor = checks.span_checks.extract(batch, checks.l1_window, checks.safe)
    assert isinstance(cursor, SpanCursor)
    assert (cursor.index, cursor.timestamp, cursor.left) == (2, checks.safe.timestamp + 2, 2)


def test_extraction_of_a_block_with_an_old_epoch() -> None:
    """The new block has the epoch of the first one, the safe head the next epoch already."""
    checks = BatchCheckHarness(forks_until("holocene"), safe=_with_epochs(GENESIS, 0, 1), first=0, times={1: 3, 2: 4})
    batch = _decoded(checks, _with_epochs(checks.block(1), 0, 0))
    found = checks.span_checks.extract(batch, checks.l1_window, checks.safe)
    assert found == NewBlockEpochTooOld(FIRST_L1, FIRST_L1 + 1)


def test_extraction_of_a_block_with_an_unknown_epoch() -> None:
    checks = BatchCheckHarness(forks_until("holocene"), first=1, last=2, times={1: 2, 2: 4})
    batch = _decoded(checks, _with_epochs(GENESIS, 0, 1))
    found = checks.span_checks.extract(batch, checks.l1_window, checks.safe)
    assert found == NewBlockEpochUnknown(FIRST_L1)
