"""What follows from each answer, row by row [ENG12 to ENG32]."""

import msgspec
import pytest

from rollup_node.stages.engine.calls.engine_api import (
    CallStatus,
    ErrorAnswer,
    ForkchoiceAnswer,
    PayloadAnswer,
    build_start_result,
    forkchoice_result,
    insert_result,
    is_syncing,
    raise_for_fork_mismatch,
    show_name,
)
from rollup_node.stages.protocol.errors import ForkMismatchError
from rollup_node.stages.protocol.payloads import PayloadAttributes
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

DONE, INVALID, RESET = CallStatus.DONE, CallStatus.INVALID, CallStatus.RESET
RETRY, SYNCING = CallStatus.RETRY, CallStatus.SYNCING
ATTRIBUTES = PayloadAttributes(1_000, bytes(32), bytes(20), False, None, (), False, 30_000_000, None, None)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (ErrorAnswer(-38002, "invalid forkchoice state"), RESET),
        (ErrorAnswer(-38003, "invalid payload attributes"), INVALID),
        (ErrorAnswer(-38000, "lowest"), RESET),
        (ErrorAnswer(-38099, "highest"), RESET),
        (ErrorAnswer(-38100, "beyond"), RETRY),
        (ErrorAnswer(-32000, "busy"), RETRY),
        (ForkchoiceAnswer("VALID", b"payload1"), DONE),
        (ForkchoiceAnswer("VALID"), RETRY),
        (ForkchoiceAnswer("SYNCING"), SYNCING),
        (ForkchoiceAnswer("INVALID", None, "bad"), INVALID),
        (ForkchoiceAnswer("INVALID_BLOCK_HASH"), INVALID),
        (ForkchoiceAnswer("ACCEPTED"), RETRY),
        (PayloadAnswer("VALID"), RETRY),
        (None, RETRY),
    ],
    ids=str,
)
def test_build_start(answer: object, status: CallStatus) -> None:
    assert build_start_result(answer).status is status


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (ErrorAnswer(-38002, "invalid forkchoice state"), RESET),
        (ErrorAnswer(-38003, "?"), RETRY),
        (ErrorAnswer(-32000, "busy"), RETRY),
        (ForkchoiceAnswer("VALID"), DONE),
        (ForkchoiceAnswer("SYNCING"), RESET),
        (ForkchoiceAnswer("INVALID"), RESET),
        (ForkchoiceAnswer("ODD"), RESET),
        (None, RETRY),
    ],
    ids=str,
)
def test_forkchoice_without_attributes(answer: object, status: CallStatus) -> None:
    assert forkchoice_result(answer).status is status


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (ErrorAnswer(-38002, "?"), RETRY),
        (PayloadAnswer("VALID"), DONE),
        (PayloadAnswer("INVALID"), INVALID),
        (PayloadAnswer("INVALID_BLOCK_HASH"), INVALID),
        (PayloadAnswer("SYNCING"), SYNCING),
        (PayloadAnswer("ACCEPTED"), RETRY),
        (ForkchoiceAnswer("VALID"), RETRY),
        (None, RETRY),
    ],
    ids=str,
)
def test_new_payload(answer: object, status: CallStatus) -> None:
    assert insert_result(answer).status is status


def test_texts_name_status_code_and_error() -> None:
    assert (
        build_start_result(ErrorAnswer(-38003, "bad time")).text
        == "the engine did not start a block: bad time (-38003)"
    )
    assert (
        insert_result(PayloadAnswer("INVALID", "bad root")).text
        == "the engine answers INVALID to a new payload: bad root"
    )
    assert forkchoice_result(ForkchoiceAnswer("SYNCING")).text == "the engine answers SYNCING to a forkchoice update"


def test_answers_in_doubt() -> None:
    """[ENG38]"""
    doubtful = [make(status) for make in (ForkchoiceAnswer, PayloadAnswer) for status in ("SYNCING", "ACCEPTED")]
    assert all(map(is_syncing, doubtful))
    certain = [ForkchoiceAnswer("VALID"), PayloadAnswer("INVALID"), ErrorAnswer(-32000, "syncing"), None]
    assert not any(map(is_syncing, certain))


def test_names_of_blocks() -> None:
    assert [show_name(name) for name in (7, "latest", b"\x0a\x0b")] == ["7", "latest", "0x0a0b"]


@pytest.mark.condition("C13")
@pytest.mark.parametrize(
    "times, words", [({}, "where jovian is never active"), ({"jovian": 2_000}, "where jovian begins at 2000")]
)
def test_a_field_of_a_fork_that_is_not_active_here(times: dict[str, int], words: str) -> None:
    rollup = msgspec.structs.replace(PLAIN_ROLLUP, fork_times=times)
    with pytest.raises(ForkMismatchError, match="for block 7 at time 1000") as caught:
        raise_for_fork_mismatch(rollup, ATTRIBUTES, 7, ErrorAnswer(-38003, "minBaseFee is missing"))
    assert words in str(caught.value)
    assert "minBaseFee is missing (-38003)" in str(caught.value) and "--override.jovian" in str(caught.value)


def test_a_field_of_a_fork_that_is_active_here() -> None:
    rollup = msgspec.structs.replace(PLAIN_ROLLUP, fork_times={"canyon": 500})
    with pytest.raises(ForkMismatchError, match="canyon is active since 500"):
        raise_for_fork_mismatch(rollup, ATTRIBUTES, 7, ErrorAnswer(-38003, "unexpected withdrawals"))


@pytest.mark.parametrize(
    "answer",
    [
        ErrorAnswer(-38003, "invalid transaction"),
        ErrorAnswer(-32000, "minBaseFee is missing"),
        ForkchoiceAnswer("VALID"),
    ],
    ids=str,
)
def test_other_answers_say_nothing_of_forks(answer: object) -> None:
    raise_for_fork_mismatch(msgspec.structs.replace(PLAIN_ROLLUP, fork_times={}), ATTRIBUTES, 7, answer)
