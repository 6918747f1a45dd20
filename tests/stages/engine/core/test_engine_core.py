"""Playbooks of the engine core: lanes and their priority, late answers, failures and timers, and what messages lead to.

Calls that move heads are in the tests of forkchoice_rows."""

import pytest

from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.calls import CallPurpose, GetL1BlockRef
from rollup_node.stages.engine.core.engine_core import MAX_OVERLAP_BLOCKS, POLL_SECONDS
from rollup_node.stages.engine.core.start_rows import SEARCH_PAUSE
from rollup_node.stages.engine.core.state import MAX_OVERLAP_REQUESTS
from rollup_node.stages.messages import control
from rollup_node.stages.messages.engine import L2BlocksRequest, L2BlocksResponse, PipelineStart, StartRequest
from rollup_node.stages.messages.p2p import PayloadRequest, PayloadResponse
from rollup_node.stages.protocol.config import AltDaConfig, ForeignFork
from rollup_node.stages.protocol.errors import CriticalError
from tests.support.chains.chain_fixture import GENESIS_TIME, ChainFixture, chain_with
from tests.support.engine.core_harness import DERIVATION, P2P, CoreHarness, started
from tests.support.engine.model_engine import ModelEngine

FINALIZED = "finalized L2 block"


def engine_with(chain: ChainFixture, length: int, safe: int = 0, per_epoch: int = 6) -> ModelEngine:
    """Return an engine that has a chain, with `per_epoch` blocks to an L1 block."""
    refs, engine = chain.build(length, per_epoch), ModelEngine(chain)
    engine.head, engine.safe, engine.finalized = refs[length].hash, refs[safe].hash, refs[0].hash
    return engine


# --- starts --------------------------------------------------------------------------------------------------------


@pytest.mark.fault("F44")
def test_a_label_whose_block_cannot_be_read_is_not_absent(chain: ChainFixture) -> None:
    """[STA18] With genesis in its place blocks that nobody has posted would be safe, and final."""
    harness = CoreHarness(chain)
    (pending,) = harness.step()
    harness.answer(pending, api.Unavailable("pruned", unreadable=True))
    assert harness.failures == ["pruned"] and harness.step() == []


def test_searches_begin_a_second_apart(chain: ChainFixture) -> None:
    harness = started(chain)
    harness.wait(5)
    harness.request(control.ResetDerivationRequest(1))
    assert harness.call_names() == ["GetBlockRef"]
    harness.run_until_idle()
    harness.request(control.ResetDerivationRequest(2))
    assert harness.step() == []
    harness.wait(SEARCH_PAUSE)
    assert len(harness.step()) == 1


def test_a_reset_ignores_open_answers_and_searches_at_once(chain: ChainFixture) -> None:
    """The head-moving call stays open, so the new heads are confirmed after its answer."""
    harness = started(chain)
    harness.derive(chain.user)
    (build,) = harness.step()
    harness.wait(2)
    harness.request(control.ResetDerivationRequest(1))
    assert harness.core.heads is None and harness.status.unsafe is None
    assert [reset.reason for reset in harness.done(act.ResetStarted)] == ["requested by admin_resetDerivationPipeline"]
    while (calls := harness.step()) and calls[0].purpose is CallPurpose.START:
        harness.answer(calls[0])
    assert harness.core.heads is not None and harness.open == [build]
    harness.answer(build)
    (confirm,) = harness.step()
    assert confirm.call == api.ForkchoiceUpdate(harness.heads.forkchoice())
    harness.answer(confirm)
    assert harness.responses[-1].error is None, "the admin call is answered once the new start is confirmed"


# --- lanes ---------------------------------------------------------------------------------------------------------


def test_reads_do_not_delay_calls_that_move_heads(chain: ChainFixture) -> None:
    harness = started(chain)
    harness.request(control.OutputRequest(1, 0))
    harness.request(PayloadRequest(1, 0), P2P)
    harness.request(L2BlocksRequest(1, 0, 3), DERIVATION)
    harness.derive(chain.user)
    lanes = [pending.purpose.lane for pending in harness.step()]
    assert lanes == [None, CallPurpose.OVERLAP_BLOCKS, CallPurpose.OUTPUT, CallPurpose.PEER_PAYLOAD]
    slow = [pending for pending in harness.open if pending.purpose.lane is not None]
    for _ in range(4):
        pending = harness.head_call()
        assert pending is not None
        harness.answer(pending)
        harness.step()
    assert harness.safe == 1
    for pending in slow:
        harness.answer(pending)
    assert len(harness.sent(PayloadResponse)) == len(harness.responses) == 1


def test_attributes_come_before_unsafe_blocks_and_these_before_sequencing() -> None:
    """All are due at the same time: the engine has just accepted the sequencer's last block."""
    chain = chain_with(block_time=1)
    harness = started(chain, sequencer_enabled=True, sequencer_l1_confs=0)
    harness.pass_time(1)
    assert harness.unsafe == 1
    for derives, expected in ((True, ["attributes", "sequencer"]), (False, ["unsafe", "sequencer"])):
        harness.wait(5)
        tip = harness.heads.unsafe
        harness.gossip(chain.seal(tip, chain.attributes(tip, 100, [chain.user])))
        if derives:  # the derived block displaces tip and gossip
            harness.derive(chain.user)
        first = len(harness.core.log)
        harness.run_until_idle()
        works = [line.split()[3] for line in harness.core.log.lines()[first:] if " call " in line]
        assert list(dict.fromkeys(works)) == expected


# --- finality ------------------------------------------------------------------------------------------------------


def test_finality_moves_between_head_moving_calls_alone(chain: ChainFixture) -> None:
    harness = started(chain)
    for _ in range(2):
        harness.derive_block(chain.user)
    harness.move_l1(106, 106)
    harness.derive(chain.user)
    calls = harness.step()
    assert [pending.purpose for pending in calls] == [CallPurpose.ATTRIBUTES, CallPurpose.FINALITY]
    harness.answer(harness.call(CallPurpose.FINALITY))
    (checked,) = harness.step()
    assert checked.call == GetL1BlockRef(105, fresh=False)
    harness.answer(checked)
    assert harness.step() == [] and harness.logged(FINALIZED) == [], "a build is being started"
    harness.answer(calls[0])
    harness.step()
    assert [line["block"].number for line in harness.logged(FINALIZED)] == [2]
    harness.run_until_idle()
    assert harness.engine.finalized == harness.logged(FINALIZED)[0]["block"].hash


def test_finality_is_tried_again_when_derivation_is_idle(chain: ChainFixture) -> None:
    harness = started(chain)
    harness.move_l1(105, 105)
    for idle, final in ((False, [1]), (False, [1]), (True, [1, 2])):
        if idle:
            harness.report_idle()
            harness.run_until_idle()
        else:
            harness.derive_block(chain.user)
        assert [line["block"].number for line in harness.logged(FINALIZED)] == final


def test_an_l1_block_that_is_missing_is_read_again_in_a_second(chain: ChainFixture) -> None:
    harness = started(chain)
    harness.derive_block(chain.user)
    harness.pass_time(10)
    harness.move_l1(105, 120)
    (pending,) = harness.step()
    harness.answer(pending)
    assert harness.step() == []
    assert harness.core.wait_until(harness.now) == harness.now.monotonic + POLL_SECONDS
    harness.wait(POLL_SECONDS)
    (again,) = harness.step()
    assert again.call == pending.call == GetL1BlockRef(120, fresh=True)
    harness.answer(again, api.Unavailable("the l1 process does not answer"))
    assert harness.done(act.WorkFailed)[-1].task == "finalize"


# --- timers and ends -----------------------------------------------------------------------------------------------


def test_a_consolidated_block_reaches_the_engine_in_a_tenth_of_a_second(chain: ChainFixture) -> None:
    """One update for the blocks that came one after the other [ENG37]."""
    harness = started(chain, engine_with(chain, 3))
    for number in (1, 2):
        harness.wait(0.05)
        harness.derive()
        (pending,) = harness.step()
        assert pending.call == api.GetBlock(number)
        harness.answer(pending)
        assert harness.step() == []
        assert harness.core.wait_until(harness.now) == pytest.approx(harness.now.monotonic + 0.1)
    assert harness.engine.safe == chain.genesis.hash
    harness.sleep()
    harness.run_until_idle()
    assert harness.status.safe is not None and harness.engine.safe == harness.status.safe.hash


def test_a_contradiction_is_critical_and_leaves_its_stimuli_in_the_log(chain: ChainFixture) -> None:
    harness = started(chain)
    harness.derive()
    for _ in range(2):
        harness.step()
        harness.answer(harness.open[0])
    (insert,) = harness.step()
    with pytest.raises(CriticalError, match="only deposit transactions"):
        harness.answer(insert, api.PayloadAnswer("INVALID", "bad deposits"))
    lines = harness.core.log.lines()
    assert "answer 10 PayloadAnswer(status=INVALID error=bad deposits" in lines[-1]
    assert "call 10 attributes NewPayload(payload=payload(1:" in lines[-2]


def test_with_alt_da_derivation_restarts_where_its_challenges_are_known_again() -> None:
    """As it does after a restart of the engine process, and after a reset that the operator asks for [ADA14]."""
    chain = chain_with(l1_step=2, alt_da=AltDaConfig(b"\xda" * 20, "KeccakCommitment", 40, 20))
    harness = CoreHarness(chain, engine_with(chain, 250, safe=90, per_epoch=1))
    harness.l1_head = 400
    harness.derive()
    harness.run_until_idle(600)
    assert harness.start is not None
    before = harness.start
    assert before.base.number == chain.genesis.l1_origin.number + 90 - 60, "the engine's safe head was block 90"
    harness.restart_derivation()
    harness.derive_block()
    assert harness.start.reset > before.reset and harness.start.safe_head == before.safe_head
    assert harness.start.base.number == before.safe_head.l1_origin.number - 60
    harness.wait(SEARCH_PAUSE)
    harness.request(control.ResetDerivationRequest(1))
    harness.run_until_idle(600)
    assert harness.start.safe_head.number < before.safe_head.number
    assert harness.start.base.number == before.safe_head.l1_origin.number - 60


def test_a_job_in_hand_ends_before_derivation_restarts(chain: ChainFixture) -> None:
    harness = started(chain)
    harness.derive(chain.user)
    (build,) = harness.step()
    harness.restart_derivation()
    harness.derive()
    (read,) = harness.step()
    assert read.purpose is CallPurpose.START
    harness.answer(read)
    assert harness.step() == []
    harness.answer(build)
    harness.run_until_idle()
    assert harness.start is not None and harness.start.safe_head.number == 1, "the safe head has moved meanwhile"


@pytest.mark.fault("F45")
def test_a_safe_block_that_the_engine_lost_is_found_when_derivation_restarts(chain: ChainFixture) -> None:
    harness = started(chain, engine_with(chain, 3, safe=3))
    harness.derive_block(chain.user)
    harness.wait(5)
    harness.engine.lose(0)
    harness.request(StartRequest(harness.core.status().reset, None), DERIVATION)
    harness.run_until_idle()
    assert "has lost the safe block" in harness.failures[-1]
    assert harness.heads.safe == chain.genesis


# --- the end of a network that left --------------------------------------------------------------------------------


def leaving(last: int) -> ChainFixture:
    """Return a chain whose last block before a foreign fork has this number."""
    return chain_with(foreign_fork=ForeignFork("Somefork", GENESIS_TIME + 2 * last + 2))


def test_the_last_safe_head_is_known_once_engine_and_database_have_it() -> None:
    """[LFT4]"""
    harness = started(leaving(2), safedb_path="safe.db")
    harness.run_until_idle()
    harness.derive_block()
    assert harness.core.last_safe_head is None and harness.status.safe is not None
    assert harness.status.safe.number == 1
    harness.derive()
    harness.run_others(CallPurpose.SAFE_HEAD_WRITE)
    assert harness.heads.safe.number == 2
    assert harness.core.last_safe_head is None, "the safe head database does not have it"
    harness.run_until_idle()
    harness.pass_time(1.0)
    assert harness.core.last_safe_head == harness.heads.safe
    assert harness.engine.safe == harness.heads.safe.hash


@pytest.mark.parametrize("finalized", [2, 3])
def test_an_engine_that_finalized_the_last_block_is_at_the_end_at_once(finalized: int) -> None:
    """[LFT4]"""
    chain = leaving(2)
    engine = engine_with(chain, 5, safe=4)
    engine.finalized = chain.build(5)[finalized].hash
    harness = CoreHarness(chain, engine)
    harness.derive_block()
    assert harness.core.last_safe_head is not None and harness.core.last_safe_head.number >= finalized


# --- messages ------------------------------------------------------------------------------------------------------

WENT_BACK = "ignoring a finalized L1 block below the last one"


def test_an_l1_finality_that_goes_back_is_reported_and_ignored(chain: ChainFixture) -> None:
    """It begins again after L1 dropped it."""
    harness = CoreHarness(chain)
    for finalized, reported in ((103, []), (103, []), (102, [102]), (None, [102]), (101, [102])):
        harness.move_l1(105, finalized)
        assert [line["number"] for line in harness.logged(WENT_BACK)] == reported


def test_an_unsafe_block_is_reported_each_time_and_queued_once(chain: ChainFixture) -> None:
    harness = CoreHarness(chain)
    payload = chain.payloads[chain.build(1)[1].hash]
    harness.gossip(payload)
    harness.gossip(payload)
    assert [action.queued for action in harness.done(act.UnsafeBlockReceived)] == [True, False]
    assert [(action.length, action.lowest) for action in harness.done(act.UnsafeQueueChanged)] == [(1, payload)]


def test_a_posted_block_is_one_like_any_other(chain: ChainFixture) -> None:
    harness = started(chain)
    payload = chain.payloads[chain.build(1)[1].hash]
    harness.request(control.PostUnsafePayloadRequest(7, payload))
    assert harness.responses == [control.ControlResponse(7, None, None)]
    assert [pending.purpose for pending in harness.step()] == [CallPurpose.UNSAFE_BLOCK]


def test_a_block_beyond_a_foreign_fork_is_not_taken() -> None:
    """[LFT5]"""
    chain = chain_with(foreign_fork=ForeignFork("Somefork", GENESIS_TIME + 4))
    harness = started(chain)
    last, foreign = (chain.payloads[ref.hash] for ref in chain.build(2)[1:])
    harness.request(control.PostUnsafePayloadRequest(7, foreign))
    (response,) = harness.responses
    assert response.error is not None and "block 1 is the last that can be derived" in response.error
    harness.gossip(foreign)
    harness.gossip(last)
    assert [action.queued for action in harness.done(act.UnsafeBlockReceived)] == [False, False, True]
    harness.run_until_idle()
    assert harness.unsafe == 1


def test_a_reset_that_derivation_requests(chain: ChainFixture) -> None:
    harness = started(chain)
    assert harness.start is not None
    harness.request(StartRequest(harness.start.reset, "L1 block 102 is another one"), DERIVATION)
    assert harness.logged("derivation requests a reset")[0]["reason"] == "L1 block 102 is another one"
    assert len(harness.done(act.ResetStarted)) == 1
    harness.request(StartRequest(harness.start.reset, "L1 block 102 is another one"), DERIVATION)
    assert len(harness.done(act.ResetStarted)) == 1, "a start is being searched for already"


def test_a_lost_start_is_sent_again(chain: ChainFixture) -> None:
    harness = started(chain)
    harness.request(StartRequest(0, None), DERIVATION)
    starts = harness.sent(PipelineStart)
    assert len(starts) == 2 and starts[0] == starts[1]


@pytest.mark.parametrize(("first", "last"), [(5, 4), (0, MAX_OVERLAP_BLOCKS)])
def test_ranges_of_overlap_blocks_that_cannot_be_read(first: int, last: int, chain: ChainFixture) -> None:
    harness = started(chain)
    harness.request(L2BlocksRequest(1, first, last), DERIVATION)
    assert harness.step() == []


def test_requests_for_overlap_blocks_are_bounded(chain: ChainFixture) -> None:
    harness = started(chain)
    for number in range(2 * MAX_OVERLAP_REQUESTS):
        harness.request(L2BlocksRequest(1, number, number), DERIVATION)
    harness.run_until_idle()
    assert len(harness.sent(L2BlocksResponse)) == MAX_OVERLAP_REQUESTS


@pytest.mark.option("sequencer.enabled", "sequencer.stopped")
def test_starting_and_stopping_the_sequencer(chain: ChainFixture) -> None:
    harness = started(chain, sequencer_enabled=True, sequencer_stopped=True)
    assert harness.status.sequencer_active is False
    harness.request(control.StartSequencerRequest(1, bytes(32)))
    assert harness.responses[-1].error is not None and not harness.status.sequencer_active
    harness.request(control.StartSequencerRequest(2, chain.genesis.hash))
    assert harness.responses[-1] == control.ControlResponse(2, None, None)
    assert harness.logged("sequencer started") == [{"head": chain.genesis}]
    assert harness.status.sequencer_active
    harness.request(control.StopSequencerRequest(3))
    harness.request(control.StopSequencerRequest(3))
    harness.run_until_idle()
    assert harness.responses[-1] == control.ControlResponse(3, None, chain.genesis.hash) and len(harness.responses) == 3
    assert harness.logged("sequencer stopped") == [{"head": chain.genesis}]
    assert not harness.status.sequencer_active
    harness.request(control.StopSequencerRequest(4))
    assert harness.responses[-1] == control.ControlResponse(4, "sequencer not running", None)


def test_a_stop_that_is_overtaken_by_a_start_is_answered_with_the_head_where_it_stopped(chain: ChainFixture) -> None:
    """Both requests arrive before the core's next step."""
    harness = started(chain, sequencer_enabled=True)
    harness.request(control.StopSequencerRequest(1))
    harness.request(control.StartSequencerRequest(2, chain.genesis.hash))
    assert harness.responses == [
        control.ControlResponse(1, None, chain.genesis.hash),
        control.ControlResponse(2, None, None),
    ]
    assert harness.logged("sequencer stopped") == [{"head": chain.genesis}]
    assert harness.status.sequencer_active


def test_a_reset_by_an_operator_is_answered_once_and_after_the_new_start(chain: ChainFixture) -> None:
    harness = started(chain)
    harness.request(control.ResetDerivationRequest(1))
    harness.request(control.ResetDerivationRequest(1))
    harness.request(control.ResetDerivationRequest(2))
    assert len(harness.done(act.ResetStarted)) == 1 and harness.responses == []
    harness.pass_time(1)
    assert harness.responses == [control.ControlResponse(1, None, None), control.ControlResponse(2, None, None)]


def test_a_verifier_has_no_recover_mode_and_no_sdm_opt_in(chain: ChainFixture) -> None:
    """[RPC53, RPC59]"""
    harness = started(chain)
    harness.request(control.SetRecoverModeRequest(1, True))
    harness.request(control.SetSdmOptInRequest(2, True))
    refused = control.ControlResponse(2, "sequencer is not enabled", None)
    assert harness.responses == [control.ControlResponse(1, None, None), refused]
    assert not harness.core.status().sdm_opt_in


def test_the_sdm_opt_in_is_reported_and_changes_no_block(chain: ChainFixture) -> None:
    """[RPC55, RPC56, RPC98]"""
    harness = started(chain, sequencer_enabled=True, sequencer_l1_confs=0)
    assert not harness.core.status().sdm_opt_in
    for number, enabled in enumerate((True, False, True)):
        harness.request(control.SetSdmOptInRequest(number, enabled))
        assert harness.responses[-1] == control.ControlResponse(number, None, None)
        assert harness.core.status().sdm_opt_in is enabled
    assert started(chain, sequencer_enabled=True, sdm_opt_in=True).core.status().sdm_opt_in


@pytest.mark.fault("F54")
def test_recover_mode_holds_for_the_blocks_that_follow(chain: ChainFixture) -> None:
    """[RPC53, SEQ19]"""
    harness = started(chain, sequencer_enabled=True, sequencer_l1_confs=0)
    harness.move_l1(105)
    assert not builds_without_pool(harness)
    harness.request(control.SetRecoverModeRequest(1, True))
    assert builds_without_pool(harness)
    harness.request(control.SetRecoverModeRequest(2, False))
    assert not builds_without_pool(harness)


def builds_without_pool(harness: CoreHarness) -> bool:
    """Whether the next block that is begun takes no transactions from the pool."""
    while True:
        pending = harness.until(api.ForkchoiceUpdate, CallPurpose.SEQUENCER)
        harness.answer(pending)
        if isinstance(pending.call, api.ForkchoiceUpdate) and pending.call.attributes is not None:
            return pending.call.attributes.no_tx_pool
