"""The transactions that batches may not have, by the L2 block's time. The checks of span batches beyond the
conformance cases, and the extraction of their blocks."""

import msgspec
import pytest

from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.pipeline.batch_checks import (
    PAGE,
    BatchChecks,
    OverlapBlock,
    OverlapBlocks,
    transaction_rejection,
    transactions_digest,
)
from rollup_node.stages.derivation.pipeline.outputs import NeedL2Blocks
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.types import UNKNOWN_HASH, L2BlockContent
from tests.conformance.kit.batch_checks import BatchCheckHarness, undecided
from tests.conformance.kit.chain import FIRST_L1, GENESIS, GENESIS_TIME, forks_until, rollup
from tests.conformance.kit.planning import along, plan, span
from tests.stages.derivation.codec.test_packed import packed_transactions

SCHEDULE = rollup(forks_until("holocene", isthmus=10, lagoon=20)).schedule()


@pytest.mark.parametrize(
    ("transaction", "seconds", "reason"),
    [
        (b"", 0, reasons.TransactionEmpty(1)),
        (b"\x7e\xc0", 30, reasons.TransactionIsDeposit(1)),
        (b"\x04\xc0", 9, reasons.SetCodeNotAllowed(1)),
        (b"\x04\xc0", 10, None),
        (b"\x7d\xc0", 19, reasons.PostExecNotAllowed(1)),
        (b"\x7d\xc0", 20, None),
        (b"\xff", 0, None),
    ],
)
def test_the_first_transaction_that_is_not_allowed(transaction: bytes, seconds: int, reason: Reason | None) -> None:
    transactions = (b"\x02", transaction, b"")
    expected = reason or reasons.TransactionEmpty(2)
    for form in (transactions, packed_transactions(*transactions)):
        assert transaction_rejection(SCHEDULE, form, GENESIS_TIME + seconds) == expected


def test_only_a_parent_of_unknown_hash_is_assumed_and_only_where_that_is_wanted() -> None:
    config = rollup(forks_until("holocene"))
    node, assuming = BatchChecks(config, OverlapBlocks()), BatchChecks(config, OverlapBlocks(), assume_parents=True)
    unknown, other = msgspec.structs.replace(GENESIS, hash=UNKNOWN_HASH), b"\x05" * 32
    for checks in (node, assuming):
        assert checks._is_parent(GENESIS.hash, GENESIS) and checks._is_parent(GENESIS.hash[:20], GENESIS)
        assert not checks._is_parent(other, GENESIS) and not checks._is_parent(other[:20], GENESIS)
    assert assuming._is_parent(other, unknown) and assuming._is_parent(other[:20], unknown)
    assert not node._is_parent(other, unknown)


def test_without_an_l1_window_a_span_is_undecided() -> None:
    """[PX1]"""
    checks = BatchCheckHarness(forks_until("granite"))
    checks.l1_window.blocks = []
    assert checks.span(span(plan(GENESIS, 2))) == undecided(reasons.L1WindowEmpty)


def test_extraction_of_a_block_with_an_unknown_epoch() -> None:
    checks = BatchCheckHarness(forks_until("holocene"), first=1, last=2, times={1: 2, 2: 4})
    batch = checks.decoded(span(along(GENESIS, 0, 1)))
    assert isinstance(batch, SpanBatch)
    result = checks.checks.extract(batch, checks.l1_window, checks.safe)
    assert result == reasons.NewBlockEpochUnknown(FIRST_L1)


CHAIN = [L2BlockContent(block.ref, (b"\x7e\xc0", *block.transactions)) for block in plan(GENESIS, 100, (b"\x02user",))]


def test_blocks_are_requested_in_pages() -> None:
    overlap = OverlapBlocks()
    assert overlap.find(5, 90) == NeedL2Blocks(5, 5 + PAGE - 1)
    blocks = CHAIN[4 : 4 + PAGE]
    assert not overlap.add(5, 90, blocks)
    assert not overlap.add(5, 5 + PAGE - 1, blocks[1:])
    assert overlap.add(5, 5 + PAGE - 1, blocks)
    assert overlap.find(6, 90) == OverlapBlock(CHAIN[5].ref, 1, transactions_digest([b"\x02user"]))
    assert overlap.find(5 + PAGE, 90) == NeedL2Blocks(5 + PAGE, 90)


def test_another_safe_chain_is_requested_again() -> None:
    overlap = OverlapBlocks()
    overlap.find(6, 6)
    assert overlap.add(6, 6, CHAIN[5:6])
    overlap.clear()
    assert overlap.find(6, 6) == NeedL2Blocks(6, 6)


def test_packed_transactions_have_the_same_digest() -> None:
    transactions = (b"ab", b"", b"c" * 3_000_000, b"d")
    assert transactions_digest(packed_transactions(*transactions)) == transactions_digest(transactions)
