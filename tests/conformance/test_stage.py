"""The batch stage from Holocene on, and what becomes of invalid payloads (derivation-rules 19 and 20)."""

import pytest

from rollup_node.stages.derivation.pipeline.batch_stage import BatchStage
from rollup_node.stages.derivation.pipeline.outputs import NeedL1Block
from rollup_node.stages.derivation.reasons.reasons import Effect, Why
from rollup_node.stages.engine.api.engine_api import ForkchoiceAnswer, ForkchoiceUpdate
from rollup_node.stages.engine.machines.attributes_handler import ProcessedAttributes
from rollup_node.stages.messages.engine import AttributesOutcome
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.tools.batcher.channels import Compression, batcher_data, channel_body, frames
from tests.conformance.kit.cases import case
from tests.conformance.kit.chain import FIRST_L1, GENESIS_TIME, forks_until
from tests.conformance.kit.sealing import handler_with
from tests.conformance.kit.spans import Tx
from tests.conformance.kit.stage_bench import StageBench
from tests.conformance.kit.worlds import GENESIS, USER, Planned, World, channel, child, plan, refs, span

FORKS = forks_until("holocene")
OTHER = Tx(content=(b"\x06", b"\x09", b"")).full(28)


def after(*items: bytes, at: int = 1, overlap_check: bool = True, **changes: int) -> World:
    """A world with these data items in the L1 block of this distance from genesis'."""
    world = World(FORKS, overlap_check=overlap_check, **changes)
    world.mine_until(FIRST_L1 + at - 1)
    world.mine(*items)
    return world


def singulars(blocks: list[Planned]) -> list[bytes]:
    """Each block as a batch of its own."""
    return [block.singular for block in blocks]


BAD = child(GENESIS, epoch_hash=b"\x99" * 32)
"""A first block with an L1 origin that is not ours."""


@case("stage_same_origin_discard")
def batches_in_the_block_that_is_the_safe_heads_origin() -> None:
    """Block 6 is the first of L1 block 1 and is read there: singular batches behind it are gone, a span goes on."""
    blocks = plan(GENESIS, 8)
    assert [each.ref.l1_origin.number - FIRST_L1 for each in blocks] == [0] * 5 + [1] * 3
    world = after(*channel("A", *singulars(blocks)))
    assert refs(world.run()) == refs(blocks[:6])
    assert world.effects() == []
    world.mine()
    assert world.run() == []
    world.mine(*channel("B", *singulars(blocks[6:])))
    assert refs(world.run()) == refs(blocks[6:])
    world = after(*channel("A", span(blocks)), *channel("B", child(blocks[-1].ref).singular))
    assert refs(world.run()) == refs(blocks[:6])
    assert world.effects() == [(Effect.DISCARDED, Why.BEHIND)]
    world.mine()
    assert refs(world.run()) == refs(blocks[6:])


@case("stage_low_window")
def a_window_of_one_block() -> None:
    bench = StageBench(BatchStage, FORKS)
    del bench.epochs.blocks[1:]
    with pytest.raises(CriticalError, match="the L1 window has 1 blocks"):
        bench.next()


@case("stage_span_partial")
def good_blocks_before_a_bad_one_stay() -> None:
    """The third block has an epoch whose time has not come; its channel goes with it."""
    blocks = plan(GENESIS, 2)
    bad = child(blocks[-1].ref, epoch=FIRST_L1 + 1)
    world = after(*channel("A", span([*blocks, bad]), child(blocks[-1].ref).singular))
    assert refs(world.run()) == refs(blocks)
    assert world.effects() == [(Effect.FLUSHED, Why.TIME_BEFORE_ORIGIN)]


@case("stage_flush_keeps_next_tx")
def next_transaction_after_a_flush() -> None:
    (good,) = plan(GENESIS, 1)
    world = after(*channel("A", BAD.singular, good.singular), *channel("B", child(good.ref).singular, good.singular))
    assert world.run() == []
    assert world.effects() == [(Effect.FLUSHED, Why.EPOCH_HASH), (Effect.FLUSHED, Why.TIME_AHEAD)]
    world = after(*channel("A", BAD.singular, good.singular), *channel("B", good.singular))
    assert refs(world.run()) == refs([good])
    assert world.effects() == [(Effect.FLUSHED, Why.EPOCH_HASH)]


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
    world = after(batcher_data(parts))
    assert refs(world.run()) == refs([good])
    assert world.effects() == [(Effect.FLUSHED, Why.EPOCH_HASH)]


@case("stage_past_keeps_channel")
def past_batches() -> None:
    blocks = plan(GENESIS, 3)
    world = after(*channel("A", *singulars(blocks[:2])), *channel("B", *singulars(blocks)))
    assert refs(world.run()) == refs(blocks)
    assert world.effects() == [(Effect.PAST, Why.TIME_OLD)] * 2


@case("stage_past_bad_hash")
def past_batch_with_another_parent() -> None:
    blocks = plan(GENESIS, 2)
    stale = child(child(GENESIS, (OTHER,)).ref, time=GENESIS_TIME + 2)
    assert stale.ref.parent_hash != GENESIS.hash
    world = after(*channel("A", blocks[0].singular, stale.singular, blocks[1].singular))
    assert refs(world.run()) == refs(blocks)
    assert world.effects() == [(Effect.PAST, Why.TIME_OLD)]


@case("stage_future_flush")
def a_gap() -> None:
    """The batch ahead of time takes the good one with it; the blocks are empty when the window is over."""
    first, second = plan(GENESIS, 2)
    world = after(*channel("A", second.singular, first.singular), seq_window_size=4)
    assert world.run() == []
    assert world.effects() == [(Effect.FLUSHED, Why.TIME_AHEAD)]
    world.mine_until(FIRST_L1 + 4)
    assert refs(world.run()) == refs(plan(GENESIS, 5, ()))


@case("stage_parent_hash_flush")
def another_parent() -> None:
    first, second = plan(GENESIS, 2)
    stale = child(child(GENESIS, (OTHER,)).ref)
    world = after(*channel("A", first.singular, stale.singular, second.singular))
    assert refs(world.run()) == refs([first])
    assert world.effects() == [(Effect.FLUSHED, Why.PARENT_HASH)]


@case("stage_span_undecided_lost")
def an_undecided_span() -> None:
    """Its last epoch is not known: it is lost, the batch behind it is judged."""
    blocks, (good,) = plan(GENESIS, 20), plan(GENESIS, 1, (OTHER,))
    world = after(*channel("A", span(blocks), good.singular))
    assert refs(world.run()) == refs([good])
    assert world.effects() == [(Effect.LOST, Why.SPAN_ORIGIN_UNKNOWN)]
    world.mine_until(FIRST_L1 + 4)
    assert world.run() == []
    a_block_that_could_not_be_had()


def a_block_that_could_not_be_had() -> None:
    """A span is lost as well where a block that it goes over is not to be had; the next span asks for it again."""
    blocks = plan(GENESIS, 4)
    world = after(*channel("A", span(blocks[:2])))
    assert refs(world.run()) == refs(blocks[:2])
    world.withheld = {1}
    world.mine(*channel("B", span(blocks[1:])))
    assert world.run() == []
    assert world.effects() == [(Effect.LOST, Why.SPAN_NO_PARENT)]
    world.withheld = set()
    world.mine(*channel("C", span(blocks[1:])))
    assert refs(world.run()) == refs(blocks[2:])


@case("stage_span_extract_old_epoch")
def first_new_block_with_an_old_epoch() -> None:
    """The overlapping block is one that L1 block 1 was new in; the span stays with block 0. The comparison of the
    overlap sees it first, where it is on."""
    for overlap_check, why in ((False, Why.EXTRACT_EPOCH_OLD), (True, Why.OVERLAP_EPOCH)):
        blocks = plan(GENESIS, 6)
        world = World(FORKS, overlap_check=overlap_check)
        world.mine()
        world.mine(*channel("A", span(blocks)))
        old = child(blocks[4].ref, epoch=FIRST_L1)
        older = child(old.ref, epoch=FIRST_L1)
        world.mine(*channel("B", span([old, older, child(older.ref)]), plan(blocks[-1].ref, 1)[0].singular))
        assert refs(world.run()) == refs(blocks)
        assert world.effects() == [(Effect.FLUSHED, why)]


@case("stage_span_then_eof")
def span_used_up() -> None:
    blocks = plan(GENESIS, 5)
    world = after(*channel("A", span(blocks[:3])), *channel("B", span(blocks[3:])), seq_window_size=4)
    assert refs(world.run()) == refs(blocks)
    assert (world.last, world.dropped) == (NeedL1Block(FIRST_L1 + 2), [])
    world.mine_until(FIRST_L1 + 5)
    assert [each.users for each in world.run()] == [()] * 6


@case("stage_last_flag")
def every_block_concludes() -> None:
    blocks = plan(GENESIS, 4)
    world = after(*channel("A", span(blocks[:3]), blocks[3].singular))
    assert [each.concluding for each in world.run()] == [True] * 4


@case("stage_invalid_payload")
def deposits_only() -> None:
    """The second block of a span is invalid: its deposits stay, the rest of its span and what is behind it in its
    channel go; the next channel is read."""
    blocks = plan(GENESIS, 3)
    empty = child(blocks[0].ref, ())
    third = child(empty.ref)
    world = World(FORKS)
    world.is_invalid = lambda attributes: attributes.timestamp == blocks[1].ref.timestamp
    world.mine(*channel("A", span(blocks), child(empty.ref, (OTHER,)).singular), *channel("B", third.singular))
    found = world.run()
    assert refs(found) == refs([blocks[0], empty, third])
    assert all(map(is_deposit, found[1].transactions))
    assert world.effects() == [(Effect.DISCARDED, Why.DEPOSITS_ONLY)]
    the_channel_being_put_together_goes()


def the_channel_being_put_together_goes() -> None:
    """Block 6 is the first of L1 block 1, in which it was read; its span goes on in L1 block 2, with block 7. By then
    the first half of channel B has come."""
    blocks = plan(GENESIS, 8)
    eighth = child(child(blocks[5].ref, ()).ref)
    first, second = channel("B", eighth.singular, pieces=2)
    world = World(FORKS)
    world.is_invalid = lambda attributes: attributes.timestamp == blocks[6].ref.timestamp
    world.mine(*channel("A", span(blocks)), first)
    assert refs(world.run()) == refs(blocks[:6])
    world.mine(second)
    assert [each.ref.parent_hash for each in world.run()] == [blocks[5].ref.hash]
    assert world.effects() == [(Effect.DISCARDED, Why.DEPOSITS_ONLY), (Effect.IGNORED, Why.STAGING_NONE)]
    world.mine(*channel("C", eighth.singular))
    assert refs(world.run()) == refs([eighth])


def judged_invalid(world: World, times: int) -> ProcessedAttributes | None:
    """The engine says so often in a row that attributes of the world's first block are invalid."""
    found = world.run()[0].output
    assert found is not None
    handler = handler_with(world.config, found)
    outcome = None
    for _ in range(times):
        call = handler.next()
        assert isinstance(call, ForkchoiceUpdate) and call.attributes is not None
        outcome = handler.answer(call, ForkchoiceAnswer("INVALID"))
    call = handler.next()
    if call is not None:
        assert isinstance(call, ForkchoiceUpdate) and call.attributes is not None
        assert all(map(is_deposit, call.attributes.transactions))
    return outcome


@case("stage_invalid_deposits_only")
def invalid_deposits() -> None:
    """Once is answered by the deposits alone; twice stops the node. Before Holocene the attributes are given up."""
    encoded = plan(GENESIS, 1)[0].singular
    assert judged_invalid(after(*channel("A", encoded)), 1) is None
    with pytest.raises(CriticalError, match="only deposit transactions"):
        judged_invalid(after(*channel("A", encoded)), 2)
    early = World(forks_until("granite"))
    early.mine(*channel("A", encoded))
    outcome = judged_invalid(early, 1)
    assert outcome is not None and (outcome.outcome, outcome.safe_head) == (AttributesOutcome.REFUSED, GENESIS)


@case("stage_forced_empty")
def window_over() -> None:
    world = World(FORKS, seq_window_size=5)
    world.mine_until(FIRST_L1 + 4)
    assert world.run() == []
    world.mine()
    found = world.run()
    assert refs(found) == refs(plan(GENESIS, 5, ()))
    assert all(each.concluding for each in found)
    assert {each.inclusion for each in found} == {FIRST_L1 + 5}
    assert USER not in {tx for each in found for tx in each.transactions}
