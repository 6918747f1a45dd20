"""The sequencer's admin calls with a conductor, and the commits of its blocks [CND4 to CND9]."""

import pytest

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.calls.actions import Lasts, Send, ShowProblem, WorkFailed
from rollup_node.stages.engine.calls.calls import (
    CallPurpose,
    CommitPayload,
    GetLeader,
    Instant,
    PendingCall,
)
from rollup_node.stages.engine.calls.engine_api import NewPayload, Unavailable
from rollup_node.stages.engine.core.sequencer_rows import MAX_ADMIN_REQUESTS
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.messages import control
from rollup_node.stages.protocol.types import ZERO_HASH
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.core_harness import CoreHarness, config_of, started

RPC = ProcessId(6, 1)

OVERRIDDEN = "leader overridden, blocks are not committed to the conductor"

AWAY = Unavailable("127.0.0.1:8547: cannot connect (Connection refused)")


def conducted() -> CoreHarness:
    """Return a harness with a conductor, whose sequencer is stopped; a block every second."""
    chain = chain_with(block_time=1)
    return started(chain, sequencer_enabled=True, sequencer_l1_confs=0, conductor_enabled=True)


def start_request(harness: CoreHarness, number: int = 1) -> control.StartSequencerRequest:
    return control.StartSequencerRequest(number, harness.heads.unsafe.hash)


def running() -> CoreHarness:
    harness = conducted()
    start(harness, control.StartSequencerRequest(1, harness.heads.unsafe.hash), True)
    assert harness.responses[-1] == control.ControlResponse(1, None, None)
    return harness


def start(harness: CoreHarness, request: control.StartSequencerRequest, leads: bool) -> None:
    """The sequencer is started, and the conductor says whether it leads."""
    harness.request(request)
    harness.step()
    harness.answer(harness.call(CallPurpose.LEADER), leads)


def shown_problems(harness: CoreHarness) -> list[str | None]:
    """Return the problems of the sequencer that were shown so far."""
    shown = (item.problem for item in harness.done(ShowProblem) if item.name == "sequencer")
    return [None if problem is None else str(problem) for problem in shown]


def inserts(harness: CoreHarness) -> list[PendingCall]:
    return [pending for pending in harness.open if isinstance(pending.call, NewPayload)]


# --- start ---------------------------------------------------------------------------------------------------------


@pytest.mark.option("conductor.enabled")
def test_the_sequencer_begins_stopped_whatever_the_options_say() -> None:
    harness = conducted()
    assert harness.status.sequencer_enabled and not harness.status.sequencer_active
    harness.wait(5)
    assert harness.step() == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (True, None),
        (False, "sequencer is not the leader, aborting"),
        (AWAY, f"sequencer leader check failed: {AWAY.reason}"),
    ],
)
def test_a_start_is_decided_by_the_leader(answer: bool | Unavailable, error: str | None) -> None:
    harness = conducted()
    harness.request(start_request(harness))
    harness.request(start_request(harness))
    (pending,) = harness.step()
    assert (pending.purpose, pending.call) == (CallPurpose.LEADER, GetLeader())
    harness.request(start_request(harness))
    harness.answer(pending, answer)
    assert harness.responses == [control.ControlResponse(1, error, None)], "repetitions are the same request"
    assert harness.status.sequencer_active == (error is None) == bool(harness.logged("sequencer started"))
    assert not [item for item in harness.step() if item.purpose is CallPurpose.LEADER]


def test_the_leader_is_asked_before_anything_else_is_checked() -> None:
    """[RPC57]"""
    harness = running()
    start(harness, control.StartSequencerRequest(2, bytes(32)), False)
    assert harness.responses[-1] == control.ControlResponse(2, "sequencer is not the leader, aborting", None)
    start(harness, control.StartSequencerRequest(3, bytes(32)), True)
    assert harness.responses[-1] == control.ControlResponse(3, "sequencer already running", None)


def test_a_start_needs_an_answer_to_a_call_that_was_made_after_it() -> None:
    harness = conducted()
    harness.request(start_request(harness, 1))
    (first,) = harness.step()
    harness.request(start_request(harness, 2))
    assert harness.step() == []
    harness.answer(first, False)
    assert [response.id for response in harness.responses] == [1]
    (second,) = harness.step()
    harness.answer(second, True)
    assert harness.responses[-1] == control.ControlResponse(2, None, None)


def test_starts_that_wait_are_bounded() -> None:
    harness = conducted()
    for number in range(3 * MAX_ADMIN_REQUESTS):
        harness.request(start_request(harness, number))
    (pending,) = harness.step()
    harness.answer(pending, False)
    assert len(harness.responses) == MAX_ADMIN_REQUESTS


def test_a_start_outlives_a_reset() -> None:
    harness = conducted()
    harness.request(start_request(harness))
    (pending,) = harness.step()
    harness.request(control.ResetDerivationRequest(2))
    harness.answer(pending, True)
    assert harness.responses[0].error is not None and harness.responses[0].error.startswith("no prestate, ")


# --- commits -------------------------------------------------------------------------------------------------------


@pytest.mark.fault("F52")
def test_a_failed_commit_is_repeated_after_a_second_with_the_same_block() -> None:
    harness = running()
    commit = harness.until(CommitPayload)
    for _ in range(3):
        harness.answer(commit, AWAY)
        harness.wait(0.99)
        assert harness.step() == [] and harness.published == []
        harness.wait(0.02)
        (again,) = harness.step()
        assert again.call == commit.call
        commit = again
    text = f"failed to commit unsafe payload to conductor: {AWAY.reason}"
    assert [item.fields["reason"] for item in harness.done(Lasts)] == [text] * 3
    assert shown_problems(harness) == [f"sequencer: {text}"], "the same problem is shown once"
    assert harness.done(WorkFailed) == []
    harness.answer(commit, True)
    assert isinstance(commit.call, CommitPayload) and harness.published == [commit.call.payload]
    harness.run_until_idle()
    assert harness.done(ShowProblem)[-1] == ShowProblem("sequencer", None)


def test_derivation_goes_on_during_a_commit_and_its_block_on_the_tip_ends_the_commit() -> None:
    harness = running()
    commit = harness.until(CommitPayload)
    harness.derive(harness.chain.user)
    for _ in range(6):
        harness.step()
        pending = harness.head_call()
        if pending is not None:
            harness.answer(pending)
    assert harness.heads.safe.number == 1
    assert commit in harness.open
    harness.answer(commit, True)
    assert harness.published == []
    assert inserts(harness) == []
    harness.run_until_idle()
    harness.pass_time(2.0)
    assert harness.unsafe > 1, "the next one is built"


# --- stop ----------------------------------------------------------------------------------------------------------


def test_a_stop_during_a_commit_waits_for_the_block() -> None:
    """[CND9]"""
    harness = running()
    commit = harness.until(CommitPayload)
    harness.request(control.StopSequencerRequest(2))
    assert harness.step() == [] and harness.status.sequencer_active
    harness.answer(commit, True)
    assert len(harness.published) == 1
    harness.run_until_idle()
    assert harness.unsafe == 1
    assert harness.responses[-1] == control.ControlResponse(2, None, harness.heads.unsafe.hash)


@pytest.mark.parametrize("between_tries", [False, True])
def test_a_stop_does_not_wait_for_a_block_that_is_not_committed(between_tries: bool) -> None:
    harness = running()
    commit = harness.until(CommitPayload)
    if between_tries:
        harness.answer(commit, AWAY)
    harness.request(control.StopSequencerRequest(2))
    if not between_tries:
        harness.answer(commit, AWAY)
    harness.step()
    assert harness.responses[-1] == control.ControlResponse(2, None, harness.chain.genesis.hash)
    assert harness.published == [] and not harness.status.sequencer_active
    assert shown_problems(harness)[-1:] in ([], [None]), "a stopped sequencer has no problem"


@pytest.mark.parametrize("answer", [False, AWAY])
def test_a_stop_waits_for_the_last_block_only_while_this_node_leads(answer: bool | Unavailable) -> None:
    """[SEQ27]"""
    harness = running()
    insert = harness.until(NewPayload)
    harness.request(control.StopSequencerRequest(2))
    (leader,) = harness.step()
    assert leader.call == GetLeader()
    harness.answer(leader, True)
    assert harness.step() == [], "it is asked for again after a second"
    harness.wait(1)
    (leader,) = harness.step()
    harness.answer(leader, answer)
    harness.step()
    assert harness.responses[-1] == control.ControlResponse(2, None, harness.chain.genesis.hash)
    reason = "this node is not the leader" if isinstance(answer, bool) else answer.reason
    assert harness.logged("stopping without the last block") == [{"reason": reason}]
    assert harness.logged("sequencer stopped") == [{"head": harness.chain.genesis}]
    harness.answer(insert)
    harness.run_until_idle()
    assert harness.status.unsafe == harness.chain.genesis


@pytest.mark.parametrize("answer", [False, AWAY])
def test_a_node_that_does_not_lead_stops_though_the_engine_is_away(answer: bool | Unavailable) -> None:
    """The block is inserted, but the engine does not answer to the update that makes it the head."""
    harness = running()
    harness.answer(harness.until(NewPayload))
    (update,) = harness.step()
    harness.request(control.StopSequencerRequest(2))
    (leader,) = harness.step()
    harness.answer(leader, answer)
    assert harness.responses[-1] == control.ControlResponse(2, None, harness.chain.genesis.hash)
    assert not harness.status.sequencer_active
    harness.answer(update, AWAY)
    assert [pending for pending in harness.step() if pending.purpose is CallPurpose.LEADER] == []


# --- override ------------------------------------------------------------------------------------------------------


def test_an_override_is_without_effect_where_there_is_no_conductor() -> None:
    """[RPC51, RPC59]"""
    harness = started(chain_with(block_time=1), sequencer_enabled=True)
    harness.request(control.OverrideLeaderRequest(1))
    assert harness.responses == [control.ControlResponse(1, None, None)] and harness.logged(OVERRIDDEN) == []
    harness = started(chain_with(block_time=1))
    harness.request(control.OverrideLeaderRequest(1))
    assert harness.responses == [control.ControlResponse(1, "sequencer is not enabled", None)]


def test_an_override_lasts_for_the_life_of_the_process() -> None:
    """[CND7] No block after it is committed, whoever leads; here it comes before the sequencer is started."""
    harness = conducted()
    harness.request(control.OverrideLeaderRequest(1))
    harness.request(start_request(harness, 2))
    assert harness.responses[-1] == control.ControlResponse(2, None, None)
    for _ in range(3):
        harness.pass_time(1.0)
    assert harness.unsafe > 1 and harness.committed == []


@pytest.mark.parametrize("between_tries", [False, True])
def test_an_override_releases_the_block_and_the_starts_that_wait(between_tries: bool) -> None:
    harness = running()
    commit = harness.until(CommitPayload)
    if between_tries:
        harness.answer(commit, AWAY)
    harness.request(start_request(harness, 2))
    harness.request(control.OverrideLeaderRequest(3))
    errors = {response.id: response.error for response in harness.responses}
    assert errors == {1: None, 2: "sequencer already running", 3: None}
    assert isinstance(commit.call, CommitPayload) and harness.published == [commit.call.payload]
    (insert,) = harness.step()
    assert insert.call == NewPayload(commit.call.payload)
    if not between_tries:
        harness.answer(commit, AWAY)
    assert len(harness.published) == 1
    harness.answer(insert)
    harness.run_until_idle()
    assert harness.unsafe == 1


def test_a_stop_without_heads_is_answered_with_the_last_known_head() -> None:
    """[SEQ27] During a reset, while the engine is away: what an operator does in a failover."""
    harness = started(chain_with(block_time=1), sequencer_enabled=True, sequencer_l1_confs=0)
    harness.request(control.ResetDerivationRequest(1))
    assert harness.core.heads is None and harness.status.sequencer_active
    harness.request(control.StopSequencerRequest(2))
    for pending in harness.step():
        harness.answer(pending, AWAY)
    assert harness.responses == [control.ControlResponse(2, None, harness.chain.genesis.hash)]
    assert not harness.status.sequencer_active
    harness.request(control.StopSequencerRequest(3))
    assert harness.responses[-1] == control.ControlResponse(3, "sequencer not running", None)


def test_a_stop_does_not_wait_for_an_engine_that_lacks_nothing_of_this_node() -> None:
    """[SEQ27] A forkchoice update is due for another reason, and the engine is away."""
    harness = started(chain_with(block_time=1), sequencer_enabled=True, sequencer_l1_confs=0)
    harness.derive()
    while harness.core.heads is None or harness.heads.unsafe.number == 0:
        for pending in harness.step():
            harness.answer(pending)
    for pending in harness.step():
        harness.answer(pending, AWAY)
    harness.request(control.StopSequencerRequest(1))
    for pending in harness.step():
        harness.answer(pending, AWAY)
    assert [response.id for response in harness.responses] == [1] and harness.responses[0].error is None


def test_admin_requests_are_bounded_and_known() -> None:
    chain, now = chain_with(), Instant(1_000.0, 50.0)
    state = CoreState(config_of(chain, sequencer_enabled=True))
    state.sequencer.sequencer.stopping = True
    for number in range(2 * MAX_ADMIN_REQUESTS):
        for _ in range(2):
            state.leader_row.request(RPC, control.StopSequencerRequest(number), now)
        assert state.sequencer.add_reset((RPC, number)) == (number < MAX_ADMIN_REQUESTS)
        assert not state.sequencer.add_reset((RPC, number))
    keys = [(RPC, number) for number in range(MAX_ADMIN_REQUESTS)]
    assert state.sequencer.stops == state.sequencer.resets == keys
    state.sequencer.answer_stops()
    assert state.sequencer.stops == []
    messages = [item.message for item in state.actions if isinstance(item, Send)]
    assert messages == [control.ControlResponse(number, None, ZERO_HASH) for number in range(MAX_ADMIN_REQUESTS)]
