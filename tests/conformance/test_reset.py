"""Forks in mid-stream and resets (derivation-rules 21): what goes, what stays, and where reading begins again."""

from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.outputs import NeedL1Block
from rollup_node.stages.derivation.reasons.reasons import Effect, Why
from rollup_node.stages.engine.machines.base_search import BaseSearch, NeedBlock
from rollup_node.stages.protocol.types import BlockId
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import (
    BATCHER,
    FIRST_L1,
    GENESIS_TIME,
    STRANGER,
    SYSTEM_CONFIG,
    batcher_update,
    forks_until,
    l1_hash,
    rollup,
)
from tests.conformance.kit.intake import Front
from tests.conformance.kit.notation import item
from tests.conformance.kit.spans import Tx
from tests.conformance.kit.walks import OneToOne, early_forks
from tests.conformance.kit.worlds import GENESIS, Planned, World, channel, child, plan, refs, span

OTHER = Tx(content=(b"\x06", b"\x09", b"")).full(28)
SWITCH = forks_until("granite", holocene=24)
"""Holocene is at the second L1 block after genesis'."""
BOTH = forks_until("fjord", granite=24, holocene=24)
"""Granite and Holocene come with the same L1 block."""


def singulars(blocks: list[Planned]) -> list[bytes]:
    """Each block as a batch of its own."""
    return [block.singular for block in blocks]


# --- the fork that changes the stages ------------------------------------------------------------------------------


@case("reset_holocene_frames")
def frames_at_the_switch() -> None:
    """Behind the other stages the queue of frames is empty when an L1 block ends: here it is stopped before that."""
    front = Front(forks_until("granite"))
    rules = front.config.schedule().l1(GENESIS_TIME)
    block = front.l1.add(item("A0! B0! C0"))
    front.intake.open(block, BATCHER, rules)
    first = front.intake.next_channel(block.ref, rules)
    assert isinstance(first, ReadyChannel) and first.body == b"A0 "
    assert front.intake.switch(rollup(forks_until("holocene")).schedule().l1(GENESIS_TIME)) == (2, 0)
    assert front.intake.next_channel(block.ref, rules) is None


@case("reset_holocene_open_channel")
def half_a_channel_at_the_switch() -> None:
    blocks = plan(GENESIS, 2)
    first, second = channel("A", *singulars(blocks), pieces=2)
    world = World(SWITCH)
    world.mine(first)
    world.mine(second)
    assert world.run() == []
    assert world.effects() == [(Effect.DISCARDED, Why.FORK_SWITCH), (Effect.IGNORED, Why.STAGING_NONE)]
    world = World(SWITCH)
    world.mine(first, second)
    assert refs(world.run()) == refs(blocks)


@case("reset_holocene_future_batches")
def batches_that_wait_at_the_switch() -> None:
    first, second = plan(GENESIS, 2)
    world = World(SWITCH)
    world.mine(*channel("A", second.singular))
    assert world.run() == []
    world.mine(*channel("B", first.singular))
    assert refs(world.run()) == refs([first])
    (dropped,) = world.dropped
    assert dropped.effect is Effect.DISCARDED
    assert dropped.reason == Why.FORK_SWITCH(frames=0, channels=0, batches=1)


@case("reset_holocene_window_kept")
def epochs_at_the_switch() -> None:
    """A span of epochs from before the fork, which comes after it."""
    blocks = plan(GENESIS, 14)
    assert {each.ref.l1_origin.number for each in blocks} == {FIRST_L1, FIRST_L1 + 1, FIRST_L1 + 2}
    world = World(SWITCH)
    world.mine_until(FIRST_L1 + 2)
    assert world.run() == []
    world.mine(*channel("A", span(blocks)))
    assert refs(world.run()) == refs(blocks)
    assert world.dropped == []


@case("reset_two_forks_one_step")
def two_forks_with_one_l1_block() -> None:
    """The stages stay the old ones, as frames out of order show, while the rules for frames and times are the new;
    after a reset to that block or a later one the stages are new as well."""
    blocks = plan(GENESIS, 15)
    first, second = channel("A", *singulars(blocks[:14]), pieces=2)
    world = World(BOTH)
    world.mine_until(FIRST_L1 + 2)
    world.mine(second, first, *channel("B", blocks[0].singular, blocks[14].singular))
    assert refs(world.run()) == refs(blocks)
    assert world.effects() == [(Effect.DROPPED, Why.QUEUE_PAST)]
    assert blocks[13].ref.l1_origin.number == FIRST_L1 + 2
    world.reset(FIRST_L1 + 2, safe=14)
    assert refs(world.run()) == refs(blocks[14:])
    assert world.effects() == [
        (Effect.IGNORED, Why.STAGING_NONE),
        (Effect.DROPPED, Why.STAGING_REPLACED),
        (Effect.PAST, Why.TIME_OLD),
    ]
    an_invalid_payload_while_the_stages_are_old()


def an_invalid_payload_while_the_stages_are_old() -> None:
    """The rest of its span and of its channel go, as in the new ones."""
    blocks = plan(GENESIS, 15)
    empty = child(blocks[12].ref, ())
    world = World(BOTH)
    world.is_invalid = lambda attributes: attributes.timestamp == blocks[13].ref.timestamp
    world.mine_until(FIRST_L1 + 2)
    world.mine(*channel("A", span(blocks), child(empty.ref, (OTHER,)).singular))
    assert refs(world.run()) == refs([*blocks[:13], empty])
    assert world.effects() == [(Effect.DISCARDED, Why.DEPOSITS_ONLY)]


@case("reset_reset_pre_holocene")
def back_before_the_fork() -> None:
    """The stages are those of the base's time, and are exchanged once more on the way."""
    blocks = plan(GENESIS, 14)
    third, fourth = plan(blocks[-1].ref, 2)
    assert blocks[-1].ref.l1_origin.number == FIRST_L1 + 2
    world = World(SWITCH)
    world.mine(*channel("A", blocks[1].singular, blocks[0].singular))
    world.mine()
    world.mine(*channel("B", *singulars(blocks[2:])))
    assert refs(world.run()) == refs(blocks)
    world.reset(FIRST_L1 + 2)
    world.mine(*channel("C", fourth.singular, third.singular))
    assert world.run() == []
    assert world.effects()[-1] == (Effect.FLUSHED, Why.TIME_AHEAD)
    world.reset(FIRST_L1, safe=0)
    assert refs(world.run()) == refs(blocks)
    assert world.effects() == [(Effect.FLUSHED, Why.TIME_AHEAD)]


# --- where reading begins again ------------------------------------------------------------------------------------


@table(
    reset_depth_granite=(early_forks(granite=0), 0, 950),
    reset_depth_bedrock=(forks_until("bedrock"), 0, 700),
    reset_depth_mixed=(early_forks(granite=12 * 980), 0, 700),
    reset_depth_genesis=(forks_until("bedrock"), 990, 990),
)
def depth_of_a_reset(forks: dict[str, int], first: int, expected: int) -> None:
    """The safe head has L1 block 1000 as origin; the config is that of the block where the walk ends."""
    base = OneToOne(forks, 1000, first).base()
    assert base.base == BlockId(expected, l1_hash(expected))
    assert base.config.gas_limit == expected


@case("reset_batcher_in_window")
def batcher_changed_behind_the_base() -> None:
    """The base's L2 block knows the old batcher: he counts until the log in L1 block 4, and the new one from it on."""
    blocks = plan(GENESIS, 30)
    first, second = channel("A", span(blocks[20:]), pieces=2)
    world = World(forks_until("holocene"))
    world.mine(*channel("B", span(blocks[:10])))
    world.mine_until(FIRST_L1 + 2)
    world.mine(first, *channel("S", span(blocks[10:20])), first)
    world.mine(updates=[batcher_update(STRANGER)])
    world.mine(second)
    world.mine(second, sender=STRANGER)
    found = world.run()
    assert refs(found) == refs(blocks)
    assert (Effect.IGNORED, Why.SENDER) in world.effects()
    at = world.l2[25]
    assert at.ref.l1_origin.number == FIRST_L1 + 4 and at.config.batcher == STRANGER
    base_block = world.l2[1]
    assert base_block.config.batcher == BATCHER
    world.reset(FIRST_L1 + 1, base_block.config, safe=25)
    assert refs(world.run()) == refs(blocks[25:])
    assert Why.SENDER in world.said(Effect.IGNORED)
    world.reset(FIRST_L1 + 1, at.config, safe=25)
    assert world.run() == [], "with the safe head's config the first half would be a stranger's"


@case("reset_clears")
def nothing_survives() -> None:
    """A batch that waits, half a channel and the rest of a span, all of an L1 block that is no more."""
    blocks = plan(GENESIS, 16)
    safe, (first, second, third) = blocks[12], blocks[13:]
    assert safe.ref.l1_origin.number == FIRST_L1 + 2
    start, end = channel("C", child(safe.ref, (OTHER,)).singular, pieces=2)
    world = World(forks_until("granite"))
    world.mine()
    world.mine(*channel("A", *singulars(blocks[:13])))
    world.mine(*channel("B", child(second.ref, (OTHER,)).singular), start, *channel("D", span([first, second, third])))
    assert refs(world.run(most=14)) == refs(blocks[:14])
    world.l1.blocks.pop()
    world.l1.add(branch="b")
    world.reset(FIRST_L1 + 2, safe=13)
    world.mine(end, *channel("E", first.singular))
    assert refs(world.run()) == refs([first])
    world.mine(*channel("F", second.singular))
    assert refs(world.run()) == refs([second])
    assert world.last == NeedL1Block(FIRST_L1 + 6)


@case("reset_safe_changed")
def another_safe_head_while_resetting() -> None:
    """The walk begins again from the new one, and the deriver takes nothing that the old start asked for."""
    chain = OneToOne(early_forks(granite=0), 1000)
    search = BaseSearch(chain.config, chain.safe)
    for _ in range(10):
        need = search.next()
        assert isinstance(need, NeedBlock)
        search.add_block(need.number, chain.known(need.number))
    chain.safe = chain.known(980)
    assert chain.base().base.number == 930
    assert chain.base(search).base.number == 950, "what was begun goes on from the old one"
    world = World(forks_until("granite"))
    world.mine_until(FIRST_L1 + 3)
    world.reset(FIRST_L1 + 2)
    assert world.deriver.step(world.safe, SYSTEM_CONFIG) == NeedL1Block(FIRST_L1 + 2)
    world.reset(FIRST_L1 + 1)
    assert not world.deriver.add_l1_block(world.l1[FIRST_L1 + 2])
    assert world.deriver.step(world.safe, SYSTEM_CONFIG) == NeedL1Block(FIRST_L1 + 1)
    assert not world.deriver.add_l1_block(world.l1[FIRST_L1 + 2])
    assert world.deriver.add_l1_block(world.l1[FIRST_L1 + 1])
