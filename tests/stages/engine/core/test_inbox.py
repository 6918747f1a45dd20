"""Messages of other processes: what each leads to."""

import pytest

from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls.calls import CallPurpose
from rollup_node.stages.engine.calls.engine_api import ForkchoiceUpdate
from rollup_node.stages.engine.core.inbox import MAX_OVERLAP_BLOCKS
from rollup_node.stages.engine.core.state import MAX_OVERLAP_REQUESTS
from rollup_node.stages.messages import control
from rollup_node.stages.messages.engine import L2BlocksRequest, PipelineStart, StartRequest
from rollup_node.stages.protocol.config import ForeignFork
from tests.support.chains.chain_fixture import GENESIS_TIME, ChainFixture, chain_with
from tests.support.engine.core_harness import DERIVATION, CoreHarness, started

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


# --- derivation ----------------------------------------------------------------------------------------------------


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
    starts = [item.message for item in harness.done(act.SendToDerivation) if isinstance(item.message, PipelineStart)]
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
    sent = len(harness.done(act.SendToDerivation))
    harness.run_until_idle()
    assert len(harness.done(act.SendToDerivation)) == sent + MAX_OVERLAP_REQUESTS


# --- admin ---------------------------------------------------------------------------------------------------------


@pytest.mark.option("sequencer.stopped")
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
        pending = harness.until(ForkchoiceUpdate, CallPurpose.SEQUENCER)
        harness.answer(pending)
        if isinstance(pending.call, ForkchoiceUpdate) and pending.call.attributes is not None:
            return pending.call.attributes.no_tx_pool
