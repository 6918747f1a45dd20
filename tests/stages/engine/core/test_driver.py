"""Playbooks of the driver: table 11.4 of node-behaviour row by row, and the stories around it."""

from contextlib import nullcontext
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.engine.api.engine_api import (
    FetchPayload,
    FindBlock,
    ForkchoiceAnswer,
    InsertPayload,
    PayloadAnswer,
    Refused,
    UpdateForkchoice,
)
from rollup_node.stages.engine.api.heads import Forkchoice, Heads
from rollup_node.stages.engine.core.driver import Driver, Outcome, Step
from rollup_node.stages.messages.engine import AttributesOutcome, AttributesReady
from rollup_node.stages.protocol.errors import CriticalError, ResetError, TemporaryError
from rollup_node.stages.protocol.types import L2BlockRef

BUILD = ForkchoiceAnswer("VALID", b"payload1")
VALID = ForkchoiceAnswer("VALID")
TAKEN = PayloadAnswer("VALID")
EPOCH = 101


def started(world: Any, unsafe: L2BlockRef, safe: L2BlockRef) -> Driver:
    driver = Driver(world.rollup)
    driver.start(1, Heads(unsafe, safe, safe, world.genesis), world.known[safe.hash].config)
    call = driver.settle()
    assert call == UpdateForkchoice(Forkchoice(unsafe.hash, safe.hash, world.genesis.hash))
    assert driver.answer(call, VALID) is None
    assert driver.settle() is None
    return driver


def derived(
    world: Any, parent: L2BlockRef, sequence: int = 1, concluding: bool = True, origin: int = 102, epoch: int = 100
) -> AttributesReady:
    attributes = world.attributes(parent, epoch, [world.user])
    return AttributesReady(1, sequence, parent, attributes, world.l1_ref(origin), concluding)


def at_step(world: Any, step: Step, driver: Driver | None = None, **kind: Any) -> Driver:
    """A driver with a derived block on its way, just before the call of `step`."""
    driver = driver or started(world, world.genesis, world.genesis)
    assert driver.heads is not None
    message = derived(world, driver.heads.pending_safe, **kind)
    assert driver.offer(message) is None
    if step is Step.START:
        return driver
    step_through(driver, BUILD)
    if step is Step.SEAL:
        return driver
    step_through(driver, world.seal(message.parent, message.attributes))
    if step is Step.INSERT:
        return driver
    step_through(driver, TAKEN)
    return driver


def step_through(driver: Driver, answer: Any) -> Outcome | None:
    call = driver.next()
    assert call is not None
    return driver.answer(call, answer)


def test_builds_on_the_tip(world: Any) -> None:
    driver = started(world, world.genesis, world.genesis)
    message = derived(world, world.genesis)
    assert driver.offer(message) is None
    assert driver.building
    genesis = world.genesis.hash
    assert driver.next() == UpdateForkchoice(Forkchoice(genesis, genesis, genesis), message.attributes)
    assert driver.next() == driver.next(), "a need is repeated until it is met"
    assert step_through(driver, BUILD) is None
    assert driver.next() == FetchPayload(b"payload1", message.attributes.timestamp)
    payload = world.seal(world.genesis, message.attributes)
    assert step_through(driver, payload) is None
    assert driver.next() == InsertPayload(payload)
    assert step_through(driver, TAKEN) is None
    assert driver.next() == UpdateForkchoice(Forkchoice(payload.block_hash, payload.block_hash, genesis))
    outcome = step_through(driver, VALID)
    ref = world.ref(payload)
    assert outcome is not None
    assert (outcome.outcome, outcome.safe_head, outcome.reason) == (AttributesOutcome.ACCEPTED, ref, None)
    assert outcome.safe_config == world.known[ref.hash].config
    assert outcome.built == payload
    assert driver.heads == Heads(ref, ref, ref, world.genesis)
    assert driver.next() is None and driver.settle() is None, "an identical forkchoice is not sent"


def test_consolidates_with_the_block_that_is_there(world: Any) -> None:
    refs = world.chain(3, users=[world.user])
    driver = started(world, refs[3], refs[0])
    assert driver.offer(derived(world, refs[0])) is None
    assert not driver.building
    assert driver.next() == FindBlock(1)
    outcome = step_through(driver, world.payloads[refs[1].hash])
    assert outcome is not None and outcome.outcome is AttributesOutcome.ACCEPTED and outcome.built is None
    assert driver.heads == Heads(refs[3], refs[1], refs[1], world.genesis)
    assert driver.settle() == UpdateForkchoice(Forkchoice(refs[3].hash, refs[1].hash, refs[0].hash))


def test_one_forkchoice_update_per_l1_block_while_consolidating(world: Any) -> None:
    refs = world.chain(4, users=[world.user])
    driver = started(world, refs[4], refs[0])
    for number in (1, 2):
        assert driver.offer(derived(world, refs[number - 1], number, origin=102)) is None
        assert step_through(driver, world.payloads[refs[number].hash]) is not None
    driver.offer(derived(world, refs[2], 3, origin=103))
    assert driver.next() == UpdateForkchoice(Forkchoice(refs[4].hash, refs[2].hash, refs[0].hash))
    assert step_through(driver, VALID) is None
    assert driver.next() == FindBlock(3)


def test_reorgs_a_tip_that_l1_does_not_confirm(world: Any) -> None:
    refs = world.chain(3)
    driver = started(world, refs[3], refs[0])
    driver.offer(derived(world, refs[0]))
    assert step_through(driver, world.payloads[refs[1].hash]) is None
    call = driver.next()
    assert isinstance(call, UpdateForkchoice) and call.forkchoice.head == refs[0].hash
    assert driver.building
    message = derived(world, refs[0])
    step_through(driver, BUILD)
    step_through(driver, world.seal(refs[0], message.attributes))
    step_through(driver, TAKEN)
    outcome = step_through(driver, VALID)
    assert outcome is not None and outcome.outcome is AttributesOutcome.ACCEPTED
    assert outcome.reason is not None and "transaction count does not match" in outcome.reason
    assert driver.heads is not None and driver.heads.unsafe == outcome.safe_head
    assert driver.backup is None, "a safe block ends the hope for the old tip"


def test_a_missing_block_to_consolidate_with_asks_for_a_reset(world: Any) -> None:
    refs = world.chain(2)
    driver = started(world, refs[2], refs[0])
    driver.offer(derived(world, refs[0]))
    with pytest.raises(ResetError, match="no block 1"):
        step_through(driver, None)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Refused(-38002, "invalid forkchoice"), ResetError),
        (Refused(-38005, "unsupported fork"), ResetError),
        (Refused(-32000, "busy"), TemporaryError),
        (ForkchoiceAnswer("VALID"), TemporaryError),
        (ForkchoiceAnswer("SYNCING"), TemporaryError),
        (ForkchoiceAnswer("ODD"), TemporaryError),
        (None, TemporaryError),
    ],
    ids=str,
)
def test_build_start_rows(world: Any, answer: Any, error: type[Exception]) -> None:
    driver = at_step(world, Step.START)
    due = driver.next()
    with pytest.raises(error):
        step_through(driver, answer)
    assert driver.next() == due, "nothing is lost by a temporary error"


INVALID_STARTS = [Refused(-38003, "bad"), ForkchoiceAnswer("INVALID"), ForkchoiceAnswer("INVALID_BLOCK_HASH")]


@pytest.mark.parametrize("answer", INVALID_STARTS, ids=str)
def test_invalid_attributes_are_replaced_by_their_deposits(world: Any, answer: Any) -> None:
    driver = at_step(world, Step.START)
    assert step_through(driver, answer) is None
    call = driver.next()
    assert isinstance(call, UpdateForkchoice) and call.attributes is not None
    assert len(call.attributes.transactions) == 1
    step_through(driver, BUILD)
    step_through(driver, world.seal(world.genesis, call.attributes))
    step_through(driver, TAKEN)
    outcome = step_through(driver, VALID)
    assert outcome is not None and outcome.outcome is AttributesOutcome.REPLACED_BY_DEPOSITS
    assert outcome.safe_head.number == 1 and outcome.reason


@pytest.mark.parametrize("answer", INVALID_STARTS, ids=str)
def test_invalid_deposits_are_critical(world: Any, answer: Any) -> None:
    driver = at_step(world, Step.START)
    step_through(driver, answer)
    with pytest.raises(CriticalError, match="only deposit transactions"):
        step_through(driver, answer)


@pytest.mark.parametrize("answer", INVALID_STARTS, ids=str)
def test_invalid_attributes_are_dropped_before_holocene(before_replacement: Any, answer: Any) -> None:
    driver = at_step(before_replacement, Step.START)
    outcome = step_through(driver, answer)
    assert outcome is not None and outcome.outcome is AttributesOutcome.REFUSED
    assert outcome.safe_head == before_replacement.genesis
    assert driver.next() is None


def test_the_time_of_the_l1_block_derived_from_decides_on_replacement(make_world: Any) -> None:
    boundary = 1_000 + 12 * 3
    forks = dict.fromkeys(("regolith", "canyon", "delta", "ecotone", "fjord", "granite"), 0)
    world = make_world({**forks, "holocene": boundary})
    for origin, expected in ((102, True), (103, False)):
        driver = at_step(world, Step.START, origin=origin)
        assert (step_through(driver, INVALID_STARTS[0]) is not None) is expected


@pytest.mark.parametrize("answer", [Refused(-38001, "unknown payload"), Refused(-32000, "?"), None], ids=str)
def test_a_lost_build_is_started_again(world: Any, answer: Any) -> None:
    driver = at_step(world, Step.SEAL)
    with pytest.raises(TemporaryError):
        step_through(driver, answer)
    call = driver.next()
    assert isinstance(call, UpdateForkchoice) and call.attributes is not None


def test_an_insane_payload_is_dropped_without_replacement(world: Any) -> None:
    driver = at_step(world, Step.SEAL)
    message = derived(world, world.genesis)
    payload = world.seal(world.genesis, message.attributes)
    insane = [
        msgspec.structs.replace(payload, transactions=()),
        msgspec.structs.replace(payload, transactions=(b"\x02", *payload.transactions)),
        msgspec.structs.replace(payload, transactions=(*payload.transactions, payload.transactions[0])),
        msgspec.structs.replace(payload, transactions=(payload.transactions[0], b"")),
        msgspec.structs.replace(payload, transactions=(b"\x7e\xc0",)),
    ]
    for each in insane:
        driver = at_step(world, Step.SEAL)
        outcome = step_through(driver, each)
        assert outcome is not None and outcome.outcome is AttributesOutcome.REFUSED


@pytest.mark.parametrize(
    "answer",
    [Refused(-32000, "busy"), PayloadAnswer("SYNCING"), PayloadAnswer("ACCEPTED"), PayloadAnswer("ODD"), None],
    ids=str,
)
def test_new_payload_rows_that_are_temporary(world: Any, answer: Any) -> None:
    driver = at_step(world, Step.INSERT)
    due = driver.next()
    with pytest.raises(TemporaryError):
        step_through(driver, answer)
    assert driver.next() == due


@pytest.mark.parametrize("status", ["INVALID", "INVALID_BLOCK_HASH"])
def test_an_invalid_payload_is_replaced_then_critical(world: Any, status: str) -> None:
    driver = at_step(world, Step.INSERT)
    assert step_through(driver, PayloadAnswer(status)) is None
    call = driver.next()
    assert isinstance(call, UpdateForkchoice) and call.attributes is not None
    step_through(driver, BUILD)
    step_through(driver, world.seal(world.genesis, call.attributes))
    with pytest.raises(CriticalError):
        step_through(driver, PayloadAnswer(status))


def test_an_invalid_payload_is_dropped_before_holocene(before_replacement: Any) -> None:
    driver = at_step(before_replacement, Step.INSERT)
    outcome = step_through(driver, PayloadAnswer("INVALID", "bad state root"))
    assert outcome is not None and outcome.outcome is AttributesOutcome.REFUSED
    assert outcome.reason is not None and "bad state root" in outcome.reason


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Refused(-38002, "invalid forkchoice"), ResetError),
        (Refused(-32000, "busy"), TemporaryError),
        (ForkchoiceAnswer("SYNCING"), ResetError),
        (ForkchoiceAnswer("INVALID"), ResetError),
        (None, TemporaryError),
    ],
    ids=str,
)
def test_forkchoice_rows(world: Any, answer: Any, error: type[Exception]) -> None:
    driver = at_step(world, Step.CHOOSE)
    due = driver.next()
    with pytest.raises(error):
        step_through(driver, answer)
    assert driver.next() == due


def test_the_tip_never_falls_below_the_finalized_block(world: Any) -> None:
    refs = world.chain(3)
    driver = started(world, refs[3], refs[3])
    driver.finalize(refs[2])
    with pytest.raises(CriticalError, match="below the finalized block"):
        driver.advance(refs[1])


def test_a_dropped_batch_gives_the_old_tip_back_once(before_replacement: Any) -> None:
    world = before_replacement
    refs = world.chain(3)
    driver = started(world, refs[3], refs[0])
    first = derived(world, refs[0], 1, concluding=False)
    driver.offer(first)
    step_through(driver, world.payloads[refs[1].hash])
    step_through(driver, BUILD)
    built = world.seal(refs[0], first.attributes)
    step_through(driver, built)
    step_through(driver, TAKEN)
    outcome = step_through(driver, VALID)
    new = world.ref(built)
    assert outcome is not None and outcome.safe_head == new
    assert driver.heads == Heads(new, new, refs[0], refs[0]), "in mid batch the block is only pending"
    assert driver.backup == refs[3]
    driver.offer(derived(world, new, 2))
    outcome = step_through(driver, INVALID_STARTS[0])
    assert outcome is not None and outcome.safe_head == refs[0] and outcome.outcome is AttributesOutcome.REFUSED
    call = driver.settle()
    assert call == UpdateForkchoice(Forkchoice(refs[3].hash, refs[0].hash, refs[0].hash))
    with pytest.raises(TemporaryError):
        driver.answer(call, Refused(-32000, "busy"))
    assert driver.settle() == call, "an engine that could not judge is asked again"
    for answer, tip, error in (
        (VALID, refs[3], None),
        (ForkchoiceAnswer("SYNCING"), new, None),
        (Refused(-38002, "no"), new, ResetError),
    ):
        copy = Driver(world.rollup)
        copy.__dict__.update(driver.__dict__)
        with nullcontext() if error is None else pytest.raises(error):
            assert copy.answer(call, answer) is None
        assert copy.heads is not None and copy.heads.unsafe == tip
        assert copy.backup is None and not copy.restoring


def test_old_and_repeated_messages(world: Any) -> None:
    driver = at_step(world, Step.CHOOSE)
    message = derived(world, world.genesis)
    assert driver.offer(message) is None, "it is in hand already"
    outcome = step_through(driver, VALID)
    assert driver.offer(message) is outcome, "a repeated need is answered again"
    assert driver.offer(msgspec.structs.replace(message, sequence=0)) is None
    assert driver.offer(msgspec.structs.replace(message, sequence=2, reset=7)) is None
    stale = driver.offer(msgspec.structs.replace(message, sequence=2))
    assert stale is not None and stale.outcome is AttributesOutcome.REFUSED and stale.safe_head == outcome.safe_head  # type: ignore[union-attr]


def test_attributes_on_another_parent_ask_for_a_reset(world: Any) -> None:
    driver = started(world, world.genesis, world.genesis)
    message = derived(world, world.genesis)
    other = msgspec.structs.replace(world.genesis, hash=bytes(32))
    with pytest.raises(ResetError, match="do not fit"):
        driver.offer(msgspec.structs.replace(message, parent=other))


def test_answers_that_nobody_asked_for_are_ignored(world: Any) -> None:
    driver = at_step(world, Step.SEAL)
    due = driver.next()
    assert driver.answer(FindBlock(9), None) is None
    assert (
        driver.answer(
            InsertPayload(world.payloads.get(b"", world.seal(world.genesis, world.attributes(world.genesis, 100)))),
            TAKEN,
        )
        is None
    )
    assert driver.next() == due


def test_a_restart_of_derivation_keeps_the_tip(world: Any) -> None:
    refs = world.chain(3)
    driver = started(world, refs[3], refs[1])
    driver.offer(derived(world, refs[1]))
    driver.restart(2)
    assert driver.reset == 2 and driver.next() is None
    assert driver.heads == Heads(refs[3], refs[1], refs[1], refs[0])
    assert driver.settle() is None


ANSWERS = st.sampled_from(
    [
        BUILD,
        VALID,
        TAKEN,
        ForkchoiceAnswer("SYNCING"),
        ForkchoiceAnswer("INVALID"),
        PayloadAnswer("INVALID"),
        PayloadAnswer("SYNCING"),
        Refused(-38001, "unknown payload"),
        Refused(-38003, "invalid attributes"),
        Refused(-32000, "busy"),
        None,
        "payload",
    ]
)


@settings(max_examples=60)
@given(answers=st.lists(ANSWERS, max_size=30), reorg=st.booleans())
def test_any_answers_end_in_a_consistent_state(answers: list[Any], reorg: bool, lasting_world: Any) -> None:
    """Whatever the engine says, the machine stays in its table, and only ever finishes with a block it has seen."""
    world = lasting_world
    refs = world.chain(2)
    driver = started(world, refs[2] if reorg else refs[0], refs[0])
    message = derived(world, refs[0])
    driver.offer(message)
    finished = None
    for answer in answers:
        call = driver.next()
        if call is None:
            break
        if answer == "payload":
            attributes = driver.job.attributes if driver.job is not None else message.attributes
            answer = world.seal(refs[0], attributes)
        try:
            finished = driver.answer(call, answer) or finished
        except TemporaryError:
            assert driver.next() is not None
        except (ResetError, CriticalError):
            return
    assert driver.heads is not None
    assert driver.heads.finalized.number <= driver.heads.safe.number <= driver.heads.pending_safe.number
    assert (finished is None) == (driver.job is not None)
    if finished is not None:
        assert finished.safe_head == driver.heads.pending_safe
        assert finished.safe_head.hash in world.known
