"""Forks during derivation, and resets: what is discarded, what is kept, and where reading starts [PS1 to PS7, RS1 to
RS7]."""

import pytest

from rollup_node.stages.derivation.pipeline.channel_bank import ReadyChannel
from rollup_node.stages.derivation.pipeline.outputs import NeedL1Block
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons.channels import FrameWithoutChannel, StagingChannelReplaced
from rollup_node.stages.derivation.reasons.l1 import SenderNotBatcher
from rollup_node.stages.engine.calls.heads import L2BlockInfo
from rollup_node.stages.engine.starts.start_search import Base, BaseSearch
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.config import Genesis, SystemConfig
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import (
    BATCHER,
    FIRST_L1,
    GENESIS,
    GENESIS_TIME,
    STRANGER,
    SYSTEM_CONFIG,
    batcher_update,
    forks_until,
    l1_hash,
    rollup,
)
from tests.conformance.kit.ingestion import IngestionHarness
from tests.conformance.kit.notation import item
from tests.conformance.kit.planning import OTHER_USER, channel, child, plan, refs, singulars, span
from tests.conformance.kit.rollup_chain import RollupChain, finish

pytestmark = pytest.mark.fault("F34")

SWITCH = forks_until("granite", holocene=24)
"""Holocene is at the second L1 block after genesis'."""
BOTH = forks_until("fjord", granite=24, holocene=24)
"""Granite and Holocene come with the same L1 block."""


# --- the fork that changes the stages ------------------------------------------------------------------------------


@case("reset_holocene_frames")
def frames_at_the_fork() -> None:
    """Behind the other stages the frame queue is empty when an L1 block is exhausted: here ingestion stops before."""
    harness = IngestionHarness(forks_until("granite"))
    rules = harness.config.schedule().l1(GENESIS_TIME)
    block = harness.l1.add(item("A0! B0! C0"))
    harness.ingestion.source.open(block, BATCHER, rules)
    first = harness.ingestion.next_channel(block.ref, rules)
    assert isinstance(first, ReadyChannel) and first.body == b"A0 "
    assert harness.ingestion.replace_channels(rollup(forks_until("holocene")).schedule().l1(GENESIS_TIME)) == (2, 0)
    assert harness.ingestion.next_channel(block.ref, rules) is None


@case("reset_holocene_open_channel")
def half_a_channel_at_the_fork() -> None:
    blocks = plan(GENESIS, 2)
    first, second = channel("A", *singulars(blocks), pieces=2)
    chain = RollupChain(SWITCH)
    chain.mine(first)
    chain.mine(second)
    assert chain.run() == []
    assert chain.take_drops() == [
        (DropEffect.DISCARDED, reasons.StagesReplaced),
        (DropEffect.IGNORED, FrameWithoutChannel),
    ]
    chain = RollupChain(SWITCH)
    chain.mine(first, second)
    assert refs(chain.run()) == refs(blocks)


@case("reset_holocene_future_batches")
def batches_that_wait_at_the_fork() -> None:
    first, second = plan(GENESIS, 2)
    chain = RollupChain(SWITCH)
    chain.mine(*channel("A", second.singular))
    assert chain.run() == []
    chain.mine(*channel("B", first.singular))
    assert refs(chain.run()) == refs([first])
    (dropped,) = chain.dropped
    assert dropped.effect is DropEffect.DISCARDED
    assert dropped.reason == reasons.StagesReplaced(0, 0, 1)


@case("reset_holocene_window_kept")
def l1_window_at_the_fork() -> None:
    """A span with epochs from before the fork, which comes after it."""
    blocks = plan(GENESIS, 14)
    assert {block.ref.l1_origin.number for block in blocks} == {FIRST_L1, FIRST_L1 + 1, FIRST_L1 + 2}
    chain = RollupChain(SWITCH)
    chain.mine_until(FIRST_L1 + 2)
    assert chain.run() == []
    chain.mine(*channel("A", span(blocks)))
    assert refs(chain.run()) == refs(blocks)
    assert chain.dropped == []
    system_config_at_the_fork()


def system_config_at_the_fork() -> None:
    """A batcher that was changed before the fork is the batcher after it."""
    blocks = plan(GENESIS, 2)
    chain = RollupChain(SWITCH)
    chain.mine(updates=[batcher_update(STRANGER)])
    chain.mine(*channel("A", *singulars(blocks)), sender=STRANGER)
    assert refs(chain.run()) == refs(blocks)


@case("reset_two_forks_one_step")
def two_forks_with_one_l1_block() -> None:
    """The stages stay the old ones, as frames out of order show, while the rules for frames and times are the new.

    After a reset to that block or a later one the stages are new as well."""
    blocks = plan(GENESIS, 15)
    first, second = channel("A", *singulars(blocks[:14]), pieces=2)
    chain = RollupChain(BOTH)
    chain.mine_until(FIRST_L1 + 2)
    chain.mine(second, first, *channel("B", blocks[0].singular, blocks[14].singular))
    assert refs(chain.run()) == refs(blocks)
    assert chain.take_drops() == [(DropEffect.DROPPED, reasons.QueuedBatchPast)]
    assert blocks[13].ref.l1_origin.number == FIRST_L1 + 2
    chain.reset(FIRST_L1 + 2, safe=14)
    assert refs(chain.run()) == refs(blocks[14:])
    assert chain.take_drops() == [
        (DropEffect.IGNORED, FrameWithoutChannel),
        (DropEffect.DROPPED, StagingChannelReplaced),
        (DropEffect.PAST, reasons.TimestampPast),
    ]
    an_invalid_payload_while_the_stages_are_old()


def an_invalid_payload_while_the_stages_are_old() -> None:
    """The rest of its span and of its channel is flushed, as in the new ones."""
    blocks = plan(GENESIS, 15)
    empty = child(blocks[12].ref, ())
    chain = RollupChain(BOTH)
    chain.is_invalid = lambda attributes: attributes.timestamp == blocks[13].ref.timestamp
    chain.mine_until(FIRST_L1 + 2)
    chain.mine(*channel("A", span(blocks), child(empty.ref, (OTHER_USER,)).singular))
    assert refs(chain.run()) == refs([*blocks[:13], empty])
    assert chain.take_drops() == [(DropEffect.DISCARDED, reasons.PayloadReplacedByDeposits)]


@case("reset_reset_pre_holocene")
def back_before_the_fork() -> None:
    """The stages are those of the base's time, and are replaced again at the fork."""
    blocks = plan(GENESIS, 14)
    third, fourth = plan(blocks[-1].ref, 2)
    assert blocks[-1].ref.l1_origin.number == FIRST_L1 + 2
    chain = RollupChain(SWITCH)
    chain.mine(*channel("A", blocks[1].singular, blocks[0].singular))
    chain.mine()
    chain.mine(*channel("B", *singulars(blocks[2:])))
    assert refs(chain.run()) == refs(blocks)
    chain.reset(FIRST_L1 + 2)
    chain.mine(*channel("C", fourth.singular, third.singular))
    assert chain.run() == []
    assert chain.take_drops()[-1] == (DropEffect.FLUSHED, reasons.TimestampAhead)
    chain.reset(FIRST_L1, safe=0)
    assert refs(chain.run()) == refs(blocks)
    assert chain.take_drops() == [(DropEffect.FLUSHED, reasons.TimestampAhead)]


# --- where reading begins again ------------------------------------------------------------------------------------


class OneBlockPerEpoch:
    """An L2 chain with one block for each L1 block from genesis at L1 block 0; L1 block n has time 12 n."""

    def __init__(self, forks: dict[str, int], first: int = 0) -> None:
        genesis = Genesis(BlockId(first, l1_hash(first)), BlockId(0, l1_hash(0)), 1, SYSTEM_CONFIG)
        self.config, self._first = rollup(forks, genesis=genesis), first
        self.safe = self.known(1000 - first)

    def known(self, number: int) -> L2BlockInfo:
        """Return the L2 block of a number."""
        origin = BlockId(self._first + number, l1_hash(self._first + number))
        time = 12 * origin.number
        reference = L2BlockRef(l1_hash(number, "L2 "), number, l1_hash(number - 1, "L2 "), time, origin, 0)
        return L2BlockInfo(reference, time, SystemConfig(BATCHER, bytes(32), bytes(32), origin.number))

    def base(self, search: BaseSearch | None = None) -> Base:
        """Return the L1 block at which reading starts."""
        return finish(search or BaseSearch(self.config, self.safe), self.known)


EARLY = forks_until("fjord")


@table(
    reset_depth_granite=(EARLY | {"granite": 0}, 0, 950),
    reset_depth_bedrock=(forks_until("bedrock"), 0, 700),
    reset_depth_mixed=(EARLY | {"granite": 12 * 980}, 0, 700),
    reset_depth_genesis=(forks_until("bedrock"), 990, 990),
)
def depth_of_a_reset(forks: dict[str, int], first: int, expected: int) -> None:
    """The safe head has L1 block 1000 as origin; the config is that of the block where the walk ends."""
    base = OneBlockPerEpoch(forks, first).base()
    assert base.base == BlockId(expected, l1_hash(expected))
    assert base.config.gas_limit == expected


@case("reset_batcher_in_window")
def batcher_changed_behind_the_base() -> None:
    """The system config at the base has the old batcher: its data is read until the log in L1 block 4, the new one's
    from there on."""
    blocks = plan(GENESIS, 30)
    first, second = channel("A", span(blocks[20:]), pieces=2)
    chain = RollupChain(forks_until("holocene"))
    chain.mine(*channel("B", span(blocks[:10])))
    chain.mine_until(FIRST_L1 + 2)
    chain.mine(first, *channel("S", span(blocks[10:20])), first)
    chain.mine(updates=[batcher_update(STRANGER)])
    chain.mine(second)
    chain.mine(second, sender=STRANGER)
    result = chain.run()
    assert refs(result) == refs(blocks)
    assert (DropEffect.IGNORED, SenderNotBatcher) in chain.take_drops()
    at = chain.l2[25]
    assert at.ref.l1_origin.number == FIRST_L1 + 4 and at.config.batcher == STRANGER
    base_block = chain.l2[1]
    assert base_block.config.batcher == BATCHER
    chain.reset(FIRST_L1 + 1, base_block.config, safe=25)
    assert refs(chain.run()) == refs(blocks[25:])
    assert SenderNotBatcher in chain.take_reasons(DropEffect.IGNORED)
    chain.reset(FIRST_L1 + 1, at.config, safe=25)
    assert chain.run() == [], "with the safe head's config the first half would be a stranger's"


@case("reset_clears")
def nothing_survives() -> None:
    """A queued batch, half a channel and a pending span, all of an L1 block that was reorganised away."""
    blocks = plan(GENESIS, 16)
    safe, (first, second, third) = blocks[12], blocks[13:]
    assert safe.ref.l1_origin.number == FIRST_L1 + 2
    start, end = channel("C", child(safe.ref, (OTHER_USER,)).singular, pieces=2)
    chain = RollupChain(forks_until("granite"))
    chain.mine()
    chain.mine(*channel("A", *singulars(blocks[:13])))
    chain.mine(
        *channel("B", child(second.ref, (OTHER_USER,)).singular), start, *channel("D", span([first, second, third]))
    )
    assert refs(chain.run(most=14)) == refs(blocks[:14])
    chain.l1.blocks.pop()
    chain.l1.add(branch="b")
    chain.reset(FIRST_L1 + 2, safe=13)
    chain.mine(end, *channel("E", first.singular))
    assert refs(chain.run()) == refs([first])
    chain.mine(*channel("F", second.singular))
    assert refs(chain.run()) == refs([second])
    assert chain.last_output == NeedL1Block(FIRST_L1 + 6)


@case("reset_safe_changed")
def another_safe_head_while_resetting() -> None:
    """The walk starts again from the new one, and the deriver accepts no block that the old start needed."""
    l2 = OneBlockPerEpoch(EARLY | {"granite": 0})
    search = BaseSearch(l2.config, l2.safe)
    for _ in range(2):
        need = search.next()
        assert isinstance(need, int)
        search.add_block(need, l2.known(need))
    l2.safe = l2.known(980)
    assert l2.base().base.number == 930
    assert l2.base(search).base.number == 950, "a search that has started continues from the old one"
    chain = RollupChain(forks_until("granite"))
    chain.mine_until(FIRST_L1 + 3)
    chain.reset(FIRST_L1 + 2)
    assert chain.deriver.step(chain.safe, SYSTEM_CONFIG) == NeedL1Block(FIRST_L1 + 2)
    chain.reset(FIRST_L1 + 1)
    assert not chain.deriver.add_l1_block(chain.l1[FIRST_L1 + 2])
    assert chain.deriver.step(chain.safe, SYSTEM_CONFIG) == NeedL1Block(FIRST_L1 + 1)
    assert not chain.deriver.add_l1_block(chain.l1[FIRST_L1 + 2])
    assert chain.deriver.add_l1_block(chain.l1[FIRST_L1 + 1])
