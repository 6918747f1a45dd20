"""The sequencer's tables [SEQ1 to SEQ13, SEQ20, SEQ29 to SEQ38], row by row, and any order of events."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.sequencer.sequencer import (
    BuildDropped,
    SequencedBlock,
    Sequencer,
    SequencerPhase,
)
from rollup_node.stages.protocol.config import ForeignFork
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture, chain_with
from tests.support.engine.core_harness import config_of

BUILD = api.ForkchoiceAnswer("VALID", b"payload1")
VALID = api.PayloadAnswer("VALID")
START = 1_000.0
"""The time of the L2 genesis block; blocks come every 2 s."""


def heads(chain: ChainFixture, unsafe: L2BlockRef | None = None, safe: L2BlockRef | None = None) -> Heads:
    safe = safe or chain.genesis
    return Heads(unsafe or chain.genesis, safe, safe, chain.genesis)


def running(chain: ChainFixture, now: float = START, **kind: Any) -> Sequencer:
    sequencer = Sequencer(config_of(chain, sequencer_enabled=True, **kind))
    sequencer.on_start(heads(chain), now)
    return sequencer


def begin(chain: ChainFixture, sequencer: Sequencer, now: float) -> api.ForkchoiceUpdate:
    """Return the call that begins a build."""
    need = sequencer.next(now)
    assert isinstance(need, L2BlockRef)
    attributes = chain.attributes(need, need.l1_origin.number)
    sequencer.set_attributes(need, attributes)
    call = sequencer.next(now)
    assert isinstance(call, api.ForkchoiceUpdate) and call.attributes == attributes
    assert call.forkchoice.head == need.hash
    return call


def build(chain: ChainFixture, sequencer: Sequencer, now: float) -> None:
    """Up to the running build."""
    assert sequencer.answer(begin(chain, sequencer, now), BUILD, now) is None


@pytest.fixture
def sequencer(chain: ChainFixture) -> Sequencer:
    """Return a sequencer whose build runs since START."""
    result = running(chain)
    build(chain, result, START)
    return result


def seal(chain: ChainFixture, sequencer: Sequencer, now: float) -> Any:
    """From a running build to the call that inserts its payload; the payload."""
    parent = sequencer.heads.unsafe  # type: ignore[union-attr]
    call = sequencer.next(now)
    assert isinstance(call, api.GetPayload)
    payload = chain.seal(parent, chain.attributes(parent, parent.l1_origin.number))
    assert sequencer.answer(call, payload, now) is None
    assert sequencer.next(now) == api.NewPayload(payload)
    return payload


def insert(chain: ChainFixture, sequencer: Sequencer, payload: Any, now: float) -> L2BlockRef:
    event = sequencer.answer(api.NewPayload(payload), VALID, now)
    assert isinstance(event, SequencedBlock)
    ref: L2BlockRef = event.block.ref
    assert sequencer.next(now) is None, "nothing happens until the engine has the new head"
    sequencer.on_heads(heads(chain, ref), now)
    return ref


def test_two_blocks_in_time(chain: ChainFixture) -> None:
    sequencer = running(chain)
    assert sequencer.wait_until() == START
    build(chain, sequencer, START)
    assert sequencer.phase is SequencerPhase.BUILDING
    assert sequencer.wait_until() == START + 2 - 0.05
    assert sequencer.next(START + 1.9) is None
    payload = seal(chain, sequencer, START + 1.95)
    first = insert(chain, sequencer, payload, START + 1.97)
    assert first.number == 1 and sequencer.wait_until() == START + 2
    build(chain, sequencer, START + 2)
    assert sequencer.wait_until() == START + 4 - 0.05


@pytest.mark.option("sequencer.sealing-duration")
def test_the_sealing_duration_counts(chain: ChainFixture) -> None:
    sequencer = running(chain, sealing_duration=0.5)
    build(chain, sequencer, START)
    assert sequencer.wait_until() == START + 1.5


def test_no_block_is_built_on_the_last_one_before_a_foreign_fork() -> None:
    """[LFT5]"""
    chain = chain_with(foreign_fork=ForeignFork("Somefork", int(START) + 4))
    sequencer = running(chain)
    build(chain, sequencer, START)
    first = insert(chain, sequencer, seal(chain, sequencer, START + 1.95), START + 1.97)
    assert first.number == 1
    assert sequencer.wait_until() is None and sequencer.next(START + 100) is None
    assert sequencer.stop() is None and not sequencer.active


# --- failures [SEQ5 to SEQ9] ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "pause"),
    [
        (api.ErrorAnswer(-32000, "busy"), 1),
        (api.ForkchoiceAnswer("ODD"), 1),
        (api.ForkchoiceAnswer("VALID"), 1),
        (api.ForkchoiceAnswer("SYNCING"), 30),
    ],
    ids=str,
)
def test_temporary_answers_to_a_build_start(chain: ChainFixture, answer: Any, pause: float) -> None:
    sequencer = running(chain)
    assert sequencer.answer(begin(chain, sequencer, START), answer, START) is None
    assert sequencer.wait_until() == START + pause and sequencer.problem
    build(chain, sequencer, START + pause)
    payload = seal(chain, sequencer, START + 40)
    assert sequencer.problem and sequencer.failures == 1, "a block that is begun is not built yet"
    insert(chain, sequencer, payload, START + 40)
    assert sequencer.problem is None


@pytest.mark.parametrize("code", [-38002, -38010])
def test_an_inconsistent_forkchoice_resets(chain: ChainFixture, code: int) -> None:
    sequencer = running(chain)
    call = begin(chain, sequencer, START)
    with pytest.raises(ResetError):
        sequencer.answer(call, api.ErrorAnswer(code, "no"), START)


CONTRADICTS = "ENGINE-CONTRADICTS: the engine sealed"


def test_a_lost_payload_or_another_block_is_given_up(chain: ChainFixture) -> None:
    """[ATT46]"""
    good = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100))
    foreign = chain.seal(chain.ref(good), chain.attributes(chain.ref(good), 100))
    for answer, reason in (
        (api.ErrorAnswer(-38001, "unknown payload"), "does not return it: unknown payload (-38001)"),
        (msgspec.structs.replace(good, transactions=()), f"{CONTRADICTS} other transactions"),
        (msgspec.structs.replace(good, gas_limit=7), f"{CONTRADICTS} another block 1: gas limit"),
        (foreign, f"{CONTRADICTS} block 2 instead of 1"),
        (None, "the engine's answer is not one to this call"),
    ):
        sequencer = running(chain)
        build(chain, sequencer, START)
        now = START + 1.95
        event = sequencer.answer(sequencer.next(now), answer, now)
        assert isinstance(event, BuildDropped) and reason in event.reason
        assert sequencer.wait_until() == now + 2 and sequencer.phase is SequencerPhase.IDLE


def test_a_sealed_block_is_inserted_again_after_a_temporary_error(chain: ChainFixture, sequencer: Sequencer) -> None:
    now = START + 1.95
    payload = seal(chain, sequencer, now)
    for answer in (api.ErrorAnswer(-32000, "busy"), api.PayloadAnswer("ACCEPTED"), api.PayloadAnswer("SYNCING")):
        assert sequencer.answer(api.NewPayload(payload), answer, now) is None
        assert sequencer.next(now) is None
        now += 1
        assert sequencer.next(now) == api.NewPayload(payload)


# --- pauses --------------------------------------------------------------------------------------------------------


def test_a_reset_pauses_and_its_end_waits_one_block_time(chain: ChainFixture, sequencer: Sequencer) -> None:
    """[SEQ9]"""
    sequencer.on_reset()
    assert sequencer.next(START + 10) is None and sequencer.building is None
    sequencer.on_start(heads(chain), START + 10)
    assert sequencer.next(START + 11.9) is None
    assert isinstance(sequencer.next(START + 12), L2BlockRef)


def test_another_tip_makes_the_job_stale(chain: ChainFixture, sequencer: Sequencer) -> None:
    """[SEQ13]"""
    due = sequencer.wait_until()
    sequencer.on_heads(heads(chain), START + 0.5)
    assert sequencer.wait_until() == due and sequencer.building is not None, "the same tip changes nothing"
    ref = chain.ref(chain.seal(chain.genesis, chain.attributes(chain.genesis, 100, [chain.user])))
    sequencer.on_heads(heads(chain, ref), START + 0.5)
    assert sequencer.building is None and sequencer.wait_until() == START + 2


@pytest.mark.option("sequencer.max-safe-lag")
@pytest.mark.fault("F54")
@pytest.mark.parametrize(("safe", "paused"), [(0, True), (1, True), (2, False), (5, False)])
def test_the_safe_lag_pauses_and_its_end_resumes(chain: ChainFixture, safe: int, paused: bool) -> None:
    refs = chain.build(5)
    sequencer = Sequencer(config_of(chain, sequencer_enabled=True, sequencer_max_safe_lag=4))
    sequencer.on_start(heads(chain, refs[5], refs[safe]), START + 10)
    assert (sequencer.next(START + 10) is None) is paused
    sequencer.on_heads(heads(chain, refs[5], refs[3]), START + 11)
    assert isinstance(sequencer.next(START + 11), L2BlockRef)


# --- start and stop [RPC57, RPC58, SEQ26, SEQ27] -------------------------------------------------------------------


def test_texts_of_a_node_without_sequencer(chain: ChainFixture) -> None:
    sequencer = Sequencer(config_of(chain, conductor_enabled=True))
    sequencer.on_start(heads(chain), START)
    assert not sequencer.active and not sequencer.conducted and sequencer.next(START + 100) is None
    assert sequencer.start(chain.genesis.hash, START) == sequencer.stop() == "sequencer is not enabled"


def test_texts_in_the_order_they_are_checked(chain: ChainFixture) -> None:
    sequencer = Sequencer(config_of(chain, sequencer_enabled=True, sequencer_stopped=True))
    assert sequencer.stop() == "sequencer not running"
    head = chain.genesis.hash
    text = f"no prestate, cannot determine if sequencer start at 0x{head.hex()} is safe"
    assert sequencer.start(head, START) == text
    sequencer.on_start(heads(chain), START)
    assert sequencer.next(START + 100) is None
    wrong = b"\x05" * 32
    text = f"block hash does not match: head 0x{head.hex()}:0, received 0x{wrong.hex()}"
    assert sequencer.start(wrong, START) == text
    assert sequencer.start(head, START + 50) is None
    assert sequencer.active and isinstance(sequencer.next(START + 50), L2BlockRef)
    assert sequencer.start(wrong, START) == "sequencer already running"


def test_a_stop_waits_for_the_sealed_block(chain: ChainFixture, sequencer: Sequencer) -> None:
    payload = seal(chain, sequencer, START + 1.95)
    assert sequencer.stop() is None and sequencer.active
    assert sequencer.next(START + 1.95) == api.NewPayload(payload)
    assert isinstance(sequencer.answer(api.NewPayload(payload), VALID, START + 2), SequencedBlock)
    assert not sequencer.active


@pytest.mark.parametrize("end", ["invalid", "reset", "other tip"])
def test_a_stop_ends_when_the_sealed_block_is_lost(chain: ChainFixture, sequencer: Sequencer, end: str) -> None:
    payload = seal(chain, sequencer, START + 1.95)
    sequencer.stop()
    if end == "invalid":
        sequencer.answer(api.NewPayload(payload), api.PayloadAnswer("INVALID"), START + 2)
    elif end == "reset":
        sequencer.on_reset()
    else:
        sequencer.on_heads(heads(chain, chain.build(2)[2]), START + 2)
    assert not sequencer.active
