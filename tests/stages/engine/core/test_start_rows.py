"""EL sync in the engine core: from an empty engine to derivation, with what goes wrong on the way [ELS1 to ELS13]."""

from typing import Any

import pytest

from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls.calls import CallPurpose
from rollup_node.stages.engine.calls.engine_api import (
    ErrorAnswer,
    ForkchoiceUpdate,
    GetBlock,
    NewPayload,
    Unavailable,
)
from rollup_node.stages.engine.core.start_rows import POLL_SECONDS, STALL_SECONDS, SyncProgress
from rollup_node.stages.engine.starts.el_sync import RESEND_SECONDS, ELSyncState
from rollup_node.stages.messages.codes import Code
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.core_harness import CoreHarness
from tests.support.engine.model_engine import ModelEngine

LENGTH = 12


class Node:
    """A node that syncs by its engine; the offset of 8 s is 4 blocks."""

    def __init__(self, **config: Any) -> None:
        self.chain = chain_with(l1_step=4)
        self.refs = self.chain.build(LENGTH)
        self.engine = ModelEngine(self.chain)
        self.engine.lost = {ref.hash for ref in self.refs[1:]}
        self.config = {"el_sync": True, "offset_el_safe": 8.0, **config}
        self.harness = CoreHarness(self.chain, self.engine, **self.config)
        self.harness.move_l1(105)
        self.harness.run_until_idle()

    def gossip(self, *numbers: int) -> None:
        for number in numbers:
            self.harness.gossip(self.chain.payloads[self.refs[number].hash])
        self.harness.run_until_idle()

    def wait(self, seconds: float) -> None:
        self.harness.wait(seconds)
        self.harness.run_until_idle()

    def state(self) -> ELSyncState:
        return self.harness.el_sync.state

    @property
    def problem(self) -> str | None:
        """What `/readyz` shows."""
        problem = [shown.problem for shown in self.harness.done(act.ShowProblem) if shown.name == "start"][-1]
        return None if problem is None else str(problem)

    def heads(self) -> tuple[int, int, int]:
        """As published: unsafe, safe and finalized."""
        status = self.harness.status
        assert status.unsafe is not None and status.safe is not None and status.finalized is not None
        return status.unsafe.number, status.safe.number, status.finalized.number

    def derive(self) -> None:
        """Derivation gets its start, and its next block becomes safe."""
        self.harness.derive()
        heads = self.harness.core.heads
        assert heads is not None and self.harness.start is not None
        self.harness.derive()
        self.wait(0.2)
        after = self.harness.core.heads
        assert after is not None and after.safe.number == heads.safe.number + 1


def test_from_an_empty_engine_to_derivation() -> None:
    node = Node()
    assert node.state() is ELSyncState.WILL_START and node.problem is not None and "unsafe block" in node.problem
    node.harness.derive()
    node.gossip(8)
    node.gossip(9, 10)
    assert node.state() is ELSyncState.STARTED
    assert node.harness.start is None and node.harness.status.unsafe is None, "derivation does not step [ELS1]"
    node.engine.fetch()
    node.wait(RESEND_SECONDS)
    assert node.state() is ELSyncState.FINISHED and node.heads() == (10, 6, 6) and node.problem is None
    finished = node.harness.logged("Finished EL sync")[0]
    assert finished["unsafe"] == node.refs[10] and finished["seconds"] >= RESEND_SECONDS
    assert (node.engine.safe, node.engine.finalized) == (node.refs[6].hash, node.refs[6].hash)
    node.derive()


def test_a_block_from_the_future_while_the_engine_syncs() -> None:
    """Whose ancestors no engine has: the sync to the live chain ends all the same [ELS11], and derivation consolidates
    that chain without a reset, which would point the engine elsewhere (optimism#21004)."""
    node = Node(p2p=True, offset_el_safe=4.0)
    node.harness.derive()
    node.gossip(8)
    node.gossip(12)
    node.engine.fetch()
    node.engine.lost = {node.refs[number].hash for number in (10, 11, 12)}
    node.wait(RESEND_SECONDS)
    assert node.state() is ELSyncState.STARTED and node.harness.status.unsafe is None
    for _ in range(14):
        node.gossip(9)
        node.wait(RESEND_SECONDS)
    assert node.state() is ELSyncState.FINISHED and node.heads() == (9, 7, 7)
    for _ in range(2):
        node.gossip(12)
        node.derive()
    node.wait(1.0)
    assert node.heads()[:2] == (9, 9) and node.engine.head == node.refs[9].hash
    assert node.harness.done(act.ResetStarted) == [] and node.harness.done(act.WorkFailed) == []


def test_blocks_below_the_target_do_not_pile_up() -> None:
    node = Node()
    for number in range(2, 11):
        node.gossip(number)
    assert node.harness.done(act.UnsafeQueueChanged)[-1].length == 1


@pytest.mark.sign("EL-SYNC-STALLED", readyz=True)
def test_an_engine_without_peers_is_a_problem_with_a_hint_and_goes_on_when_it_has_them() -> None:
    node = Node()
    node.gossip(10)
    for _ in range(40):
        node.wait(POLL_SECONDS)
    assert node.state() is ELSyncState.STARTED
    assert node.problem is not None and "check that the execution engine has peers" in node.problem
    assert node.problem.startswith("EL-SYNC-STALLED: EL sync: ")
    stalls = node.harness.done(act.Lasts)[-1]
    assert (stalls.name, stalls.code, stalls.fields["minutes"]) == ("EL sync", Code.EL_SYNC_STALLED, 7)
    assert node.harness.failures == []
    node.engine.fetch()
    node.wait(RESEND_SECONDS)
    assert node.heads() == (10, 6, 6) and node.problem is None


def test_progress_is_shown() -> None:
    node = Node()
    node.gossip(10)
    node.engine.lost = {ref.hash for ref in node.refs[6:]}
    node.engine.head = node.refs[5].hash
    node.wait(POLL_SECONDS)
    estimate = node.harness.logged("EL sync")[-1]
    assert estimate == {"block": 5, "to_go": 5, "rate": 0.5, "eta_seconds": 10}
    assert node.problem == "EL sync: block 5, 5 blocks to go, 0.5 blocks/s, about 10s left"
    node.harness.wait(POLL_SECONDS)
    node.harness.step()
    count = len(node.harness.logged("EL sync"))
    node.harness.answer(node.harness.call(CallPurpose.EL_SYNC_PROGRESS), ErrorAnswer(-32601, "no such method"))
    node.harness.run_until_idle()
    assert len(node.harness.logged("EL sync")) == count, "an engine may not tell"


@pytest.mark.condition("C6")
def test_the_engine_dies_in_every_state() -> None:
    node = Node()
    for _ in range(60):
        node.harness.wait(2.0)
        if node.state() is ELSyncState.STARTED:
            node.engine.fetch()
        if node.state() is ELSyncState.WILL_START:
            node.harness.gossip(node.chain.payloads[node.refs[10].hash])
        node.harness.step()
        for pending in list(node.harness.open):
            node.harness.answer(pending, Unavailable("connection refused"))
        node.harness.wait(15.0)
        node.harness.step()
        if node.harness.open:
            node.harness.answer(node.harness.open[0])
        if node.state() is ELSyncState.FINISHED and node.harness.status.safe is not None:
            break
    node.wait(15.0)
    assert node.heads()[0] == 10 and node.state() is ELSyncState.FINISHED


@pytest.mark.parametrize("answer", [None, Unavailable("no transactions", unreadable=True)], ids=["none", "unreadable"])
def test_an_engine_without_the_history_behind_the_offset_starts_nearer_to_the_tip(answer: Unavailable | None) -> None:
    """The blocks below the safe head are pruned: its offset shrinks until the pipeline start is found [ELS12]."""
    node = Node()
    node.gossip(10)
    node.engine.fetch()
    node.harness.wait(RESEND_SECONDS)
    for _ in range(400):
        node.harness.step()
        if node.state() is ELSyncState.FINISHED:
            break
        if not node.harness.open:
            node.harness.sleep()
            continue
        pending = node.harness.open[0]
        pruned = isinstance(pending.call, GetBlock) and pending.call.name in (6, node.refs[6].hash)
        node.harness.answer(pending, answer if pruned else ...)
    assert node.heads() == (10, 8, 8)


def test_what_failed_is_no_problem_any_more_once_the_sync_is_skipped() -> None:
    """[ELS9]"""
    node = Node(sequencer_enabled=True)
    harness = CoreHarness(node.chain, node.engine, **node.config)
    harness.move_l1(105)
    harness.gossip(node.chain.payloads[node.refs[3].hash])
    for _ in range(400):
        for pending in harness.step():
            is_attempt = pending.purpose is CallPurpose.EL_SYNC and isinstance(
                pending.call, ForkchoiceUpdate | NewPayload
            )
            harness.answer(pending, Unavailable("timeout") if is_attempt else ...)
        if not harness.el_sync.in_progress:
            break
        harness.wait(0.5)
    assert harness.el_sync.state is ELSyncState.FINISHED
    assert [item.task for item in harness.done(act.WorkFailed)].count("EL sync") > 1
    assert [item.task for item in harness.done(act.WorkRecovered)] == ["EL sync"]


def test_rate_and_time_left() -> None:
    progress = SyncProgress()
    first = progress.add(100, 1000, 50.0)
    assert (first.to_go, first.rate, first.eta, first.stalled) == (900, 0.0, None, 0.0)
    later = progress.add(200, 1000, 60.0)
    assert (later.to_go, later.rate, later.eta) == (800, 10.0, 80.0)
    assert str(later.problem) == "EL sync: block 200, 800 blocks to go, 10.0 blocks/s, about 1m20s left"
    assert progress.add(10, 1000, 70.0).rate == 0.0, "an engine that starts over has no rate of before"


def test_no_new_block_is_a_hint_at_peers() -> None:
    progress = SyncProgress()
    progress.add(7, 1000, 0.0)
    assert "check that" not in progress.add(7, 1000, STALL_SECONDS - 1).problem.text
    hint = "no new block for 5m0s; check that the execution engine has peers"
    assert hint in progress.add(7, 9, STALL_SECONDS).problem.text
    assert "check that" not in progress.add(8, 9, STALL_SECONDS + 1).problem.text
