"""The batch queue before Holocene, empty blocks included (derivation-rules 17 and 18)."""

from dataclasses import replace

import msgspec
import pytest

from rollup_node.stages.derivation.pipeline.base_batch_stage import AcceptedBatch
from rollup_node.stages.derivation.pipeline.batch_checks import ACCEPTED, BatchVerdict
from rollup_node.stages.derivation.pipeline.batch_queue import BatchQueue
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedL1Block
from rollup_node.stages.derivation.pipeline.span_checks import SpanBatchChecks
from rollup_node.stages.derivation.reasons.reading import ChannelBehindSafeHead
from rollup_node.stages.derivation.reasons.singular import EpochHashMismatch, TimestampPast
from rollup_node.stages.derivation.reasons.span import PendingSpanMismatch, SpanOriginUnknown
from rollup_node.stages.derivation.reasons.stages import L1OriginInvalid, SafeOriginMismatch
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import BlockId
from tests.conformance.kit.cases import case
from tests.conformance.kit.chain import FIRST_L1, forks_until
from tests.conformance.kit.spans import Tx
from tests.conformance.kit.stage_bench import StageBench
from tests.conformance.kit.worlds import GENESIS, USER, World, channel, child, l1_time, plan, refs, span

FORKS = forks_until("granite")
OTHER = Tx(content=(b"\x06", b"\x09", b"")).full(28)
EVERY_SECOND = [1, 2, 3, 4, 5, 6, 7, 8]
"""L1 block times that L2's, of two seconds, are always ahead of."""


def after(*batches: bytes, at: int = 1, forks: dict[str, int] | None = None, **changes: int) -> World:
    """A world in which these batches come in one channel, in the L1 block of this distance from genesis'."""
    world = World(forks or FORKS, **changes)
    world.mine_until(FIRST_L1 + at - 1)
    world.mine(*channel("A", *batches))
    return world


@case("queue_order")
def batches_wait_for_their_turn() -> None:
    first, second = plan(GENESIS, 2)
    world = after(second.singular, first.singular)
    assert refs(world.run()) == refs([first, second])
    assert world.dropped == []


@case("queue_first_seen_wins")
def first_of_two() -> None:
    first, second = child(GENESIS, (OTHER,)), child(GENESIS, (USER,))
    world = after(first.singular, second.singular)
    assert refs(world.run()) == refs([first])
    assert world.effects() == [(DropEffect.DROPPED, TimestampPast)]


@case("queue_drop_then_valid")
def second_where_the_first_is_invalid() -> None:
    first, second = child(GENESIS, (OTHER,), epoch_hash=b"\x99" * 32), child(GENESIS, (USER,))
    world = after(first.singular, second.singular)
    assert refs(world.run()) == refs([second])
    assert world.effects() == [(DropEffect.DROPPED, EpochHashMismatch)]


@case("queue_undecided_blocks")
def an_undecided_span_holds_up_the_queue() -> None:
    """Its last epoch is L1 block 3, which is not known when it comes in block 1 with another batch behind it."""
    blocks = plan(GENESIS, 20)
    assert blocks[-1].ref.l1_origin.number == FIRST_L1 + 3
    world = after(span(blocks), child(GENESIS, (OTHER,)).singular)
    for _ in range(2):
        assert world.run() == []
        assert world.deriver.stalled_by is not None and type(world.deriver.stalled_by) is SpanOriginUnknown
        world.mine()
    assert refs(world.run()) == refs(blocks)
    assert world.deriver.stalled_by is None
    assert world.effects() == [(DropEffect.DROPPED, TimestampPast)]


@case("queue_behind_discard")
def batches_before_the_safe_heads_origin() -> None:
    """At a start below the safe head, whose origin is L1 block 3, what ends in block 2 is discarded."""
    first, second = plan(GENESIS, 20), plan(plan(GENESIS, 20)[-1].ref, 2)
    world = World(FORKS)
    world.mine()
    world.mine(*channel("B", second[0].singular))
    world.mine(*channel("A", *[block.singular for block in first]))
    world.mine(*channel("C", second[1].singular))
    assert len(world.run()) == 22
    world.dropped.clear()
    assert world.l2[20].ref.l1_origin.number == FIRST_L1 + 3
    world.reset(FIRST_L1 + 1, safe=20)
    assert world.run() == []
    assert world.effects() == [
        (DropEffect.DISCARDED, ChannelBehindSafeHead),
        *[(DropEffect.DROPPED, TimestampPast)] * 20,
    ]
    world.mine(*channel("D", second[0].singular))
    assert refs(world.run()) == refs(second)


@case("queue_error_no_derive")
def nothing_is_derived_in_the_call_that_read_nothing() -> None:
    first, second = plan(GENESIS, 2)
    bench = StageBench(BatchQueue, FORKS)
    bench.feed(second.singular, Flow.MORE)
    assert bench.next() is Flow.MORE, "in the queue, for later"
    assert bench.next(first.ref) is Flow.MORE, "the reader had to drop a batch"
    accepted = bench.next(first.ref)
    assert isinstance(accepted, AcceptedBatch) and accepted.batch.timestamp == second.ref.timestamp


# --- empty blocks --------------------------------------------------------------------------------------------------


@case("queue_forced_equal")
def empty_blocks_once_the_window_is_over() -> None:
    world = World(FORKS, seq_window_size=5)
    world.mine_until(FIRST_L1 + 4)
    assert world.run() == []
    world.mine()
    found = world.run()
    assert refs(found) == refs(plan(GENESIS, 5, ()))
    assert {(each.inclusion, each.ref.l1_origin.number, each.users) for each in found} == {(FIRST_L1 + 5, FIRST_L1, ())}
    assert all(each.concluding for each in found)


@case("queue_forced_not_yet")
def data_of_the_last_block_of_the_window_comes_first() -> None:
    blocks = plan(GENESIS, 3)
    world = after(*[block.singular for block in blocks], at=5, seq_window_size=5)
    found = world.run()
    assert refs(found) == refs([*blocks, *plan(blocks[-1].ref, 2, ())])
    late = after(blocks[0].singular, at=6, seq_window_size=5)
    assert late.run()[0].users == ()
    assert late.effects()[0] == (DropEffect.DROPPED, TimestampPast)


def ahead_of_l1(**changes: int) -> World:
    """A world whose L2 time is ahead of L1's, up to L1 block 3, at which the first epoch's window is over."""
    world = World(FORKS, seq_window_size=3, **changes)
    for time in EVERY_SECOND[:3]:
        world.mine(time=time)
    return world


@case("queue_forced_first_of_epoch")
def every_epoch_has_a_block() -> None:
    """Although the time of the epoch after it has come already."""
    world = ahead_of_l1()
    assert world.run() == [], "the first epoch has genesis: it is given up for the next"
    for place, time in enumerate(EVERY_SECOND[3:6], start=1):
        world.mine(time=time)
        (block,) = world.run()
        assert block.ref.l1_origin.number == FIRST_L1 + place
        assert block.ref.timestamp >= world.l1[FIRST_L1 + place + 1].header.timestamp
        assert block.ref.sequence_number == 0


@case("queue_forced_needs_next")
def no_empty_block_before_the_next_l1_block_is_known() -> None:
    bench = StageBench(BatchQueue, FORKS, last=4, seq_window_size=3)
    del bench.l1_window.blocks[1:]
    assert bench.next() is Flow.OUT_OF_DATA
    assert len(bench.l1_window) == 1, "the epoch is kept"
    alone = L1OriginWindow(bench.l1.blocks[0])
    assert alone.empty_batch(GENESIS, bench.l1.last.ref, True, 3, 2) is None
    alone.blocks.append(bench.l1.blocks[1])
    assert alone.empty_batch(GENESIS, bench.l1.last.ref, True, 3, 2) is not None


@case("queue_advance_then_wait")
def one_more_l1_block_before_the_next_epoch() -> None:
    """Block 6 would be of L1 block 1, whose window is over with L1 block 6."""
    world = World(FORKS, seq_window_size=5)
    world.mine_until(FIRST_L1 + 5)
    assert world.run()[-1].ref.timestamp == l1_time(FIRST_L1 + 1) - 2
    assert isinstance(world.last, NeedL1Block)
    world.mine()
    found = world.run()
    assert (found[0].ref.timestamp, found[0].ref.l1_origin.number) == (l1_time(FIRST_L1 + 1), FIRST_L1 + 1)
    assert found[0].inclusion == FIRST_L1 + 6


@case("queue_late_batch_after_advance")
def a_batch_instead_of_the_empty_block() -> None:
    world = World(FORKS, seq_window_size=5)
    world.mine_until(FIRST_L1 + 5)
    (*_, last) = world.run()
    block = child(last.ref)
    assert block.ref.l1_origin.number == FIRST_L1 + 1
    world.mine(*channel("A", block.singular))
    found = world.run()
    assert refs(found[:1]) == refs([block])
    assert all(each.users == () for each in found[1:])


@case("queue_skip_epoch_singular")
def an_epoch_is_left_out() -> None:
    """A batch of L1 block 2 is accepted on a block of L1 block 0, but cannot be built: the same reset again."""
    world = ahead_of_l1()
    assert world.run() == []
    block = child(GENESIS, epoch=FIRST_L1 + 2)
    world.mine(*channel("A", block.singular), time=EVERY_SECOND[3])
    for _ in range(2):
        assert world.run() == []
        assert world.reset_reason is not None and type(world.reset_reason) is L1OriginInvalid
        assert world.effects() == [(DropEffect.RESET, L1OriginInvalid)]
        world.reset(FIRST_L1)


@case("queue_reset_origin_mismatch")
def a_safe_head_from_another_l1_chain() -> None:
    for origin in (BlockId(FIRST_L1, b"\x99" * 32), BlockId(FIRST_L1 - 2, b"\x98" * 32)):
        world = World(FORKS)
        world.l2[0] = replace(world.l2[0], ref=msgspec.structs.replace(GENESIS, l1_origin=origin))
        world.mine()
        assert world.run() == []
        assert world.reset_reason is not None and type(world.reset_reason) is SafeOriginMismatch


# --- spans ---------------------------------------------------------------------------------------------------------


@case("queue_span_pop")
def a_span_block_by_block() -> None:
    world = after(span(plan(GENESIS, 3)))
    assert [each.concluding for each in world.run()] == [False, False, True]


@case("queue_span_parent_jump")
def rest_of_a_span_that_does_not_fit() -> None:
    """The engine refuses the second block, and with it takes back the first: the third has nothing to stand on."""
    blocks = plan(GENESIS, 3)
    world = after(span(blocks))
    refused = [blocks[1].ref.timestamp]
    world.is_refused = lambda attributes: attributes.timestamp in refused and not refused.clear()
    assert world.run() == []
    assert world.effects() == [(DropEffect.DISCARDED, PendingSpanMismatch)]
    world.mine(*channel("B", blocks[0].singular))
    assert refs(world.run()) == refs(blocks[:1])


class Credulous(SpanBatchChecks):
    """Accepts every span."""

    def check_full(self, *arguments: object) -> BatchVerdict:  # type: ignore[override]
        return ACCEPTED


@case("queue_extraction_error")
def an_accepted_span_that_cannot_be_used() -> None:
    """The full check rules it out, so that it is a contradiction of our own."""
    bench = StageBench(BatchQueue, FORKS, last=1, span_checks=Credulous)
    bench.feed(span(plan(GENESIS, 20)))
    with pytest.raises(CriticalError, match="epoch 1003 of its new blocks is not among"):
        bench.next()
