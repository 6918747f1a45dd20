"""What follows from each answer, row by row [ENG12 to ENG32]."""

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
    show_name,
)

DONE, INVALID, RESET = CallStatus.DONE, CallStatus.INVALID, CallStatus.RESET
RETRY, SYNCING = CallStatus.RETRY, CallStatus.SYNCING


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
