"""The batch queue, before Holocene, and empty batches [E1 to E9, BQ1 to BQ13]."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from rollup_node.stages.derivation.pipeline.batch_checks import ACCEPTED, BatchChecks, BatchVerdict
from rollup_node.stages.derivation.pipeline.batch_stages import AcceptedBatch, BatchQueue
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.derivation.pipeline.outputs import Flow, NeedL1Block
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons.channels import ChannelBehindSafeHead
from rollup_node.stages.derivation.reasons.reason import AnyKind
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import BlockId
from tests.conformance.kit.batch_stage import BatchStageHarness
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import FIRST_L1, GENESIS, forks_until, l1_time
from tests.conformance.kit.planning import (
    OTHER_USER,
    POST_EXEC,
    USER,
    Planned,
    channel,
    child,
    plan,
    refs,
    singulars,
    span,
)
from tests.conformance.kit.rollup_chain import RollupChain

pytestmark = pytest.mark.fault("F36")

FORKS = forks_until("granite")
EVERY_SECOND = [1, 2, 3, 4, 5, 6, 7, 8]
"""L1 block times one second apart: L2 time, two seconds a block, is always ahead."""


def after(*batches: bytes, at: int = 1, **changes: Any) -> RollupChain:
    """Return a chain with these batches in one channel, in the L1 block of this distance from genesis'."""
    chain = RollupChain(FORKS, **changes)
    chain.mine_until(FIRST_L1 + at - 1)
    chain.mine(*channel("A", *batches))
    return chain


FIRST, SECOND = plan(GENESIS, 2)
OTHER_FIRST, WITH_POST_EXEC = child(GENESIS, (OTHER_USER,)), child(GENESIS, (USER, POST_EXEC))
OF_OTHER_L1 = child(GENESIS, (OTHER_USER,), epoch_hash=b"\x99" * 32)


@table(
    queue_order=([SECOND, FIRST], [FIRST, SECOND], []),
    queue_first_seen_wins=([OTHER_FIRST, FIRST], [OTHER_FIRST], [reasons.TimestampPast]),
    queue_postexec_singular=([WITH_POST_EXEC, FIRST], [FIRST], [reasons.PostExecNotAllowed]),
    queue_drop_then_valid=([OF_OTHER_L1, FIRST], [FIRST], [reasons.EpochHashMismatch]),
)
def a_channel(batches: list[Planned], derived: list[Planned], dropped: list[AnyKind]) -> None:
    """A batch that is dropped does not end its channel."""
    chain = after(*singulars(batches))
    assert refs(chain.run()) == refs(derived)
    assert chain.take_drops() == [(DropEffect.DROPPED, reason) for reason in dropped]


@case("queue_undecided_blocks")
def an_undecided_span_holds_up_the_queue() -> None:
    """Its last epoch is L1 block 3, which is not known when it comes in block 1 with another batch behind it."""
    blocks = plan(GENESIS, 20)
    assert blocks[-1].ref.l1_origin.number == FIRST_L1 + 3
    chain = after(span(blocks), child(GENESIS, (OTHER_USER,)).singular)
    for _ in range(2):
        assert chain.run() == []
        assert chain.deriver.stalled_by is not None and chain.deriver.stalled_by.kind is reasons.SpanOriginUnknown
        chain.mine()
    assert refs(chain.run()) == refs(blocks)
    assert chain.deriver.stalled_by is None
    assert chain.take_drops() == [(DropEffect.DROPPED, reasons.TimestampPast)]


@case("queue_behind_discard")
def batches_before_the_safe_heads_origin() -> None:
    """At a start below the safe head, whose origin is L1 block 3, what ends in block 2 is discarded."""
    first, second = plan(GENESIS, 20), plan(plan(GENESIS, 20)[-1].ref, 2)
    chain = RollupChain(FORKS)
    chain.mine()
    chain.mine(*channel("B", second[0].singular))
    chain.mine(*channel("A", *[block.singular for block in first]))
    chain.mine(*channel("C", second[1].singular))
    assert len(chain.run()) == 22
    chain.dropped.clear()
    assert chain.l2[20].ref.l1_origin.number == FIRST_L1 + 3
    chain.reset(FIRST_L1 + 1, safe=20)
    assert chain.run() == []
    assert chain.take_drops() == [
        (DropEffect.DISCARDED, ChannelBehindSafeHead),
        *[(DropEffect.DROPPED, reasons.TimestampPast)] * 20,
    ]
    chain.mine(*channel("D", second[0].singular))
    assert refs(chain.run()) == refs(second)


@case("queue_error_no_derive")
def nothing_is_derived_in_the_call_that_read_nothing() -> None:
    harness = BatchStageHarness(BatchQueue, FORKS)
    harness.feed(SECOND.singular, Flow.MORE)
    assert harness.next() is Flow.MORE, "in the queue, for later"
    assert harness.next(FIRST.ref) is Flow.MORE, "the reader has dropped a batch"
    accepted = harness.next(FIRST.ref)
    assert isinstance(accepted, AcceptedBatch) and accepted.batch.timestamp == SECOND.ref.timestamp


# --- empty blocks --------------------------------------------------------------------------------------------------


@case("queue_forced_equal")
def empty_blocks_once_the_window_is_over() -> None:
    chain = RollupChain(FORKS, seq_window_size=5)
    chain.mine_until(FIRST_L1 + 4)
    assert chain.run() == []
    chain.mine()
    result = chain.run()
    assert refs(result) == refs(plan(GENESIS, 5, ()))
    assert {(item.inclusion, item.ref.l1_origin.number, item.users) for item in result} == {
        (FIRST_L1 + 5, FIRST_L1, ())
    }
    assert all(item.concluding for item in result)


@case("queue_forced_not_yet")
def data_of_the_last_block_of_the_window_comes_first() -> None:
    blocks = plan(GENESIS, 3)
    chain = after(*[block.singular for block in blocks], at=5, seq_window_size=5)
    result = chain.run()
    assert refs(result) == refs([*blocks, *plan(blocks[-1].ref, 2, ())])
    late = after(blocks[0].singular, at=6, seq_window_size=5)
    assert late.run()[0].users == ()
    assert late.take_drops()[0] == (DropEffect.DROPPED, reasons.TimestampPast)


def ahead_of_l1() -> RollupChain:
    """Return a chain whose L2 time is ahead of L1's, up to L1 block 3, at which the first epoch's window has
    expired."""
    chain = RollupChain(FORKS, seq_window_size=3)
    for time in EVERY_SECOND[:3]:
        chain.mine(time=time)
    return chain


@case("queue_forced_first_of_epoch")
def every_epoch_has_a_block() -> None:
    """Although the time of the epoch after it has come already."""
    chain = ahead_of_l1()
    assert chain.run() == [], "the first epoch has genesis: it is removed from the window"
    for place, time in enumerate(EVERY_SECOND[3:6], start=1):
        chain.mine(time=time)
        (block,) = chain.run()
        assert block.ref.l1_origin.number == FIRST_L1 + place
        assert block.ref.timestamp >= chain.l1[FIRST_L1 + place + 1].header.timestamp
        assert block.ref.sequence_number == 0


@case("queue_forced_needs_next")
def no_empty_block_before_the_next_l1_block_is_known() -> None:
    harness = BatchStageHarness(BatchQueue, FORKS, last=4, seq_window_size=3)
    del harness.l1_window.blocks[1:]
    assert harness.next() is Flow.OUT_OF_DATA
    assert len(harness.l1_window) == 1, "the epoch is kept"
    alone = L1OriginWindow(harness.l1.blocks[0])
    assert alone.empty_batch(GENESIS, harness.l1.last.ref, True, 3, 2) is None
    alone.blocks.append(harness.l1.blocks[1])
    assert alone.empty_batch(GENESIS, harness.l1.last.ref, True, 3, 2) is not None


@case("queue_advance_then_wait")
def one_more_l1_block_before_the_next_epoch() -> None:
    """Block 6 would be of L1 block 1, whose window is over with L1 block 6."""
    chain = RollupChain(FORKS, seq_window_size=5)
    chain.mine_until(FIRST_L1 + 5)
    assert chain.run()[-1].ref.timestamp == l1_time(FIRST_L1 + 1) - 2
    assert isinstance(chain.last_output, NeedL1Block)
    chain.mine()
    result = chain.run()
    assert (result[0].ref.timestamp, result[0].ref.l1_origin.number) == (l1_time(FIRST_L1 + 1), FIRST_L1 + 1)
    assert result[0].inclusion == FIRST_L1 + 6


@case("queue_late_batch_after_advance")
def a_batch_instead_of_the_empty_block() -> None:
    for fork in ("granite", "holocene"):
        chain = RollupChain(forks_until(fork), seq_window_size=5)
        chain.mine_until(FIRST_L1 + 5)
        (*_, last) = chain.run()
        block = child(last.ref)
        assert block.ref.l1_origin.number == FIRST_L1 + 1
        chain.mine(*channel("A", block.singular))
        result = chain.run()
        assert refs(result[:1]) == refs([block])
        assert all(item.users == () for item in result[1:])


@case("queue_skip_epoch_singular")
def an_epoch_is_left_out() -> None:
    """A batch of L1 block 2 is accepted on a block of L1 block 0, but cannot be built: the same reset again."""
    chain = ahead_of_l1()
    assert chain.run() == []
    block = child(GENESIS, epoch=FIRST_L1 + 2)
    chain.mine(*channel("A", block.singular), time=EVERY_SECOND[3])
    for _ in range(2):
        assert chain.run() == []
        assert chain.reset_reason is not None and chain.reset_reason.kind is reasons.L1OriginInvalid
        assert chain.take_drops() == [(DropEffect.RESET, reasons.L1OriginInvalid)]
        chain.reset(FIRST_L1)


@case("queue_reset_origin_mismatch")
def a_safe_head_from_another_l1_chain() -> None:
    other, older = BlockId(FIRST_L1, b"\x99" * 32), BlockId(FIRST_L1 - 2, b"\x98" * 32)
    for fork, origin in (("granite", other), ("granite", older), ("holocene", other)):
        chain = RollupChain(forks_until(fork))
        chain.l2[0] = replace(chain.l2[0], ref=msgspec.structs.replace(GENESIS, l1_origin=origin))
        chain.mine()
        assert chain.run() == []
        assert chain.reset_reason is not None and chain.reset_reason.kind is reasons.SafeOriginMismatch


# --- spans ---------------------------------------------------------------------------------------------------------


@case("queue_span_pop")
def a_span_block_by_block() -> None:
    blocks = plan(GENESIS, 3)
    chain = after(span(blocks))
    result = chain.run()
    assert refs(result) == refs(blocks)
    assert [item.concluding for item in result] == [False, False, True]


@case("queue_span_parent_jump")
def pending_span_that_does_not_fit() -> None:
    """The engine refuses the second block, and removes the first with it: the third has no parent."""
    blocks = plan(GENESIS, 3)
    chain = after(span(blocks))
    chain.is_refused = once_at(blocks[1].ref.timestamp)
    assert chain.run() == []
    assert chain.take_drops() == [(DropEffect.DISCARDED, reasons.PendingSpanMismatch)]
    chain.mine(*channel("B", blocks[0].singular))
    assert refs(chain.run()) == refs(blocks[:1])


def once_at(timestamp: int) -> Callable[[PayloadAttributes], bool]:
    """Whether attributes are the first for this time."""
    times = [timestamp]

    def is_first(attributes: PayloadAttributes) -> bool:
        if attributes.timestamp not in times:
            return False
        times.clear()
        return True

    return is_first


class AcceptingChecks(BatchChecks):
    """Accepts every span."""

    def check_full(self, *arguments: object) -> BatchVerdict:
        return ACCEPTED


@case("queue_extraction_error")
def an_accepted_span_whose_blocks_cannot_be_extracted() -> None:
    """The full check makes this impossible, so the node ends with a CriticalError."""
    harness = BatchStageHarness(BatchQueue, FORKS, last=1, checks=AcceptingChecks)
    harness.feed(span(plan(GENESIS, 20)))
    with pytest.raises(CriticalError, match="epoch 1003 of its new blocks is not among"):
        harness.next()
