"""Derived attributes on their way into the engine: the answers row by row [ENG12 to ENG29], and whole jobs."""

from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from rollup_node.stages.engine.attributes.attributes_job import AttributesStep
from rollup_node.stages.engine.calls.engine_api import (
    ErrorAnswer,
    ForkchoiceAnswer,
    ForkchoiceUpdate,
    GetBlock,
    PayloadAnswer,
)
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads
from rollup_node.stages.messages.engine import AttributesOutcome
from rollup_node.stages.protocol.errors import CriticalError, ResetError, TemporaryError
from tests.support.chains.chain_fixture import ChainFixture, chain_with
from tests.support.engine.attributes_jobs import (
    BUILD,
    VALID,
    asked,
    at_step,
    derived,
    finish,
    started,
    step_through,
)


def test_one_forkchoice_update_per_l1_block_while_consolidating(chain: ChainFixture) -> None:
    refs = chain.build(4, users=[chain.user])
    handler = started(chain, refs[4], refs[0])
    for number in (1, 2):
        assert handler.offer(derived(chain, refs[number - 1], number, origin=102)) is None
        assert step_through(handler, chain.payloads[refs[number].hash]) is not None
    handler.offer(derived(chain, refs[2], 3, origin=103))
    assert handler.next() == ForkchoiceUpdate(Forkchoice(refs[4].hash, refs[2].hash, refs[0].hash))
    assert step_through(handler, VALID) is None
    assert handler.next() == GetBlock(3)


def test_reorgs_a_tip_that_l1_does_not_confirm(chain: ChainFixture) -> None:
    refs = chain.build(3)
    handler = started(chain, refs[3], refs[0])
    message = derived(chain, refs[0])
    handler.offer(message)
    assert step_through(handler, chain.payloads[refs[1].hash]) is None
    call = handler.next()
    assert isinstance(call, ForkchoiceUpdate) and call.forkchoice.head == refs[0].hash and handler.building
    outcome = finish(handler, chain.seal(refs[0], message.attributes))
    assert outcome.outcome is AttributesOutcome.ACCEPTED
    assert outcome.reason is not None and "transaction count does not match" in outcome.reason.text
    assert handler.controller.heads is not None and handler.controller.heads.unsafe == outcome.safe_head
    assert handler.controller.backup_unsafe_head is None, "a safe block ends the hope for the old tip"


def test_a_missing_block_to_consolidate_with_asks_for_a_reset(chain: ChainFixture) -> None:
    refs = chain.build(2)
    handler = started(chain, refs[2], refs[0])
    handler.offer(derived(chain, refs[0]))
    with pytest.raises(TemporaryError, match="not a block"):
        step_through(handler, ErrorAnswer(-32000, "busy"))
    with pytest.raises(ResetError, match="no block 1"):
        step_through(handler, None)


BUSY = ErrorAnswer(-32000, "busy")
INCONSISTENT = ErrorAnswer(-38002, "invalid forkchoice")
OTHER_STARTS = [BUSY, VALID, ForkchoiceAnswer("SYNCING"), ForkchoiceAnswer("ODD"), None]
OTHER_INSERTS = [BUSY, *(PayloadAnswer(status) for status in ("SYNCING", "ACCEPTED", "ODD")), None]


@pytest.mark.fault("F40")
@pytest.mark.parametrize(
    ("step", "error", "answers"),
    [
        (AttributesStep.START, ResetError, [INCONSISTENT, ErrorAnswer(-38005, "unsupported fork")]),
        (AttributesStep.START, TemporaryError, OTHER_STARTS),
        (AttributesStep.INSERT, TemporaryError, OTHER_INSERTS),
        (AttributesStep.CHOOSE, ResetError, [INCONSISTENT, ForkchoiceAnswer("SYNCING"), ForkchoiceAnswer("INVALID")]),
        (AttributesStep.CHOOSE, TemporaryError, [BUSY, None]),
    ],
)
def test_answers_that_are_errors(
    chain: ChainFixture, step: AttributesStep, error: type[Exception], answers: list[Any]
) -> None:
    handler = at_step(chain, step)
    due = handler.next()
    for answer in answers:
        with pytest.raises(error):
            step_through(handler, answer)
        assert handler.next() == due, f"nothing is lost by {answer}"


INVALID_STARTS = [ErrorAnswer(-38003, "bad"), ForkchoiceAnswer("INVALID"), ForkchoiceAnswer("INVALID_BLOCK_HASH")]


@pytest.mark.fault("F33")
@pytest.mark.parametrize("answer", INVALID_STARTS, ids=str)
def test_invalid_attributes_are_replaced_by_their_deposits(chain: ChainFixture, answer: Any) -> None:
    """Which are never invalid."""
    handler = at_step(chain, AttributesStep.START)
    assert step_through(handler, answer) is None
    attributes = asked(handler)
    assert len(attributes.transactions) == 1
    with pytest.raises(CriticalError, match="only deposit transactions"):
        step_through(deepcopy(handler), answer)
    outcome = finish(handler, chain.seal(chain.genesis, attributes))
    assert outcome.outcome is AttributesOutcome.REPLACED_BY_DEPOSITS
    assert outcome.safe_head.number == 1 and outcome.reason


def test_the_time_of_the_l1_block_derived_from_decides_on_replacement() -> None:
    """[ATT34]"""
    boundary = 1_000 + 12 * 3
    forks = dict.fromkeys(("regolith", "canyon", "delta", "ecotone", "fjord", "granite"), 0)
    chain = chain_with({**forks, "holocene": boundary})
    for origin, expected in ((102, True), (103, False)):
        handler = at_step(chain, AttributesStep.START, origin=origin)
        assert (step_through(handler, INVALID_STARTS[0]) is not None) is expected


@pytest.mark.parametrize(
    "changes",
    [
        *({"transactions": ()}, {"transactions": (b"\x7e\xc0",)}, {"extra_data": b"\x00" * 9}),
        *({"gas_limit": 7}, {"timestamp": 7}, {"block_number": 7}, {"fee_recipient": b"\x09" * 20}),
        *({"prev_randao": b"\x09" * 32}, {"parent_beacon_root": b"\x09" * 32}, {"parent_hash": b"\x09" * 32}),
    ],
    ids=lambda changes: next(iter(changes)),
)
@pytest.mark.parametrize("deposits", [False, True])
def test_an_engine_that_seals_another_block_is_at_fault(
    chain: ChainFixture, changes: dict[str, Any], deposits: bool
) -> None:
    """[ATT35] The attributes are neither replaced nor dropped, and the block is built again; so is the replacement."""
    handler = at_step(chain, AttributesStep.START)
    if deposits:
        step_through(handler, INVALID_STARTS[0])
    due = handler.next()
    sealed = chain.seal(chain.genesis, asked(handler))
    step_through(handler, BUILD)
    with pytest.raises(TemporaryError, match=r"^block 1.* on .*: the engine sealed") as raised:
        step_through(handler, msgspec.structs.replace(sealed, **changes))
    assert ("of deposits alone" in str(raised.value)) is deposits
    assert handler.next() == due
    expected = AttributesOutcome.REPLACED_BY_DEPOSITS if deposits else AttributesOutcome.ACCEPTED
    assert finish(handler, sealed).outcome is expected


def test_a_dropped_batch_gives_the_old_tip_back_once(chain_before_holocene: ChainFixture) -> None:
    chain = chain_before_holocene
    refs = chain.build(3)
    handler = started(chain, refs[3], refs[0])
    first = derived(chain, refs[0], 1, concluding=False)
    handler.offer(first)
    step_through(handler, chain.payloads[refs[1].hash])
    built = chain.seal(refs[0], first.attributes)
    new = chain.ref(built)
    assert finish(handler, built).safe_head == new
    assert handler.controller.heads == Heads(new, new, refs[0], refs[0]), "in mid batch the block is only pending"
    assert handler.controller.backup_unsafe_head == refs[3]
    handler.offer(derived(chain, new, 2))
    outcome = step_through(handler, INVALID_STARTS[0])
    assert outcome is not None and outcome.safe_head == refs[0] and outcome.outcome is AttributesOutcome.REFUSED
    call = handler.controller.forkchoice_due()
    assert call == ForkchoiceUpdate(Forkchoice(refs[3].hash, refs[0].hash, refs[0].hash))
    with pytest.raises(TemporaryError):
        handler.answer(call, BUSY)
    assert handler.controller.forkchoice_due() == call, "it is sent again to an engine that could not validate it"
    for answer, tip, error in (
        (VALID, refs[3], None),
        (ForkchoiceAnswer("SYNCING"), new, None),
        (ErrorAnswer(-38002, "no"), new, ResetError),
    ):
        copy = deepcopy(handler)
        with nullcontext() if error is None else pytest.raises(error):
            assert copy.answer(call, answer) is None
        assert copy.controller.heads is not None and copy.controller.heads.unsafe == tip
        assert copy.controller.backup_unsafe_head is None and not copy.controller.restoring_backup


def test_old_and_repeated_messages(chain: ChainFixture) -> None:
    handler = at_step(chain, AttributesStep.CHOOSE)
    message = derived(chain, chain.genesis)
    assert handler.offer(message) is None, "it is the present job already"
    outcome = step_through(handler, VALID)
    assert handler.offer(message) is outcome, "a repeated need is answered again"
    assert handler.offer(msgspec.structs.replace(message, sequence=0)) is outcome, "so is one from before it"
    assert handler.offer(msgspec.structs.replace(message, sequence=2, reset=7)) is None
    with pytest.raises(ResetError, match="do not fit"):
        handler.offer(msgspec.structs.replace(message, sequence=2))
