"""Gaps in the unsafe chain: the engine gets the block above, and fetches what is missing.

Peers are asked where it does not, and derivation goes on [UNS4 to UNS6]."""

from typing import Any

import pytest

from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.calls import CallPurpose, PendingCall
from rollup_node.stages.engine.calls.heads import Forkchoice
from rollup_node.stages.engine.core.unsafe_rows import PEERS_SECONDS, SHOW_SECONDS, STALE_SECONDS
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.core_harness import CoreHarness, started
from tests.support.engine.model_engine import ModelEngine

TICK = 4
"""Seconds: two block times."""


class Gap:
    """A node whose engine has the blocks up to `tip` of 60, all of one L1 origin, while peers gossip later ones."""

    def __init__(self, tip: int, *, syncs: bool = False, **config: Any) -> None:
        self.chain = chain_with(l1_step=2)
        self.refs = [self.chain.genesis, *self.chain.extend(self.chain.genesis, 60, ())]
        self.engine = ModelEngine(self.chain)
        self.engine.head = self.refs[tip].hash
        self.engine.lost = {ref.hash for ref in self.refs[tip + 1 :]}
        self.harness: CoreHarness = started(self.chain, self.engine, **config)
        self.syncs = syncs
        self.calls: list[PendingCall] = []

    def branch(self, at: int, length: int) -> list[L2BlockRef]:
        """Return other blocks above a number than derivation finds."""
        return self.chain.extend(self.refs[at], length, [self.chain.user])

    def gossip(self, *numbers: int) -> None:
        for number in numbers:
            self.gossip_ref(self.refs[number])

    def gossip_ref(self, *refs: L2BlockRef) -> None:
        for ref in refs:
            self.harness.gossip(self.chain.payloads[ref.hash])

    def run(self, seconds: int) -> None:
        """Lets time pass; an engine that `syncs` has fetched the chain a second after it was pointed at a block."""
        for _ in range(seconds):
            for _ in range(200):
                self.harness.step()
                if not self.harness.open:
                    break
                pending = self.harness.open[0]
                self.calls += [pending] if pending.purpose is CallPurpose.UNSAFE_GAP else []
                self.harness.answer(pending)
            self.harness.wait(1.0)
            if self.syncs and self.engine.syncing_to:
                self.engine.fetch()

    def our_update(self) -> api.ForkchoiceUpdate:
        """Return the update with the heads of a node at block 6 that has derived nothing."""
        return api.ForkchoiceUpdate(Forkchoice(self.refs[6].hash, self.refs[0].hash, self.refs[0].hash))

    @property
    def heads(self) -> tuple[int, int]:
        """The numbers of unsafe and safe head."""
        status = self.harness.status
        assert status.unsafe is not None and status.safe is not None
        return status.unsafe.number, status.safe.number

    @property
    def requested(self) -> list[int]:
        """The blocks above the gaps that were requested from peers."""
        return [item.gap_end.block_number for item in self.harness.done(act.RequestGap)]

    @property
    def inserted(self) -> list[int]:
        """The blocks that the engine was given to fetch the chain up to."""
        return [call.call.payload.block_number for call in self.calls if isinstance(call.call, api.NewPayload)]

    @property
    def problem(self) -> str | None:
        shown = [action for action in self.harness.actions if isinstance(action, act.FetchLasts | act.FetchEnded)]
        return shown[-1].problem if shown and isinstance(shown[-1], act.FetchLasts) else None


@pytest.mark.parametrize(
    ("config", "engine", "peers"),
    [
        ({"p2p": True}, True, True),
        ({"p2p": True, "fill_gaps": False}, True, False),
        ({"p2p": True, "gaps_from_engine": False}, False, True),
        ({}, True, False),
    ],
)
def test_who_is_asked_for_a_gap(config: dict[str, bool], engine: bool, peers: bool) -> None:
    """[UNS5, UNS6] By default the engine, and after a while peers as well."""
    gap = Gap(3, **config)
    gap.gossip(10)
    gap.run(TICK + 1)
    assert bool(gap.inserted) is engine and bool(gap.requested) is (peers and not engine)
    gap.run(TICK + int(PEERS_SECONDS))
    assert bool(gap.requested) is peers
    gap.gossip(*range(4, 10))
    gap.run(1)
    assert gap.heads == (10, 0)


def test_an_engine_that_cannot_fetch_is_named_and_derivation_goes_on() -> None:
    """[UNS6] Its own chain goes on as well, with the next block of gossip or of a peer."""
    gap = Gap(3, p2p=True)
    gap.gossip(20)
    gap.run(int(SHOW_SECONDS))
    assert gap.problem is None
    gap.run(3 * TICK)
    assert gap.problem == (
        f"the execution engine does not get blocks 4 to 19 below unsafe block {gap.refs[20]} from its peers"
    )
    for _ in range(12):
        gap.harness.derive()
        gap.run(1)
    assert gap.heads[1] >= 5 and gap.heads[0] == gap.heads[1]
    assert not gap.harness.done(act.ResetStarted) and gap.problem is not None
    gap.gossip(*range(gap.heads[0] + 1, 20))
    gap.run(TICK)
    assert gap.heads[0] == 20 and gap.problem is None and not gap.harness.failing


def fetching(tip: int) -> Gap:
    """Return a node whose engine fetches the chain up to block 40."""
    gap = Gap(tip, p2p=True)
    gap.gossip(40)
    gap.harness.until(api.ForkchoiceUpdate, CallPurpose.UNSAFE_GAP)
    gap.run(1)
    return gap


def test_a_busy_engine_keeps_what_it_has_and_derivation_continues_when_it_is_done() -> None:
    """[UNS7] An engine that fetches answers SYNCING to whatever it gets.

    As long as it has our tip, that is no reason to search for another start, which would point it elsewhere."""
    gap = fetching(6)
    for _ in range(3):
        gap.harness.derive()
        busy = gap.harness.until(api.ForkchoiceUpdate, CallPurpose.FORKCHOICE)
        gap.harness.answer(busy, api.ForkchoiceAnswer("SYNCING"))
        gap.run(1)
    assert not gap.harness.done(act.ResetStarted)
    assert "it fetches the chain up to block 40" in gap.harness.failures[-1]
    gap.engine.fetch()
    gap.run(12)
    assert gap.heads[0] == 40 and not gap.harness.failing


def test_an_engine_that_lost_its_tip_while_it_fetched_leads_to_a_new_start() -> None:
    """[UNS7]"""
    gap = fetching(6)
    gap.engine.lose(4)
    gap.harness.derive()
    gap.run(2)
    (reset,) = gap.harness.done(act.ResetStarted)
    assert reset.reason.endswith(f" SYNCING to a forkchoice update: it does not have block {gap.refs[6]} any more")


@pytest.mark.fault("F40")
def test_one_syncing_answer_to_a_consolidation_before_finality_passes_it() -> None:
    """base/base#3928: the answer was taken for success, the engine never heard of the safe head, and the finalized head
    that passed it ended the node."""
    gap = fetching(12)
    for _ in range(4):
        gap.harness.derive()
        gap.run(1)
    safe = gap.heads[1]
    gap.harness.derive()
    busy = gap.harness.until(api.ForkchoiceUpdate, CallPurpose.FORKCHOICE)
    gap.harness.answer(busy, api.ForkchoiceAnswer("SYNCING"))
    assert gap.heads[1] == safe, "what the engine has not accepted is not announced"
    gap.harness.move_l1(gap.harness.l1_head, finalized=gap.harness.l1_head)
    gap.harness.report_idle()
    gap.run(12)
    heads = gap.harness.core.heads
    assert heads is not None and heads.finalized.number == safe + 1 < heads.safe.number
    assert (gap.engine.safe, gap.engine.finalized) == (heads.safe.hash, heads.finalized.hash)
    assert not gap.harness.done(act.ResetStarted) and not gap.harness.failing


@pytest.mark.fault("F40")
def test_an_unsafe_head_with_missing_ancestors_that_the_engine_refuses_for_ever() -> None:
    """base/base#3793: after a reorg of the unsafe chain a block links to one that the engine has rejected.

    It leaves the queue, the engine gets our heads again, and the chain goes on: derived blocks and the next good
    block."""
    gap = Gap(6, p2p=True)
    side = gap.branch(2, 8)
    gap.gossip_ref(*side[5:])
    for _ in range(3):
        pending = gap.harness.until(api.NewPayload, CallPurpose.UNSAFE_GAP)
        gap.harness.answer(pending, api.PayloadAnswer("INVALID", "links to previously rejected block"))
    dropped = gap.harness.logged("dropping invalid unsafe block")
    assert [line["number"] for line in dropped] == [8, 9, 10]
    assert all("links to previously rejected block" in line["reason"] for line in dropped)
    for _ in range(9):
        gap.harness.derive()
        gap.run(1)
    gap.gossip(*range(gap.heads[0] + 1, 12))
    gap.run(1)
    assert gap.heads[0] == 11 and gap.heads[1] > 2 and not gap.harness.done(act.ResetStarted)


def test_a_chain_without_our_pending_safe_head_is_left_again() -> None:
    """An engine that does not answer to the question is asked again, from the start."""
    gap = Gap(6, p2p=True)
    gap.engine.fetch()
    gap.gossip(12)
    gap.harness.answer(gap.harness.until(api.GetBlockRef, CallPurpose.UNSAFE_GAP), None)
    assert "the engine does not show block 0 below it" in gap.harness.failures[-1]
    assert gap.harness.failing == {"unsafe gap"} and gap.heads == (6, 0)
    assert gap.harness.until(api.ForkchoiceUpdate, CallPurpose.FORKCHOICE).call == gap.our_update()
    gap.harness.answer(gap.harness.until(api.GetBlockRef, CallPurpose.UNSAFE_GAP), gap.refs[5])
    (dropped,) = gap.harness.logged("dropping invalid unsafe block")
    assert "instead of our safe head" in dropped["reason"] and gap.heads == (6, 0)
    assert gap.harness.until(api.ForkchoiceUpdate, CallPurpose.FORKCHOICE).call == gap.our_update()
    assert not gap.harness.done(act.ResetStarted)


def test_a_block_that_nobody_has_the_ancestors_of_does_not_hide_the_live_chain() -> None:
    """[UNS6] The lowest block is of a chain given up: the highest one gets its turn."""
    gap = Gap(6, p2p=True, fill_gaps=False)
    dead = gap.branch(4, 8)
    gap.engine.lost |= {item.hash for item in dead}
    gap.gossip_ref(dead[-1])
    gap.gossip(20, 21)
    gap.run(int(STALE_SECONDS) + 3 * TICK)
    assert gap.inserted[0] == 12 and gap.inserted[-1] == 21
    gap.engine.lost -= {ref.hash for ref in gap.refs}
    gap.run(2 * TICK)
    assert gap.heads[0] == 21 and gap.problem is None


def test_a_failed_call_is_made_again() -> None:
    gap = Gap(6, syncs=True, p2p=True)
    gap.gossip(12)
    gap.harness.answer(gap.harness.until(api.NewPayload, CallPurpose.UNSAFE_GAP), api.ErrorAnswer(-32000, "busy"))
    assert gap.harness.failing == {"unsafe gap"} and "unsafe block 12" in gap.harness.failures[-1]
    gap.run(3 * TICK)
    assert gap.heads[0] == 12 and not gap.harness.failing
