"""The judgement of whole span batches before Holocene (derivation-rules 15)."""

from rollup_node.stages.derivation.pipeline.batch_checks import BatchValidity
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.derivation.reasons.singular import (
    DriftEpochNotAdvanced,
    DriftExceeded,
    DriftUndecidable,
    SetCodeNotAllowed,
    TimestampBeforeOrigin,
    TimestampPast,
)
from rollup_node.stages.derivation.reasons.span import (
    OverlapBlockUnavailable,
    OverlapCountMismatch,
    OverlapEpochMismatch,
    OverlapTransactionsMismatch,
    SpanBlockEpochTooOld,
    SpanBlockEpochUnknown,
    SpanParentUnavailable,
)
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.types import L2BlockRef
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import FIRST_L1, forks_until
from tests.conformance.kit.judging import ACCEPTED, Bench, Judged
from tests.conformance.kit.spans import SpanFields, Tx, span_fields
from tests.conformance.kit.worlds import GENESIS, USER, Planned, World, channel, child, plan, refs, span

FORKS = forks_until("granite")
OTHER = Tx(content=(b"\x06", b"\x09", b"")).full(28)
"""Another user's transaction."""
SET_CODE = Tx(4, (b"\x05", b"\x01", b"\x09", b"", [], [])).full()
FULL, EMPTY = (USER,), ()


def drop(why: type[Reason]) -> Judged:
    return BatchValidity.DROP, why


def undecided(why: type[Reason]) -> Judged:
    return BatchValidity.UNDECIDED, why


def along(parent: L2BlockRef, *rows: tuple[int, tuple[bytes, ...]]) -> list[Planned]:
    """Blocks with these origins (by their distance from genesis') and transactions."""
    found: list[Planned] = []
    for epoch, transactions in rows:
        found.append(child(parent, transactions, FIRST_L1 + epoch))
        parent = found[-1].ref
    return found


def judged(bench: Bench, blocks: list[Planned]) -> Judged:
    """What all checks say of the span of these blocks."""
    return bench.span(span(blocks), full=True)


@case("full_epoch_behind_safe")
def new_block_with_an_epoch_before_the_safe_heads() -> None:
    """It starts one block back, where the older epoch was still right."""
    bench = Bench(FORKS, safe=along(GENESIS, (0, FULL), (1, FULL)), first=1, last=2, times={1: 3, 2: 4})
    start = bench.block(1)
    assert judged(bench, along(start, (0, FULL), (0, FULL), (1, FULL))) == drop(SpanBlockEpochTooOld)
    assert judged(bench, along(start, (1, FULL), (1, FULL))) == ACCEPTED


@case("full_epoch_missing")
def new_block_with_an_epoch_that_was_given_up() -> None:
    """The window has gone on to the next epoch, the safe head has not."""
    bench = Bench(FORKS, first=1, last=2, times={1: 2, 2: 4})
    assert judged(bench, along(GENESIS, (0, FULL), (1, FULL))) == drop(SpanBlockEpochUnknown)
    assert judged(bench, along(GENESIS, (1, FULL), (1, FULL))) == ACCEPTED


@case("full_time_before_origin")
def block_before_its_origin() -> None:
    for time, expected in ((5, drop(TimestampBeforeOrigin)), (4, ACCEPTED)):
        bench = Bench(FORKS, times={1: time})
        assert judged(bench, along(GENESIS, (0, FULL), (1, FULL))) == expected


def drifting(times: dict[int, int], last: int = 2) -> Bench:
    """A bench on which four seconds may lie between a block and its origin; block n is 2 n seconds after genesis."""
    return Bench(forks_until("ecotone"), last=last, included=2, times=times, max_sequencer_drift=4)


@case("full_drift_long_span")
def users_too_far_ahead() -> None:
    bench = drifting({1: 7})
    assert judged(bench, along(GENESIS, (0, FULL), (0, FULL))) == ACCEPTED
    assert judged(bench, along(GENESIS, (0, FULL), (0, FULL), (0, FULL))) == drop(DriftExceeded)


@case("full_drift_empty_late")
def empty_block_while_l1_is_late() -> None:
    rows = ((0, FULL), (0, FULL), (0, EMPTY))
    assert judged(drifting({1: 7}), along(GENESIS, *rows)) == ACCEPTED
    assert judged(drifting({1: 6}), along(GENESIS, *rows)) == drop(DriftEpochNotAdvanced)


@case("full_drift_unknown_next")
def empty_block_before_an_unknown_l1_block() -> None:
    assert judged(drifting({}, last=0), along(GENESIS, *[(0, EMPTY)] * 3)) == undecided(DriftUndecidable)


@case("full_bit0_lie")
def first_origin_bit_does_not_count() -> None:
    """The first block is empty and too far ahead of its origin: it may be so only if it is the epoch's first."""
    bench = drifting({1: 1, 2: 2})
    bench.chain = along(GENESIS, (0, FULL), (0, FULL))
    bench.safe = bench.chain[-1].ref

    def fields(epoch: int, bit: int) -> SpanFields:
        origin = bench.l1[FIRST_L1 + epoch].ref
        return span_fields(
            [[]],
            [bit],
            relative_time=6,
            origin=origin.number,
            parent_check=bench.safe.hash[:20],
            origin_check=origin.hash[:20],
        )

    for bit in (0, 1):
        assert bench.span(fields(1, bit).encode(), full=True) == ACCEPTED
        assert bench.span(fields(0, bit).encode(), full=True) == drop(DriftEpochNotAdvanced)


@case("full_setcode_cross_isthmus")
def transaction_type_by_the_blocks_own_time() -> None:
    """Isthmus comes with the second block."""
    bench = Bench({**FORKS, **forks_until("bedrock", isthmus=4)})
    assert judged(bench, along(GENESIS, (0, FULL), (0, (SET_CODE,)))) == ACCEPTED
    assert judged(bench, along(GENESIS, (0, (SET_CODE,)), (0, FULL))) == drop(SetCodeNotAllowed)


def again(bench: Bench, transactions: tuple[bytes, ...] = FULL, epoch: int | None = None) -> list[Planned]:
    """Blocks 3 to 6 once more and two new ones; block 5 with these transactions, block 6 with this epoch."""
    chain = [bench.chain[2], bench.chain[3]]
    chain.append(child(chain[-1].ref, transactions))
    chain.append(child(chain[-1].ref, FULL, None if epoch is None else FIRST_L1 + epoch))
    return [*chain, *plan(chain[-1].ref, 2)]


@table(
    full_overlap_same=(FULL, None, ACCEPTED),
    full_overlap_tx_count=((USER, USER), None, drop(OverlapCountMismatch)),
    full_overlap_tx_bytes=((OTHER,), None, drop(OverlapTransactionsMismatch)),
    full_overlap_origin=(FULL, 0, drop(OverlapEpochMismatch)),
)
def overlap(transactions: tuple[bytes, ...], epoch: int | None, expected: Judged) -> None:
    """Block 6 is the first with origin 1."""
    bench = Bench(FORKS, safe=6, first=1, last=2)
    assert bench.safe.l1_origin.number == FIRST_L1 + 1 != bench.block(5).l1_origin.number
    assert judged(bench, again(bench, transactions, epoch)) == expected


@case("full_overlap_fetch_fail")
def block_of_the_overlap_is_not_to_be_had() -> None:
    """Whether it is the parent or a block behind it: tried again later, and then accepted."""
    bench = Bench(FORKS, safe=90, first=15, last=17)
    blocks = plan(bench.block(2), 90)
    for number, why in ((2, SpanParentUnavailable), (80, OverlapBlockUnavailable)):
        bench.withheld = {number}
        assert judged(bench, blocks) == undecided(why)
    bench.withheld.clear()
    assert judged(bench, blocks) == ACCEPTED


@case("full_overlap_holocene_tag")
def other_content_in_holocene() -> None:
    """With N1, our default, the batch goes and its channel with it; without, as at the tag, its new blocks count."""
    for overlap_check in (True, False):
        world = World(forks_until("holocene"), overlap_check=overlap_check)
        chain = plan(GENESIS, 3)
        other = child(chain[1].ref, (OTHER,))
        new = plan(other.ref, 2)
        world.mine()
        world.mine(*channel("A", span(chain)), *channel("B", span([other, *new]), plan(chain[2].ref, 1)[0].singular))
        found = world.run()
        assert refs(found[:3]) == refs(chain)
        if overlap_check:
            assert len(found) == 3
            assert world.effects() == [(DropEffect.FLUSHED, OverlapTransactionsMismatch)]
        else:
            assert [each.ref.timestamp for each in found[3:]] == [each.ref.timestamp for each in new]
            assert world.effects() == [(DropEffect.PAST, TimestampPast)]


@case("full_all_or_nothing")
def an_invalid_block_takes_the_span_with_it() -> None:
    """The third block has an epoch whose time has not come; block by block, in Holocene, two are accepted."""
    blocks = along(GENESIS, (0, FULL), (0, FULL), (1, FULL))
    for fork, accepted, effect in (("granite", 0, DropEffect.DROPPED), ("holocene", 2, DropEffect.FLUSHED)):
        world = World(forks_until(fork))
        world.mine()
        world.mine(*channel("A", span(blocks)))
        assert refs(world.run()) == refs(blocks)[:accepted]
        assert world.effects() == [(effect, TimestampBeforeOrigin)]
