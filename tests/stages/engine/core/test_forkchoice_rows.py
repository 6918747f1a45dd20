"""Calls that move heads: what follows from their answers, answers that wait for the heads to be confirmed, and updates
that must come first."""

import pytest

from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.calls import CallPurpose, PendingCall
from rollup_node.stages.engine.sequencer.sequencer import BuildDropped, SequencedBlock
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.chains.chain_fixture import ChainFixture, chain_with
from tests.support.engine.core_harness import CoreHarness, started

BUSY = api.ErrorAnswer(-32000, "busy")


def next_block(chain: ChainFixture, harness: CoreHarness) -> ExecutionPayload:
    """Return a block on the tip, as another sequencer would build it."""
    tip = harness.heads.unsafe
    return chain.seal(tip, chain.attributes(tip, tip.l1_origin.number, [chain.user]))


def sequencing() -> CoreHarness:
    """Return a harness that sequences, with a block every second."""
    return started(chain_with(block_time=1), sequencer_enabled=True, sequencer_l1_confs=0)


# --- unsafe blocks -------------------------------------------------------------------------------------------------


def test_an_unsafe_block_is_published_when_the_engine_has_made_it_the_head(chain: ChainFixture) -> None:
    harness = started(chain)
    payload = next_block(chain, harness)
    harness.gossip(payload)
    (insert,) = harness.step()
    assert insert.call == api.NewPayload(payload)
    harness.answer(insert)
    assert [line["block"].number for line in harness.logged("inserted unsafe block")] == [1]
    assert harness.status.unsafe == chain.genesis
    (update,) = harness.step()
    assert isinstance(update.call, api.ForkchoiceUpdate) and update.purpose is CallPurpose.UNSAFE_BLOCK
    harness.answer(update)
    assert harness.status.unsafe == chain.ref(payload)


def inserting(chain: ChainFixture) -> tuple[CoreHarness, PendingCall]:
    """Return a harness that inserts a block of gossip, and that call."""
    harness = started(chain)
    harness.gossip(next_block(chain, harness))
    (insert,) = harness.step()
    return harness, insert


def test_an_unsafe_block_that_fails_is_tried_again_after_a_pause(chain: ChainFixture) -> None:
    harness, insert = inserting(chain)
    for pause in (1.0, 2.0):
        harness.answer(insert, BUSY)
        assert (
            harness.done(act.WorkFailed)[-1].seconds == pause
            and harness.done(act.WorkFailed)[-1].task == "unsafe blocks"
        )
        assert harness.step() == []
        harness.wait(pause)
        (insert,) = harness.step()
    harness.run_until_idle()
    assert harness.done(act.WorkRecovered)[-1] == act.WorkRecovered("unsafe blocks")


def test_a_failed_update_does_not_hold_up_derivation(chain: ChainFixture) -> None:
    """The update of an unsafe block is repeated with its own pause; attributes of a build carry the heads."""
    harness = started(chain)
    harness.gossip(next_block(chain, harness))
    update = harness.until(api.ForkchoiceUpdate, CallPurpose.UNSAFE_BLOCK)
    harness.answer(update, api.Unavailable("connection reset"))
    assert harness.step() == []
    harness.derive()
    (pending,) = harness.step()
    assert pending.purpose is CallPurpose.ATTRIBUTES and pending.call == api.GetBlock(1)


def test_an_invalid_unsafe_block_is_dropped(chain: ChainFixture) -> None:
    harness, insert = inserting(chain)
    harness.answer(insert, api.PayloadAnswer("INVALID", "bad state root"))
    assert "bad state root" in harness.logged("dropping invalid unsafe block")[0]["reason"]
    assert harness.step() == [] and harness.failures == []


# --- answers held until the heads are confirmed --------------------------------------------------------------------


@pytest.mark.parametrize("status", ["SYNCING", "ACCEPTED"])
def test_an_answer_in_doubt_waits_for_a_forkchoice_update(status: str, chain: ChainFixture) -> None:
    """[ENG38]: the engine still has the heads, so the answer stands."""
    harness = started(chain)
    harness.gossip(next_block(chain, harness))
    (insert,) = harness.step()
    harness.answer(insert, api.PayloadAnswer(status))
    assert harness.failures == []
    (update,) = harness.step()
    assert (
        update.call == api.ForkchoiceUpdate(harness.heads.forkchoice()) and update.purpose is CallPurpose.UNSAFE_BLOCK
    )
    harness.answer(update)
    assert harness.failures == [f"unsafe block 1: the engine answers {status} to a new payload"]
    assert harness.step() == []


# --- the sequencer -------------------------------------------------------------------------------------------------


def until_build(harness: CoreHarness) -> PendingCall:
    """Works until the call that begins a block of the sequencer is open."""
    while True:
        pending = harness.until(api.ForkchoiceUpdate, CallPurpose.SEQUENCER)
        if isinstance(pending.call, api.ForkchoiceUpdate) and pending.call.attributes is not None:
            return pending
        harness.answer(pending)


def test_the_sequencer_waits_for_an_engine_that_syncs() -> None:
    """[SEQ7] The heads are sent first, and the engine still has them [ENG38]."""
    harness = sequencing()
    build = until_build(harness)
    harness.answer(build, api.ForkchoiceAnswer("SYNCING"))
    began = harness.now.unix
    (update,) = harness.step()
    assert update.call == api.ForkchoiceUpdate(harness.heads.forkchoice())
    harness.answer(update)
    assert "SYNCING" in str(harness.core.log.lines()) and harness.done(act.Lasts)
    until_build(harness)
    assert harness.now.unix == pytest.approx(began + 30)


def test_a_sequenced_block_is_published_to_peers_before_it_is_inserted() -> None:
    harness = sequencing()
    fetch = harness.until(api.GetPayload, CallPurpose.SEQUENCER)
    harness.wait(0.25)
    harness.answer(fetch)
    assert harness.done(act.Observe) == [act.Observe("sequencer_sealing_seconds", 0.25)]
    (insert,) = harness.step()
    assert insert.call == api.NewPayload(harness.published[-1])
    harness.answer(insert)
    assert len(harness.done(SequencedBlock)) == 1
    assert harness.unsafe == 0, "the engine's head has not moved"
    (update,) = harness.step()
    assert isinstance(update.call, api.ForkchoiceUpdate) and update.purpose is CallPurpose.SEQUENCER
    harness.answer(update)
    assert harness.unsafe == 1


def test_the_sequencer_tries_again_after_a_second_without_a_failure_of_a_task() -> None:
    harness = sequencing()
    fetch = harness.until(api.GetPayload, CallPurpose.SEQUENCER)
    harness.answer(fetch, api.Unavailable("connection reset"))
    (lasts,) = harness.done(act.Lasts)
    assert harness.done(act.WorkFailed) == [] and lasts.fields == {"reason": "connection reset"}
    assert harness.done(act.ShowProblem)[-1] == act.ShowProblem(
        "sequencer", Problem(None, "sequencer", "connection reset")
    )
    assert harness.step() == []
    harness.wait(1)
    (again,) = harness.step()
    assert again.call == fetch.call, "the job is kept"
    harness.run_until_idle()
    assert harness.done(act.ShowProblem)[-1] == act.ShowProblem("sequencer", None)


def test_a_failed_update_of_a_sequenced_block_is_repeated_in_a_second() -> None:
    harness = sequencing()
    harness.until(api.NewPayload, CallPurpose.SEQUENCER)
    harness.answer(harness.open[0])
    (update,) = harness.step()
    harness.answer(update, BUSY)
    assert harness.step() == []
    harness.wait(1)
    (again,) = harness.step()
    assert again.call == update.call
    harness.run_until_idle()
    assert harness.done(SequencedBlock)[0].block.ref.number == 1


# --- forkchoice updates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_displaced_tip_is_tried_again_at_once(chain_before_holocene: ChainFixture, is_asked: bool) -> None:
    """A span's first block displaces the tip, its second one is invalid, also before the engine is asked [ENG35]."""
    chain = chain_before_holocene
    harness = started(chain)
    payload = next_block(chain, harness)
    harness.gossip(payload)
    harness.run_until_idle()
    harness.derive_block(concluding=False)
    assert harness.status.unsafe is not None and harness.status.unsafe != chain.ref(payload)
    harness.derive(chain.user if is_asked else b"\x05")
    if is_asked:
        build = harness.until(api.ForkchoiceUpdate, CallPurpose.ATTRIBUTES)
        harness.answer(build, api.ForkchoiceAnswer("INVALID"))
    (restore,) = harness.step()
    assert isinstance(restore.call, api.ForkchoiceUpdate) and restore.call.forkchoice.head == payload.block_hash
    harness.answer(restore)
    assert harness.status.unsafe == chain.ref(payload)
    assert harness.status.pending_safe == harness.status.safe == chain.genesis


@pytest.mark.parametrize("unreadable", [True, False])
def test_a_payload_that_never_comes_is_built_again(unreadable: bool) -> None:
    """[ENG21, SEQ6] For the sequencer; one failure without an answer is not the end of the build."""
    harness = sequencing()
    fetched: list[api.GetPayload] = []
    while not harness.done(BuildDropped):
        for pending in harness.step():
            if isinstance(pending.call, api.GetPayload):
                fetched.append(pending.call)
                harness.answer(pending, api.Unavailable("no payload", unreadable=unreadable))
            else:
                harness.answer(pending)
        harness.wait(0.25)
    assert fetched == fetched[:1] * (1 if unreadable else 2)
    for _ in range(20):
        harness.run_until_idle()
        harness.wait(0.25)
    assert harness.unsafe > 0


@pytest.mark.parametrize("unreadable", [True, False])
def test_a_derived_payload_that_never_comes_is_built_again(chain: ChainFixture, unreadable: bool) -> None:
    """[ENG21]"""
    harness = started(chain)
    harness.derive(chain.user)
    fetched: list[api.GetPayload] = []
    for _ in range(40):
        for pending in harness.step():
            is_first = isinstance(pending.call, api.GetPayload) and pending.call in (fetched or [pending.call])
            if isinstance(pending.call, api.GetPayload) and is_first:
                fetched.append(pending.call)
                harness.answer(pending, api.Unavailable("no payload", unreadable=unreadable))
            else:
                harness.answer(pending)
        harness.wait(0.5)
    assert fetched == fetched[:1] * (1 if unreadable else 2)
    assert harness.safe == 1


def test_the_sequencer_goes_on_when_derivation_restarts_during_a_derived_build() -> None:
    """The build ends without a forkchoice update, as the engine has not moved [SEQ10]."""
    harness = sequencing()
    harness.derive()
    harness.step()
    harness.answer(harness.call(CallPurpose.ATTRIBUTES), api.ErrorAnswer(-32000, "busy"))
    harness.restart_derivation()
    harness.derive()
    harness.wait(1.01)
    harness.step()
    harness.answer(harness.call(CallPurpose.START))
    harness.answer(harness.call(CallPurpose.ATTRIBUTES), api.ErrorAnswer(-32000, "busy"))
    for _ in range(20):
        harness.run_until_idle()
        harness.wait(0.5)
    assert harness.unsafe > 0
