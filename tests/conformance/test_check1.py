"""The checks of singular batches, in their order [V1 to V15]."""

import msgspec

from rollup_node.stages.derivation.pipeline.batch_checks import BatchValidity
from rollup_node.stages.derivation.reasons import batches as reasons
from tests.conformance.kit.batch_checks import ACCEPTED, BatchCheckHarness, CheckResult, dropped, undecided
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import GENESIS, forks_until
from tests.conformance.kit.planning import POST_EXEC, USER, along, child

OLD, NEW = forks_until("granite"), forks_until("holocene")
AROUND = forks_until("granite", holocene=24)
"""Holocene is at the third L1 block, 24 seconds after genesis."""
NONE: tuple[bytes, ...] = ()
ONE = (USER,)


@case("check1_no_l1")
def no_window() -> None:
    checks = BatchCheckHarness(NEW)
    checks.l1_window.blocks = []
    assert checks.singular(checks.next(ONE)) == undecided(reasons.L1WindowEmpty)


@table(
    check1_future_pre=(4, 1, (BatchValidity.FUTURE, reasons.TimestampAhead)),
    check1_future_holocene=(4, 2, dropped(reasons.TimestampAhead)),
    check1_past_pre=(0, 1, dropped(reasons.TimestampPast)),
    check1_past_holocene=(0, 2, (BatchValidity.PAST, reasons.TimestampPast)),
    check1_misaligned=(3, 1, (BatchValidity.FUTURE, reasons.TimestampAhead)),
)
def another_time(seconds: int, included: int, expected: CheckResult) -> None:
    """The next block's time is 2 seconds after genesis; which rule holds depends on the inclusion block alone."""
    checks = BatchCheckHarness(AROUND, included=included)
    assert checks.singular(checks.next(ONE, time=GENESIS.timestamp + seconds)) == expected
    assert checks.singular(checks.next(ONE, time=GENESIS.timestamp + 2)) == ACCEPTED


@case("check1_bad_parent")
def another_parent() -> None:
    for forks in (OLD, NEW):
        checks = BatchCheckHarness(forks, safe=1)
        assert checks.singular(child(GENESIS, ONE, time=checks.safe.timestamp + 2)) == dropped(
            reasons.ParentHashMismatch
        )
        following = checks.next(ONE)
        assert checks.singular(following) == ACCEPTED
        checks.safe = msgspec.structs.replace(checks.safe, hash=checks.safe.hash[:31] + b"\x99")
        assert checks.singular(following) == dropped(reasons.ParentHashMismatch), "the last byte counts as well"


@table(check1_window_edge=(5, ACCEPTED), check1_window_over=(6, dropped(reasons.SequencingWindowExpired)))
def the_sequencing_window(included: int, expected: CheckResult) -> None:
    for forks in (OLD, NEW):
        checks = BatchCheckHarness(forks, last=included, seq_window_size=5)
        assert checks.singular(checks.next(ONE, 0)) == expected


@table(
    check1_epoch_old=(1, 0, 2, dropped(reasons.EpochTooOld)),
    check1_epoch_next_unknown=(0, 1, 0, undecided(reasons.EpochUnknown)),
    check1_epoch_plus2=(0, 2, 2, dropped(reasons.EpochTooNew)),
)
def another_epoch(first: int, epoch: int, last: int, expected: CheckResult) -> None:
    for forks in (OLD, NEW):
        checks = BatchCheckHarness(forks, first=first, last=last, included=2)
        assert checks.singular(checks.next(ONE, epoch)) == expected


@case("check1_epoch_hash")
def another_epoch_hash() -> None:
    checks = BatchCheckHarness(NEW)
    assert checks.singular(checks.next(ONE, 0, epoch_hash=b"\x99" * 32)) == dropped(reasons.EpochHashMismatch)
    assert checks.singular(checks.next(ONE, 0)) == ACCEPTED


@table(
    check1_time_before_origin=(3, dropped(reasons.TimestampBeforeOrigin)),
    check1_time_equal_origin=(2, ACCEPTED),
)
def time_of_the_origin(origin_time: int, expected: CheckResult) -> None:
    """The next block's time is 2 seconds after genesis."""
    for forks in (OLD, NEW):
        checks = BatchCheckHarness(forks, times={1: origin_time})
        assert checks.singular(checks.next(ONE, 1)) == expected


@table(
    check1_jovian_txs=("isthmus", "jovian", ONE, dropped(reasons.ActivationBlockNotEmpty)),
    check1_jovian_empty=("isthmus", "jovian", NONE, ACCEPTED),
    check1_karst_txs=("jovian", "karst", ONE, dropped(reasons.ActivationBlockNotEmpty)),
    check1_lagoon_txs=("karst", "lagoon", ONE, dropped(reasons.ActivationBlockNotEmpty)),
    check1_isthmus_activation_txs=("holocene", "isthmus", ONE, ACCEPTED),
)
def activation_block(before: str, fork: str, transactions: tuple[bytes, ...], expected: CheckResult) -> None:
    """The fork activates at the next block's time, or one second before it.

    User transactions are allowed only in the second case."""
    for time in (2, 1):
        checks = BatchCheckHarness(forks_until(before, **{fork: time}))
        assert checks.singular(checks.next(transactions)) == expected
    checks = BatchCheckHarness(forks_until(before, **{fork: 2}), safe=1)
    assert checks.singular(checks.next(transactions)) == ACCEPTED


@case("check1_genesis_fork_txs")
def fork_from_genesis_on() -> None:
    for forks in (forks_until("jovian"), forks_until("isthmus", jovian=0)):
        checks = BatchCheckHarness(forks)
        assert checks.singular(checks.next(ONE)) == ACCEPTED


@table(
    check1_drift_equal_txs=(4, 0, ONE, {}, ACCEPTED),
    check1_drift_over_txs=(5, 0, ONE, {}, dropped(reasons.DriftExceeded)),
    check1_drift_over_txs_advance=(5, 1, ONE, {1: 1}, dropped(reasons.DriftExceeded)),
    check1_drift_over_empty_late=(5, 0, NONE, {1: 13}, ACCEPTED),
    check1_drift_over_empty_could=(5, 0, NONE, {1: 12}, dropped(reasons.DriftEpochNotAdvanced)),
    check1_drift_over_empty_advance=(5, 1, NONE, {1: 1}, ACCEPTED),
)
def drift(safe: int, epoch: int, transactions: tuple[bytes, ...], times: dict[int, int], expected: CheckResult) -> None:
    """The maximum drift is ten seconds; block n is 2 n seconds after genesis."""
    early = forks_until("ecotone")
    for forks in (early, {**early, "granite": 0, "holocene": 0}):
        checks = BatchCheckHarness(forks, safe=safe, times=times, max_sequencer_drift=10)
        assert checks.singular(checks.next(transactions, epoch)) == expected


@case("check1_drift_over_empty_unknown")
def drift_before_an_unknown_block() -> None:
    checks = BatchCheckHarness(forks_until("ecotone"), safe=5, last=0, included=2, max_sequencer_drift=10)
    assert checks.singular(checks.next(NONE, 0)) == undecided(reasons.DriftUndecidable)


@case("check1_drift_fjord_origin")
def drift_of_an_origin_before_fjord() -> None:
    """The origin's time counts, not the block's, which is 12 seconds after genesis."""
    checks = BatchCheckHarness(forks_until("ecotone", fjord=1), safe=5, max_sequencer_drift=10)
    assert checks.singular(checks.next(ONE, 0)) == dropped(reasons.DriftExceeded)
    assert checks.singular(checks.next(ONE, 1)) == ACCEPTED


@case("check1_drift_fjord_1800")
def drift_from_fjord_on() -> None:
    """Fjord is at the origin's time; block 900 is 1800 seconds after it."""
    for safe, expected in ((899, ACCEPTED), (900, dropped(reasons.DriftExceeded))):
        chain = along(GENESIS, *[(0, NONE)] * safe)
        checks = BatchCheckHarness(
            forks_until("ecotone", fjord=0), safe=chain, times={1: 5000, 2: 5012}, max_sequencer_drift=10
        )
        assert checks.singular(checks.next(ONE, 0)) == expected


@table(
    check1_tx_empty=("isthmus", b"", dropped(reasons.TransactionEmpty)),
    check1_tx_deposit=("isthmus", b"\x7e\xc0", dropped(reasons.TransactionIsDeposit)),
    check1_tx_setcode_pre=("holocene", b"\x04\xc0", dropped(reasons.SetCodeNotAllowed)),
    check1_tx_setcode_post=("isthmus", b"\x04\xc0", ACCEPTED),
    check1_tx_postexec_pre=("karst", POST_EXEC, dropped(reasons.PostExecNotAllowed)),
    check1_tx_postexec_post=("lagoon", POST_EXEC, ACCEPTED),
    check1_tx_type3=("bedrock", b"\x03\xc0", ACCEPTED),
    check1_tx_garbage=("bedrock", b"\xff\xff", ACCEPTED),
)
def transaction(fork: str, raw: bytes, expected: CheckResult) -> None:
    checks = BatchCheckHarness(forks_until(fork))
    assert checks.singular(checks.next((USER, raw, USER))) == expected
    assert checks.singular(checks.next((USER, USER))) == ACCEPTED


@case("check1_tx_postexec_activation")
def post_exec_around_lagoon() -> None:
    """Lagoon is 2 seconds after genesis, in the first block, or 1 second: the same block.

    Before it no block may have one, and its own has no user transactions."""
    for seconds, expected in (
        (3, dropped(reasons.PostExecNotAllowed)),
        (2, dropped(reasons.ActivationBlockNotEmpty)),
        (1, dropped(reasons.ActivationBlockNotEmpty)),
        (0, ACCEPTED),
    ):
        checks = BatchCheckHarness(forks_until("karst", lagoon=seconds))
        assert checks.singular(checks.next((POST_EXEC,))) == expected


@case("check1_tx_postexec_two")
def post_exec_is_for_the_engine_to_judge() -> None:
    """Two in a block, one that is not the last, one alone, one of unknown content, one without any."""
    checks = BatchCheckHarness(forks_until("lagoon"))
    for block in (
        (USER, POST_EXEC, POST_EXEC),
        (POST_EXEC, USER),
        (POST_EXEC,),
        (USER, b"\x7djunk"),
        (USER, b"\x7d"),
    ):
        assert checks.singular(checks.next(block)) == ACCEPTED
