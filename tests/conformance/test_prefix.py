"""The prefix checks of span batches, in their order [PX1 to PX12]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.pipeline.batch_checks import BatchValidity
from rollup_node.stages.derivation.pipeline.outputs import NeedL2Blocks
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.messages.derivation import DropEffect
from tests.conformance.kit.batch_checks import ACCEPTED, BatchCheckHarness, CheckResult, dropped, undecided
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import FIRST_L1, GENESIS, forks_until
from tests.conformance.kit.planning import USER, Planned, along, channel, child, plan, refs, span
from tests.conformance.kit.rollup_chain import RollupChain

pytestmark = pytest.mark.fault("F32")

OLD, NEW = forks_until("granite"), forks_until("holocene")
ERAS = (OLD, NEW)
AROUND = forks_until("granite", holocene=24)
"""Holocene is at the third L1 block, 24 seconds after genesis."""


def changed(checks: BatchCheckHarness, blocks: list[Planned], **values: object) -> SpanBatch:
    """Return the span of these blocks with other values in decoded fields."""
    batch = checks.decoded(span(blocks))
    assert isinstance(batch, SpanBatch)
    return msgspec.structs.replace(batch, **values)


LONG_SAFE = {"safe": along(GENESIS, 0, 1, 2), "first": 2, "last": 3}
"""The safe head's epoch is the first of the window."""


@table(
    prefix_origin_next_unknown=(
        ({"last": 0, "included": 1, "times": {1: 2}}, [1], undecided(reasons.SpanStartEpochUnknown)),
        ({"last": 1, "times": {1: 2}}, [1], ACCEPTED),
    ),
    prefix_window_edge=(
        ({"last": 5, "seq_window_size": 5}, [0, 0], ACCEPTED),
        ({"last": 6, "seq_window_size": 5}, [0, 0], dropped(reasons.SpanWindowExpired)),
    ),
    prefix_epoch_jump=(
        ({"times": {1: 1, 2: 2}}, [2], dropped(reasons.SpanEpochTooNew)),
        ({"times": {1: 1, 2: 2}}, [1, 2], ACCEPTED),
    ),
    prefix_end_epoch_too_new=(
        ({"last": 1, "included": 2}, [1, 2], undecided(reasons.SpanOriginUnknown)),
        ({"last": 2}, [1, 2], ACCEPTED),
    ),
    # An epoch before the window is like one after it: undecided, although it can never be decided.
    prefix_end_epoch_too_old=((LONG_SAFE, [1, 1], undecided(reasons.SpanOriginUnknown)),),
    prefix_start_epoch_old=((LONG_SAFE, [1, 2], dropped(reasons.SpanEpochTooOld)),),
)
def epochs(*rows: tuple[dict[str, Any], list[int], CheckResult]) -> None:
    for forks in ERAS:
        for changes, epochs, expected in rows:
            checks = BatchCheckHarness(forks, **changes)
            assert checks.span(span(along(checks.safe, *epochs))) == expected


@case("prefix_pre_delta_origin")
def epoch_before_delta() -> None:
    """The epoch's time counts, not that of the L1 block in which the batch came."""
    for delta, expected in ((1, dropped(reasons.SpanEpochNotAllowed)), (0, ACCEPTED)):
        assert BatchCheckHarness(forks_until("canyon", delta=delta)).span(span(plan(GENESIS, 3))) == expected


@table(
    prefix_future_pre=(1, (BatchValidity.FUTURE, reasons.SpanAhead)),
    prefix_future_holocene=(2, dropped(reasons.SpanAhead)),
)
def a_gap(included: int, expected: CheckResult) -> None:
    checks = BatchCheckHarness(AROUND, included=included)
    assert checks.span(span(plan(GENESIS, 3)[1:])) == expected


@table(
    prefix_old_pre=(1, dropped(reasons.SpanPast)),
    prefix_old_holocene=(2, (BatchValidity.PAST, reasons.SpanPast)),
)
def all_of_it_is_old(included: int, expected: CheckResult) -> None:
    checks = BatchCheckHarness(AROUND, safe=3, included=included)
    assert checks.span(span(checks.chain)) == expected


@table(
    prefix_between=(1, dropped(reasons.SpanStartBetweenBlocks)),
    prefix_misaligned=(-1, dropped(reasons.SpanMisaligned)),
)
def out_of_step(seconds: int, expected: CheckResult) -> None:
    """The span starts this many seconds after the safe head; blocks come every two."""
    for forks in ERAS:
        checks = BatchCheckHarness(forks, safe=4)
        batch = changed(checks, plan(checks.safe, 3), first_timestamp=checks.safe.timestamp + seconds)
        assert checks.span(batch) == expected
        slow = BatchCheckHarness(forks, block_time=3)
        slow.safe = msgspec.structs.replace(GENESIS, number=100, timestamp=GENESIS.timestamp + 301)
        slow.withheld = {95}
        for back, verdict in ((12, undecided(reasons.SpanParentUnavailable)), (13, dropped(reasons.SpanMisaligned))):
            batch = changed(slow, plan(GENESIS, 9), first_timestamp=slow.safe.timestamp - back)
            assert slow.span(batch) == verdict


@case("prefix_overlap_ok")
def overlap() -> None:
    """It goes over blocks 8 to 10 once more: its parent is block 7."""
    for forks in ERAS:
        checks = BatchCheckHarness(forks, safe=10)
        batch = span(plan(checks.block(7), 5))
        assert checks.span(batch) == ACCEPTED
        assert checks.requested == [NeedL2Blocks(7, 10)]
        first = BatchCheckHarness(forks, safe=3)
        assert first.span(span(plan(GENESIS, 5))) == ACCEPTED
        assert first.requested == [NeedL2Blocks(0, 3)]
        checks.chain[6] = child(checks.block(6), (USER, USER))
        assert BatchCheckHarness(forks, safe=checks.chain).span(batch) == dropped(reasons.SpanParentMismatch)


@case("prefix_overlap_genesis")
def overlap_down_to_genesis() -> None:
    """Genesis has no parent: nothing is requested, and the batch stays undecided."""
    for forks in ERAS:
        checks = BatchCheckHarness(forks, safe=2)
        for back in (0, 2, 40):
            batch = changed(checks, plan(GENESIS, 30), first_timestamp=GENESIS.timestamp - back)
            assert checks.span(batch) == undecided(reasons.SpanParentUnavailable)
            assert checks.requested == []


@case("prefix_parent_mismatch")
def another_parent() -> None:
    for forks in ERAS:
        checks = BatchCheckHarness(forks)
        for place in (0, 19):
            wrong = bytearray(GENESIS.hash[:20])
            wrong[place] ^= 1
            assert checks.span(changed(checks, plan(GENESIS, 2), parent_check=bytes(wrong))) == dropped(
                reasons.SpanParentMismatch
            )


@case("prefix_parent_20_only")
def twenty_bytes_of_the_parent() -> None:
    checks = BatchCheckHarness(NEW)
    checks.safe = msgspec.structs.replace(GENESIS, hash=GENESIS.hash[:20] + b"\x99" * 12)
    assert checks.span(span(plan(GENESIS, 2))) == ACCEPTED


@case("prefix_origin_check_bad")
def another_last_origin() -> None:
    for forks in ERAS:
        checks = BatchCheckHarness(forks)
        assert checks.span(changed(checks, plan(GENESIS, 8), origin_check=b"\x99" * 20)) == dropped(
            reasons.SpanOriginMismatch
        )


@case("prefix_accept_l1_hash_middle")
def origins_in_the_middle_are_not_checked() -> None:
    """The origin bits in the middle are those of another L1 block: the span is accepted, and the blocks get our L1
    block."""
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
        chain = RollupChain(forks_until(fork))
        chain.mine_until(FIRST_L1 + 3)
        chain.mine(*channel("A", span(theirs)))
        assert refs(chain.run()) == refs(ours)
        assert chain.dropped == []
    chain = RollupChain(forks_until("holocene"))
    chain.mine_until(FIRST_L1 + 3)
    chain.mine(*channel("A", *[block.singular for block in theirs]))
    chain.run()
    assert chain.take_drops()[0] == (DropEffect.FLUSHED, reasons.EpochHashMismatch)
