"""The full check of span batches, before Holocene [FU1 to FU10]."""

import pytest

from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.derivation.pipeline.deriver import Deriver
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons.reason import AnyKind
from rollup_node.stages.messages.derivation import DropEffect
from tests.conformance.kit.batch_checks import ACCEPTED, BatchCheckHarness, CheckResult, dropped, undecided
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import FIRST_L1, GENESIS, L1_CHAIN, forks_until, rollup
from tests.conformance.kit.planning import OTHER_USER, POST_EXEC, USER, Planned, along, channel, child, plan, refs, span
from tests.conformance.kit.rollup_chain import RollupChain
from tests.conformance.kit.span_fields import SpanFields, Tx, span_fields

FORKS = forks_until("granite")
SET_CODE = Tx(4, (b"\x05", b"\x01", b"\x09", b"", [], [])).full()
FULL, EMPTY = (USER,), ()


def checked(checks: BatchCheckHarness, blocks: list[Planned]) -> CheckResult:
    """Return the result of the full check of the span of these blocks."""
    return checks.span(span(blocks), full=True)


@case("full_epoch_behind_safe")
def new_block_with_an_epoch_before_the_safe_heads() -> None:
    """It starts one block back, where the older epoch was still right."""
    checks = BatchCheckHarness(FORKS, safe=along(GENESIS, (0, FULL), (1, FULL)), first=1, last=2, times={1: 3, 2: 4})
    start = checks.block(1)
    assert checked(checks, along(start, (0, FULL), (0, FULL), (1, FULL))) == dropped(reasons.SpanBlockEpochTooOld)
    assert checked(checks, along(start, (1, FULL), (1, FULL))) == ACCEPTED


@case("full_epoch_missing")
def new_block_with_an_epoch_before_the_window() -> None:
    """The window begins at the next epoch already, the safe head has the old one."""
    checks = BatchCheckHarness(FORKS, first=1, last=2, times={1: 2, 2: 4})
    assert checked(checks, along(GENESIS, (0, FULL), (1, FULL))) == dropped(reasons.SpanBlockEpochUnknown)
    assert checked(checks, along(GENESIS, (1, FULL), (1, FULL))) == ACCEPTED


@case("full_time_before_origin")
def block_before_its_origin() -> None:
    for time, expected in ((5, dropped(reasons.TimestampBeforeOrigin)), (4, ACCEPTED)):
        checks = BatchCheckHarness(FORKS, times={1: time})
        assert checked(checks, along(GENESIS, (0, FULL), (1, FULL))) == expected


def drifting(times: dict[int, int], last: int = 2) -> BatchCheckHarness:
    """Return the maximum drift is four seconds; block n is 2 n seconds after genesis."""
    return BatchCheckHarness(forks_until("ecotone"), last=last, included=2, times=times, max_sequencer_drift=4)


@case("full_drift_long_span")
def users_too_far_ahead() -> None:
    checks = drifting({1: 7})
    assert checked(checks, along(GENESIS, (0, FULL), (0, FULL))) == ACCEPTED
    assert checked(checks, along(GENESIS, (0, FULL), (0, FULL), (0, FULL))) == dropped(reasons.DriftExceeded)


@case("full_drift_empty_late")
def empty_block_while_l1_is_late() -> None:
    rows = ((0, FULL), (0, FULL), (0, EMPTY))
    assert checked(drifting({1: 7}), along(GENESIS, *rows)) == ACCEPTED
    assert checked(drifting({1: 6}), along(GENESIS, *rows)) == dropped(reasons.DriftEpochNotAdvanced)


@case("full_drift_unknown_next")
def empty_block_before_an_unknown_l1_block() -> None:
    assert checked(drifting({}, last=0), along(GENESIS, *[(0, EMPTY)] * 3)) == undecided(reasons.DriftUndecidable)


@case("full_bit0_lie")
def first_origin_bit_does_not_count() -> None:
    """The first block is empty and too far ahead of its origin: it may be so only if it is the epoch's first."""
    checks = drifting({1: 1, 2: 2})
    checks.chain = along(GENESIS, (0, FULL), (0, FULL))
    checks.safe = checks.chain[-1].ref

    def fields(epoch: int, bit: int) -> SpanFields:
        origin = checks.l1[FIRST_L1 + epoch].ref
        return span_fields(
            [[]],
            [bit],
            relative_time=6,
            origin=origin.number,
            parent_check=checks.safe.hash[:20],
            origin_check=origin.hash[:20],
        )

    for bit in (0, 1):
        assert checks.span(fields(1, bit).encode(), full=True) == ACCEPTED
        assert checks.span(fields(0, bit).encode(), full=True) == dropped(reasons.DriftEpochNotAdvanced)


@table(
    full_setcode_cross_isthmus=("isthmus", SET_CODE, reasons.SetCodeNotAllowed),
    full_postexec_cross_lagoon=("lagoon", POST_EXEC, reasons.PostExecNotAllowed),
)
def transaction_type_by_the_blocks_own_time(fork: str, transaction: bytes, reason: AnyKind) -> None:
    """The fork comes with the second block; the full check does not ask whether that may have transactions."""
    checks = BatchCheckHarness({**FORKS, **forks_until("bedrock", **{fork: 4})})
    assert checked(checks, along(GENESIS, (0, FULL), (0, (transaction,)))) == ACCEPTED
    assert checked(checks, along(GENESIS, (0, (transaction,)), (0, FULL))) == dropped(reason)


@table(full_postexec_first=0, full_postexec_middle=1, full_postexec_last=2)
def post_exec_in_a_block(place: int) -> None:
    """No block of the span counts, before Holocene and thus before Lagoon; its channel continues."""
    rows: list[tuple[int, tuple[bytes, ...]]] = [(0, FULL)] * 3
    rows[place] = (0, (USER, POST_EXEC))
    bad, good = along(GENESIS, *rows), along(GENESIS, *[(0, FULL)] * 3)
    assert checked(BatchCheckHarness(FORKS), bad) == dropped(reasons.PostExecNotAllowed)
    chain = RollupChain(FORKS)
    chain.mine(*channel("A", span(bad), span(good)))
    assert refs(chain.run()) == refs(good)
    assert chain.take_drops() == [(DropEffect.DROPPED, reasons.PostExecNotAllowed)]


def again(checks: BatchCheckHarness, transactions: tuple[bytes, ...] = FULL, epoch: int | None = None) -> list[Planned]:
    """Blocks 3 to 6 once more and two new ones; block 5 with these transactions, block 6 with this epoch."""
    chain = [checks.chain[2], checks.chain[3]]
    chain.append(child(chain[-1].ref, transactions))
    chain.append(child(chain[-1].ref, FULL, None if epoch is None else FIRST_L1 + epoch))
    return [*chain, *plan(chain[-1].ref, 2)]


@table(
    full_overlap_same=(FULL, None, ACCEPTED),
    full_overlap_tx_count=((USER, USER), None, dropped(reasons.OverlapCountMismatch)),
    full_overlap_tx_bytes=((OTHER_USER,), None, dropped(reasons.OverlapTransactionsMismatch)),
    full_overlap_origin=(FULL, 0, dropped(reasons.OverlapEpochMismatch)),
)
def overlap(transactions: tuple[bytes, ...], epoch: int | None, expected: CheckResult) -> None:
    """Block 6 is the first with origin 1."""
    checks = BatchCheckHarness(FORKS, safe=6, first=1, last=2)
    assert checks.safe.l1_origin.number == FIRST_L1 + 1 != checks.block(5).l1_origin.number
    assert checked(checks, again(checks, transactions, epoch)) == expected


@case("full_overlap_fetch_fail")
def block_of_the_overlap_is_unavailable() -> None:
    """The batch is checked again later and then accepted, whether the parent or a later block is unavailable."""
    checks = BatchCheckHarness(FORKS, safe=90, first=15, last=17)
    blocks = plan(checks.block(2), 90)
    for number, reason in ((2, reasons.SpanParentUnavailable), (80, reasons.OverlapBlockUnavailable)):
        checks.withheld = {number}
        assert checked(checks, blocks) == undecided(reason)
    checks.withheld.clear()
    assert checked(checks, blocks) == ACCEPTED


@pytest.mark.option("rollup.span-overlap-check", by="overlap_check")
@case("full_overlap_holocene_tag")
def other_content_in_holocene() -> None:
    """With N1, the default, the batch is dropped with its channel; without, as at the tag, its new blocks count."""
    config = rollup(forks_until("holocene"))
    assert DerivationConfig(config, L1_CHAIN).span_overlap_check and Deriver(config, L1_CHAIN).span_overlap_check
    for overlap_check in (True, False):
        chain = RollupChain(forks_until("holocene"), overlap_check=overlap_check)
        blocks = plan(GENESIS, 3)
        other = child(blocks[1].ref, (OTHER_USER,))
        new = plan(other.ref, 2)
        chain.mine()
        chain.mine(*channel("A", span(blocks)), *channel("B", span([other, *new]), plan(blocks[2].ref, 1)[0].singular))
        result = chain.run()
        assert refs(result[:3]) == refs(blocks)
        if overlap_check:
            assert len(result) == 3
            assert chain.take_drops() == [(DropEffect.FLUSHED, reasons.OverlapTransactionsMismatch)]
        else:
            assert [item.ref.timestamp for item in result[3:]] == [item.ref.timestamp for item in new]
            assert chain.take_drops() == [(DropEffect.PAST, reasons.TimestampPast)]


@case("full_all_or_nothing")
def an_invalid_block_takes_the_span_with_it() -> None:
    """The third block has an epoch whose time has not come; block by block, in Holocene, two are accepted."""
    blocks = along(GENESIS, (0, FULL), (0, FULL), (1, FULL))
    for fork, accepted, effect in (("granite", 0, DropEffect.DROPPED), ("holocene", 2, DropEffect.FLUSHED)):
        chain = RollupChain(forks_until(fork))
        chain.mine()
        chain.mine(*channel("A", span(blocks)))
        assert refs(chain.run()) == refs(blocks)[:accepted]
        assert chain.take_drops() == [(effect, reasons.TimestampBeforeOrigin)]
