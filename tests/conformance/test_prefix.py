"""The first part of the judgement of span batches (derivation-rules 14), one test after the other."""

import msgspec

from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.pipeline.batch_checks import BatchValidity
from rollup_node.stages.derivation.pipeline.outputs import NeedL2Blocks
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.derivation.reasons.singular import EpochHashMismatch
from rollup_node.stages.derivation.reasons.span import (
    SpanAhead,
    SpanEpochNotAllowed,
    SpanEpochTooNew,
    SpanEpochTooOld,
    SpanMisaligned,
    SpanOriginMismatch,
    SpanOriginUnknown,
    SpanParentMismatch,
    SpanParentUnavailable,
    SpanPast,
    SpanStartBetweenBlocks,
    SpanStartEpochUnknown,
    SpanWindowExpired,
)
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.types import L2BlockRef
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import FIRST_L1, forks_until
from tests.conformance.kit.judging import ACCEPTED, Bench, Judged
from tests.conformance.kit.worlds import GENESIS, USER, Planned, World, channel, child, plan, refs, span

OLD, NEW = forks_until("granite"), forks_until("holocene")
ERAS = (OLD, NEW)
AROUND = forks_until("granite", holocene=24)
"""Holocene is at the third L1 block, 24 seconds after genesis."""


def drop(why: type[Reason]) -> Judged:
    return BatchValidity.DROP, why


def undecided(why: type[Reason]) -> Judged:
    return BatchValidity.UNDECIDED, why


def along(parent: L2BlockRef, *l1_window: int) -> list[Planned]:
    """Blocks with these origins, by their distance from genesis'."""
    found: list[Planned] = []
    for epoch in l1_window:
        found.append(child(parent, (USER,), FIRST_L1 + epoch))
        parent = found[-1].ref
    return found


def changed(bench: Bench, blocks: list[Planned], **values: object) -> SpanBatch:
    """The span of these blocks with other values in decoded fields."""
    batch = bench.decoded(span(blocks))
    assert isinstance(batch, SpanBatch)
    return msgspec.structs.replace(batch, **values)


@case("prefix_origin_next_unknown")
def start_epoch_not_known_yet() -> None:
    for forks in ERAS:
        bench = Bench(forks, last=0, included=1, times={1: 2})
        batch = span(along(GENESIS, 1))
        assert bench.span(batch) == undecided(SpanStartEpochUnknown)
        assert Bench(forks, last=1, times={1: 2}).span(batch) == ACCEPTED


@case("prefix_pre_delta_origin")
def epoch_before_delta() -> None:
    """The epoch's time counts, not that of the L1 block in which the batch came."""
    for delta, expected in ((1, drop(SpanEpochNotAllowed)), (0, ACCEPTED)):
        assert Bench(forks_until("canyon", delta=delta)).span(span(plan(GENESIS, 3))) == expected


@table(
    prefix_future_pre=(1, (BatchValidity.FUTURE, SpanAhead)),
    prefix_future_holocene=(2, drop(SpanAhead)),
)
def a_gap(included: int, expected: Judged) -> None:
    bench = Bench(AROUND, included=included)
    assert bench.span(span(plan(GENESIS, 3)[1:])) == expected


@table(
    prefix_old_pre=(1, drop(SpanPast)),
    prefix_old_holocene=(2, (BatchValidity.PAST, SpanPast)),
)
def all_of_it_is_old(included: int, expected: Judged) -> None:
    bench = Bench(AROUND, safe=3, included=included)
    assert bench.span(span(bench.chain)) == expected


@table(
    prefix_between=(1, drop(SpanStartBetweenBlocks)),
    prefix_misaligned=(-1, drop(SpanMisaligned)),
)
def out_of_step(seconds: int, expected: Judged) -> None:
    """The span starts so many seconds after the safe head, which has whole blocks of two."""
    for forks in ERAS:
        bench = Bench(forks, safe=4)
        batch = changed(bench, plan(bench.safe, 3), first_timestamp=bench.safe.timestamp + seconds)
        assert bench.span(batch) == expected
        slow = Bench(forks, block_time=3)
        slow.safe = msgspec.structs.replace(GENESIS, number=100, timestamp=GENESIS.timestamp + 301)
        slow.withheld = {95}
        for back, verdict in ((12, undecided(SpanParentUnavailable)), (13, drop(SpanMisaligned))):
            batch = changed(slow, plan(GENESIS, 9), first_timestamp=slow.safe.timestamp - back)
            assert slow.span(batch) == verdict


@case("prefix_overlap_ok")
def overlap() -> None:
    """It goes over blocks 8 to 10 once more: its parent is block 7."""
    for forks in ERAS:
        bench = Bench(forks, safe=10)
        batch = span(plan(bench.block(7), 5))
        assert bench.span(batch) == ACCEPTED
        assert bench.asked == [NeedL2Blocks(7, 10)]
        first = Bench(forks, safe=3)
        assert first.span(span(plan(GENESIS, 5))) == ACCEPTED
        assert first.asked == [NeedL2Blocks(0, 3)]
        bench.chain[6] = child(bench.block(6), (USER, USER))
        assert Bench(forks, safe=bench.chain).span(batch) == drop(SpanParentMismatch)


@case("prefix_overlap_genesis")
def overlap_down_to_genesis() -> None:
    """There is no block before genesis: nobody is asked, and the batch is never decided."""
    for forks in ERAS:
        bench = Bench(forks, safe=2)
        for back in (0, 2, 40):
            batch = changed(bench, plan(GENESIS, 30), first_timestamp=GENESIS.timestamp - back)
            assert bench.span(batch) == undecided(SpanParentUnavailable)
            assert bench.asked == []


@case("prefix_parent_mismatch")
def another_parent() -> None:
    for forks in ERAS:
        bench = Bench(forks)
        for place in (0, 19):
            wrong = bytearray(GENESIS.hash[:20])
            wrong[place] ^= 1
            assert bench.span(changed(bench, plan(GENESIS, 2), parent_check=bytes(wrong))) == drop(SpanParentMismatch)


@case("prefix_parent_20_only")
def twenty_bytes_of_the_parent() -> None:
    bench = Bench(NEW)
    bench.safe = msgspec.structs.replace(GENESIS, hash=GENESIS.hash[:20] + b"\x99" * 12)
    assert bench.span(span(plan(GENESIS, 2))) == ACCEPTED


@case("prefix_window_edge")
def the_sequencing_window() -> None:
    for forks in ERAS:
        for included, expected in ((5, ACCEPTED), (6, drop(SpanWindowExpired))):
            bench = Bench(forks, last=included, seq_window_size=5)
            assert bench.span(span(along(GENESIS, 0, 0))) == expected


@case("prefix_epoch_jump")
def an_epoch_is_left_out() -> None:
    for forks in ERAS:
        bench = Bench(forks, times={1: 1, 2: 2})
        assert bench.span(span(along(GENESIS, 2))) == drop(SpanEpochTooNew)
        assert bench.span(span(along(GENESIS, 1, 2))) == ACCEPTED


@case("prefix_origin_check_bad")
def another_last_origin() -> None:
    for forks in ERAS:
        bench = Bench(forks)
        assert bench.span(changed(bench, plan(GENESIS, 8), origin_check=b"\x99" * 20)) == drop(SpanOriginMismatch)


@case("prefix_end_epoch_too_new")
def last_epoch_not_known_yet() -> None:
    for forks in ERAS:
        batch = span(along(GENESIS, 1, 2))
        assert Bench(forks, last=1, included=2).span(batch) == undecided(SpanOriginUnknown)
        assert Bench(forks, last=2).span(batch) == ACCEPTED


@case("prefix_end_epoch_too_old")
def last_epoch_not_known_any_more() -> None:
    """Too old is like too new: undecided, although it can never be decided."""
    for forks in ERAS:
        bench = Bench(forks, safe=along(GENESIS, 0, 1, 2), first=2, last=3)
        assert bench.span(span(along(bench.safe, 1, 1))) == undecided(SpanOriginUnknown)


@case("prefix_start_epoch_old")
def start_epoch_before_the_parents() -> None:
    for forks in ERAS:
        bench = Bench(forks, safe=along(GENESIS, 0, 1, 2), first=2, last=3)
        assert bench.span(span(along(bench.safe, 1, 2))) == drop(SpanEpochTooOld)


@case("prefix_accept_l1_hash_middle")
def origins_in_the_middle_are_not_checked() -> None:
    """A sequencer on another L1 block in the middle: its span is accepted, and the blocks get our L1 block."""
    ours = plan(GENESIS, 20)
    middle = FIRST_L1 + 2
    assert {block.ref.l1_origin.number for block in ours} == set(range(FIRST_L1, FIRST_L1 + 4))
    parent, theirs = GENESIS, []
    for block in ours:
        origin = block.ref.l1_origin
        other = b"\x99" * 32 if origin.number == middle else None
        theirs.append(child(parent, block.transactions, origin.number, epoch_hash=other))
        parent = theirs[-1].ref
    for fork in ("granite", "holocene"):
        world = World(forks_until(fork))
        world.mine_until(FIRST_L1 + 3)
        world.mine(*channel("A", span(theirs)))
        assert refs(world.run()) == refs(ours)
        assert world.dropped == []
    world = World(forks_until("holocene"))
    world.mine_until(FIRST_L1 + 3)
    world.mine(*channel("A", *[block.singular for block in theirs]))
    world.run()
    assert world.effects()[0] == (DropEffect.FLUSHED, EpochHashMismatch)
