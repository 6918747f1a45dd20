"""The batch stage, from Holocene on, and invalid payloads [BS1 to BS10, AQ1 to AQ6]."""

import pytest

from rollup_node.stages.derivation.pipeline.batch_stages import BatchStage
from rollup_node.stages.derivation.pipeline.outputs import NeedL1Block
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons import channels as channel_reasons
from rollup_node.stages.derivation.reasons.reason import AnyKind
from rollup_node.stages.engine.calls.engine_api import ForkchoiceAnswer
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.messages.engine import AttributesOutcome, AttributesResult
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.tools.batcher.channels import Compression, batcher_data, channel_body, frames
from tests.conformance.kit.batch_stage import BatchStageHarness
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import FIRST_L1, GENESIS, GENESIS_TIME, forks_until
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
from tests.conformance.kit.span_fields import post_exec, span_fields
from tests.support.engine.attributes_jobs import asked, handler_with, step_through

FORKS = forks_until("holocene")


def after(*items: bytes, at: int = 1, overlap_check: bool = True, **changes: int) -> RollupChain:
    """Return a chain with these data items in the L1 block of this distance from genesis'."""
    chain = RollupChain(FORKS, overlap_check=overlap_check, **changes)
    chain.mine_until(FIRST_L1 + at - 1)
    chain.mine(*items)
    return chain


BAD = child(GENESIS, epoch_hash=b"\x99" * 32)
"""A first block with an L1 origin that is not ours."""


@case("stage_same_origin_discard")
def batches_in_the_block_that_is_the_safe_heads_origin() -> None:
    """Block 6 is the first of L1 block 1 and is read there: singular batches behind it are discarded, a span
    continues."""
    blocks = plan(GENESIS, 8)
    assert [block.ref.l1_origin.number - FIRST_L1 for block in blocks] == [0] * 5 + [1] * 3
    chain = after(*channel("A", *singulars(blocks)))
    assert refs(chain.run()) == refs(blocks[:6])
    assert chain.take_drops() == []
    chain.mine()
    assert chain.run() == []
    chain.mine(*channel("B", *singulars(blocks[6:])))
    assert refs(chain.run()) == refs(blocks[6:])
    chain = after(*channel("A", span(blocks)), *channel("B", child(blocks[-1].ref).singular))
    assert refs(chain.run()) == refs(blocks[:6])
    assert chain.take_drops() == [(DropEffect.DISCARDED, channel_reasons.ChannelBehindSafeHead)]
    chain.mine()
    assert refs(chain.run()) == refs(blocks[6:])


@case("stage_low_window")
def a_window_of_one_block() -> None:
    harness = BatchStageHarness(BatchStage, FORKS)
    del harness.l1_window.blocks[1:]
    with pytest.raises(CriticalError, match="the L1 window has 1 blocks"):
        harness.next()


@case("stage_span_partial")
def good_blocks_before_a_bad_one_stay() -> None:
    """The third block has an epoch whose time has not come; its channel goes with it."""
    blocks = plan(GENESIS, 2)
    bad = child(blocks[-1].ref, epoch=FIRST_L1 + 1)
    chain = after(*channel("A", span([*blocks, bad]), child(blocks[-1].ref).singular))
    assert refs(chain.run()) == refs(blocks)
    assert chain.take_drops() == [(DropEffect.FLUSHED, reasons.TimestampBeforeOrigin)]


FIRST, SECOND, THIRD = plan(GENESIS, 3)
STALE = child(GENESIS, (OTHER_USER,))
FLUSHED, PAST = DropEffect.FLUSHED, DropEffect.PAST


@table(
    stage_flush_keeps_next_tx=(
        ([[BAD, FIRST], [FIRST]], [FIRST], [(FLUSHED, reasons.EpochHashMismatch)]),
        (
            [[BAD, FIRST], [SECOND, FIRST]],
            [],
            [(FLUSHED, reasons.EpochHashMismatch), (FLUSHED, reasons.TimestampAhead)],
        ),
    ),
    stage_past_keeps_channel=(
        ([[FIRST, SECOND], [FIRST, SECOND, THIRD]], [FIRST, SECOND, THIRD], [(PAST, reasons.TimestampPast)] * 2),
    ),
    stage_past_bad_hash=(
        (
            [[FIRST, child(STALE.ref, time=GENESIS_TIME + 2), SECOND]],
            [FIRST, SECOND],
            [(PAST, reasons.TimestampPast)],
        ),
    ),
    stage_parent_hash_flush=(([[FIRST, child(STALE.ref), SECOND]], [FIRST], [(FLUSHED, reasons.ParentHashMismatch)]),),
)
def channels_of_singular_batches(
    *rows: tuple[list[list[Planned]], list[Planned], list[tuple[DropEffect, AnyKind]]],
) -> None:
    """An invalid batch takes the rest of its channel with it, and nothing else; one of the past goes alone."""
    for batches, derived, dropped in rows:
        chain = after(
            *[item for name, one in zip("AB", batches, strict=False) for item in channel(name, *singulars(one))]
        )
        assert (refs(chain.run()), chain.take_drops()) == (refs(derived), dropped)


@case("stage_flush_keeps_queue")
def frames_behind_a_flushed_channel() -> None:
    (good,) = plan(GENESIS, 1)
    parts = [
        frames(name * 16, channel_body([batch], Compression.ZLIB), 10_000)[0]
        for name, batch in (
            (b"A", BAD.singular),
            (b"B", good.singular),
        )
    ]
    chain = after(batcher_data(parts))
    assert refs(chain.run()) == refs([good])
    assert chain.take_drops() == [(DropEffect.FLUSHED, reasons.EpochHashMismatch)]


@case("stage_future_flush")
def a_gap() -> None:
    """The future batch is dropped with the valid one in its channel; the blocks are empty after the window."""
    first, second = plan(GENESIS, 2)
    chain = after(*channel("A", second.singular, first.singular), seq_window_size=4)
    assert chain.run() == []
    assert chain.take_drops() == [(DropEffect.FLUSHED, reasons.TimestampAhead)]
    chain.mine_until(FIRST_L1 + 4)
    assert refs(chain.run()) == refs(plan(GENESIS, 5, ()))


@case("stage_span_undecided_lost")
def an_undecided_span() -> None:
    """Its last epoch is not known: it is discarded, and the batch behind it is checked."""
    blocks, (good,) = plan(GENESIS, 20), plan(GENESIS, 1, (OTHER_USER,))
    chain = after(*channel("A", span(blocks), good.singular))
    assert refs(chain.run()) == refs([good])
    assert chain.take_drops() == [(DropEffect.UNDECIDED, reasons.SpanOriginUnknown)]
    chain.mine_until(FIRST_L1 + 4)
    assert chain.run() == []
    an_overlapped_block_that_is_unavailable()


def an_overlapped_block_that_is_unavailable() -> None:
    """A span is lost as well where a block that it overlaps is unavailable; the next span requests it again."""
    blocks = plan(GENESIS, 4)
    chain = after(*channel("A", span(blocks[:2])))
    assert refs(chain.run()) == refs(blocks[:2])
    chain.withheld = {1}
    chain.mine(*channel("B", span(blocks[1:])))
    assert chain.run() == []
    assert chain.take_drops() == [(DropEffect.UNDECIDED, reasons.SpanParentUnavailable)]
    chain.withheld = set()
    chain.mine(*channel("C", span(blocks[1:])))
    assert refs(chain.run()) == refs(blocks[2:])


@case("stage_span_extract_old_epoch")
def first_new_block_with_an_old_epoch() -> None:
    """The overlapping block is one that L1 block 1 was new in; the span stays with block 0.

    The comparison of the overlap sees it first, where it is on."""
    for overlap_check, why in ((False, reasons.NewBlockEpochTooOld), (True, reasons.OverlapEpochMismatch)):
        blocks = plan(GENESIS, 6)
        chain = RollupChain(FORKS, overlap_check=overlap_check)
        chain.mine()
        chain.mine(*channel("A", span(blocks)))
        old = child(blocks[4].ref, epoch=FIRST_L1)
        older = child(old.ref, epoch=FIRST_L1)
        chain.mine(*channel("B", span([old, older, child(older.ref)]), plan(blocks[-1].ref, 1)[0].singular))
        assert refs(chain.run()) == refs(blocks)
        assert chain.take_drops() == [(DropEffect.FLUSHED, why)]


@case("stage_span_then_eof")
def span_exhausted() -> None:
    blocks = plan(GENESIS, 5)
    chain = after(*channel("A", span(blocks[:3])), *channel("B", span(blocks[3:])), seq_window_size=4)
    assert refs(chain.run()) == refs(blocks)
    assert (chain.last_output, chain.dropped) == (NeedL1Block(FIRST_L1 + 2), [])
    chain.mine_until(FIRST_L1 + 5)
    assert [item.users for item in chain.run()] == [()] * 6


@case("stage_last_flag")
def every_block_concludes() -> None:
    blocks = plan(GENESIS, 4)
    chain = after(*channel("A", span(blocks[:3]), blocks[3].singular))
    assert [item.concluding for item in chain.run()] == [True] * 4


@case("stage_invalid_payload")
def deposits_only() -> None:
    """The second block of a span is invalid: its deposits stay, the rest of its span and what follows in its channel
    are flushed; the next channel is read."""
    blocks = plan(GENESIS, 3)
    empty = child(blocks[0].ref, ())
    third = child(empty.ref)
    chain = RollupChain(FORKS)
    chain.is_invalid = lambda attributes: attributes.timestamp == blocks[1].ref.timestamp
    chain.mine(*channel("A", span(blocks), child(empty.ref, (OTHER_USER,)).singular), *channel("B", third.singular))
    result = chain.run()
    assert refs(result) == refs([blocks[0], empty, third])
    assert all(map(is_deposit, result[1].transactions))
    assert chain.take_drops() == [(DropEffect.DISCARDED, reasons.PayloadReplacedByDeposits)]
    the_staging_channel_is_flushed()


def the_staging_channel_is_flushed() -> None:
    """Block 6 is the first of L1 block 1, in which it was read; its span continues in L1 block 2, with block 7.

    By then the first half of channel B has come."""
    blocks = plan(GENESIS, 8)
    eighth = child(child(blocks[5].ref, ()).ref)
    first, second = channel("B", eighth.singular, pieces=2)
    chain = RollupChain(FORKS)
    chain.is_invalid = lambda attributes: attributes.timestamp == blocks[6].ref.timestamp
    chain.mine(*channel("A", span(blocks)), first)
    assert refs(chain.run()) == refs(blocks[:6])
    chain.mine(second)
    assert [item.ref.parent_hash for item in chain.run()] == [blocks[5].ref.hash]
    assert chain.take_drops() == [
        (DropEffect.DISCARDED, reasons.PayloadReplacedByDeposits),
        (DropEffect.IGNORED, channel_reasons.FrameWithoutChannel),
    ]
    chain.mine(*channel("C", eighth.singular))
    assert refs(chain.run()) == refs([eighth])


def find_invalid(chain: RollupChain, times: int) -> AttributesResult | None:
    """Return the engine finds the attributes of the chain's first block invalid this many times in a row."""
    output = chain.run()[0].output
    assert output is not None
    handler = handler_with(chain.config, GENESIS, output)
    outcome = None
    for _ in range(times):
        outcome = step_through(handler, ForkchoiceAnswer("INVALID"))
    if handler.next() is not None:
        assert all(map(is_deposit, asked(handler).transactions))
    return outcome


@case("stage_invalid_deposits_only")
def invalid_deposits() -> None:
    """The first time they are replaced by the deposits alone; the second time the node stops.

    Before Holocene the attributes are dropped."""
    encoded = plan(GENESIS, 1)[0].singular
    assert find_invalid(after(*channel("A", encoded)), 1) is None
    with pytest.raises(CriticalError, match="only deposit transactions"):
        find_invalid(after(*channel("A", encoded)), 2)
    early = RollupChain(forks_until("granite"))
    early.mine(*channel("A", encoded))
    outcome = find_invalid(early, 1)
    assert outcome is not None and (outcome.outcome, outcome.safe_head) == (AttributesOutcome.REFUSED, GENESIS)


# --- post-exec transactions ----------------------------------------------------------------------------------------


def with_post_exec(place: int, count: int = 3) -> list[Planned]:
    """Return the first blocks, one of which ends with a post-exec transaction."""
    before = plan(GENESIS, place)
    result = child(before[-1].ref if before else GENESIS, (USER, POST_EXEC))
    return [*before, result, *plan(result.ref, count - place - 1)]


@table(stage_postexec_first=0, stage_postexec_middle=1, stage_postexec_last=2)
def post_exec_in_a_block_before_lagoon(place: int) -> None:
    """The blocks before it stay, what follows in its span and channel goes, and the next channel is read."""
    blocks, good = with_post_exec(place), plan(GENESIS, 3)
    chain = after(*channel("A", span(blocks), span(good)), *channel("B", *singulars(good)))
    assert refs(chain.run()) == refs(good)
    past = [(DropEffect.PAST, reasons.TimestampPast)] * place
    assert chain.take_drops() == [(DropEffect.FLUSHED, reasons.PostExecNotAllowed), *past]
    chain = after(*channel("A", span(blocks), span(good)))
    assert refs(chain.run()) == refs(blocks[:place])


@case("stage_postexec_straddle")
def post_exec_in_a_span_that_begins_before_lagoon() -> None:
    """Lagoon comes with the third block, which has no user transactions."""
    for third, count in ((), 5), ((POST_EXEC,), 2):
        blocks = plan(GENESIS, 2)
        blocks.append(child(blocks[-1].ref, third))
        blocks.append(child(blocks[-1].ref, (USER, POST_EXEC)))
        blocks.append(child(blocks[-1].ref))
        chain = RollupChain(forks_until("karst", lagoon=6))
        chain.mine(*channel("A", span(blocks)))
        result = chain.run()
        assert refs(result) == refs(blocks[:count])
        assert [item.users for item in result] == [block.transactions for block in blocks[:count]]
        expected = [] if count == 5 else [(DropEffect.FLUSHED, reasons.ActivationBlockNotEmpty)]
        assert chain.take_drops() == expected


@case("stage_postexec_columns")
def post_exec_with_a_nonce_in_the_last_block() -> None:
    """No block of the span counts and its channel continues, before and after Lagoon."""
    good = plan(GENESIS, 2)
    for fork in ("holocene", "lagoon"):
        chain = RollupChain(forks_until(fork))
        encoded = span_fields(
            [[], [], [post_exec(nonce=1)]],
            origin=FIRST_L1,
            parent_check=GENESIS.hash[:20],
            origin_check=GENESIS.l1_origin.hash[:20],
        )
        chain.mine(*channel("A", encoded.encode(), span(good)))
        assert refs(chain.run()) == refs(good)
        assert chain.take_drops() == [(DropEffect.DROPPED, channel_reasons.SpanTransactionInvalid)]
        assert refs_of(encoded.but(nonces=b"\0").encode(), fork) == 2 + (fork == "lagoon")


def refs_of(encoded: bytes, fork: str) -> int:
    """Return the number of blocks that a span gives."""
    chain = RollupChain(forks_until(fork))
    chain.mine(*channel("A", encoded))
    return len(chain.run())


@case("stage_postexec_singular")
def post_exec_in_a_singular_batch() -> None:
    block, good = child(GENESIS, (USER, POST_EXEC)), child(GENESIS)
    chain = after(*channel("A", block.singular, good.singular))
    assert chain.run() == []
    assert chain.take_drops() == [(DropEffect.FLUSHED, reasons.PostExecNotAllowed)]
    chain = RollupChain(forks_until("lagoon"))
    chain.mine(*channel("A", block.singular))
    assert refs(chain.run()) == refs([block])


@table(stage_postexec_twice=(USER, POST_EXEC, POST_EXEC), stage_postexec_not_last=(POST_EXEC, USER))
def post_exec_that_the_engine_refuses(*transactions: bytes) -> None:
    """The block goes to the engine as it is, which finds it invalid: its deposits stay, the channel goes."""
    first = child(GENESIS)
    second, empty = child(first.ref, transactions), child(first.ref, ())
    chain = RollupChain(forks_until("lagoon"))
    seen = []

    def is_invalid(attributes: PayloadAttributes) -> bool:
        seen.append(tuple(transaction for transaction in attributes.transactions if not is_deposit(transaction)))
        return seen[-1] == transactions

    chain.is_invalid = is_invalid
    chain.mine(
        *channel("A", span([first, second]), child(second.ref).singular), *channel("B", child(empty.ref).singular)
    )
    assert refs(chain.run()) == refs([first, empty, child(empty.ref)])
    assert seen == [(USER,), transactions, (USER,)]
    assert chain.take_drops() == [(DropEffect.DISCARDED, reasons.PayloadReplacedByDeposits)]


@case("stage_forced_empty")
def window_over() -> None:
    chain = RollupChain(FORKS, seq_window_size=5)
    chain.mine_until(FIRST_L1 + 4)
    assert chain.run() == []
    chain.mine()
    result = chain.run()
    assert refs(result) == refs(plan(GENESIS, 5, ()))
    assert all(item.concluding for item in result)
    assert {item.inclusion for item in result} == {FIRST_L1 + 5}
    assert USER not in {tx for item in result for tx in item.transactions}
