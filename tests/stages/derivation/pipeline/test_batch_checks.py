"""The transactions that batches may not have, by the L2 block's time."""

import msgspec
import pytest

from rollup_node.stages.derivation.codec.packed import TransactionPacker
from rollup_node.stages.derivation.pipeline.batch_checks import BlockChecks, transaction_rejection
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.types import UNKNOWN_HASH
from tests.conformance.kit.batch_checks import ACCEPTED, BatchCheckHarness
from tests.conformance.kit.chain import GENESIS, GENESIS_TIME, forks_until, rollup
from tests.conformance.kit.planning import USER

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
    assert transaction_rejection(SCHEDULE, transactions, GENESIS_TIME + seconds) == expected
    packer = TransactionPacker()
    for item in transactions:
        packer.add(item)
    assert transaction_rejection(SCHEDULE, packer.finish(), GENESIS_TIME + seconds) == expected, "packed as well"


def test_only_a_parent_of_unknown_hash_is_assumed_and_only_where_that_is_wanted() -> None:
    config = rollup(forks_until("holocene"))
    node, assuming = BlockChecks(config, SCHEDULE), BlockChecks(config, SCHEDULE, assume_parents=True)
    unknown, other = msgspec.structs.replace(GENESIS, hash=UNKNOWN_HASH), b"\x05" * 32
    for checks in (node, assuming):
        assert checks._is_parent(GENESIS.hash, GENESIS) and checks._is_parent(GENESIS.hash[:20], GENESIS)
        assert not checks._is_parent(other, GENESIS) and not checks._is_parent(other[:20], GENESIS)
    assert assuming._is_parent(other, unknown) and assuming._is_parent(other[:20], unknown)
    assert not node._is_parent(other, unknown)


@pytest.mark.parametrize("fork", ["canyon", "ecotone", "fjord", "granite", "holocene", "isthmus"])
def test_activation_blocks_that_take_user_transactions(fork: str) -> None:
    checks = BatchCheckHarness(forks_until("regolith", **{fork: 2}))
    assert checks.singular(checks.next((USER,))) == ACCEPTED
