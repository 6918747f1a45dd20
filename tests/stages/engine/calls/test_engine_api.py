"""What follows from each answer, row by row [ENG12 to ENG32]."""

from collections.abc import Callable

import msgspec
import pytest

from rollup_node.stages.engine.calls.engine_api import (
    BuildError,
    CallResult,
    CallStatus,
    ErrorAnswer,
    ForkchoiceAnswer,
    PayloadAnswer,
    Unavailable,
    build_start_result,
    commit_error,
    forkchoice_result,
    insert_result,
    is_syncing,
    open_error,
    raise_for_fork_mismatch,
    seal_error,
    show_name,
)
from rollup_node.stages.protocol.errors import ForkMismatchError
from rollup_node.stages.protocol.payloads import PayloadAttributes
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

DONE, INVALID, RESET = CallStatus.DONE, CallStatus.INVALID, CallStatus.RESET
RETRY, SYNCING = CallStatus.RETRY, CallStatus.SYNCING
ATTRIBUTES = PayloadAttributes(1_000, bytes(32), bytes(20), False, None, (), False, 30_000_000, None, None)


BUSY = ErrorAnswer(-32000, "busy")
WRONG_STATE = ErrorAnswer(-38002, "invalid forkchoice state")
INVALID_HASH = "INVALID_BLOCK_HASH"


@pytest.mark.parametrize(
    ("result_of", "status", "answers"),
    [
        (build_start_result, RESET, [WRONG_STATE, ErrorAnswer(-38000, "lowest"), ErrorAnswer(-38099, "highest")]),
        (build_start_result, RETRY, [BUSY, ErrorAnswer(-38100, "beyond"), PayloadAnswer("VALID"), None]),
        (build_start_result, RETRY, [ForkchoiceAnswer("VALID"), ForkchoiceAnswer("ACCEPTED")]),
        (build_start_result, INVALID, [ErrorAnswer(-38003, "?"), *map(ForkchoiceAnswer, ("INVALID", INVALID_HASH))]),
        (build_start_result, DONE, [ForkchoiceAnswer("VALID", b"payload1")]),
        (build_start_result, SYNCING, [ForkchoiceAnswer("SYNCING")]),
        (forkchoice_result, RESET, [WRONG_STATE, *map(ForkchoiceAnswer, ("SYNCING", "INVALID", "ODD"))]),
        (forkchoice_result, RETRY, [ErrorAnswer(-38003, "?"), BUSY, None]),
        (forkchoice_result, DONE, [ForkchoiceAnswer("VALID")]),
        (insert_result, RETRY, [WRONG_STATE, PayloadAnswer("ACCEPTED"), ForkchoiceAnswer("VALID"), None]),
        (insert_result, INVALID, [PayloadAnswer("INVALID"), PayloadAnswer(INVALID_HASH)]),
        (insert_result, DONE, [PayloadAnswer("VALID")]),
        (insert_result, SYNCING, [PayloadAnswer("SYNCING")]),
    ],
)
def test_what_follows_from_an_answer(
    result_of: Callable[[object], CallResult], status: CallStatus, answers: list[object]
) -> None:
    assert [result_of(answer).status for answer in answers] == [status] * len(answers)


def test_texts_name_status_code_and_error() -> None:
    refused, invalid = ErrorAnswer(-38003, "bad time"), PayloadAnswer("INVALID", "bad root")
    assert build_start_result(refused).text == "the engine did not start a block: bad time (-38003)"
    assert insert_result(invalid).text == "the engine answers INVALID to a new payload: bad root"
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
    ("times", "text", "words"),
    [
        ({}, "minBaseFee is missing", "jovian is never active"),
        ({"jovian": 2_000}, "minBaseFee is missing", "jovian begins at 2000"),
        ({"canyon": 500}, "unexpected withdrawals", "canyon is active since 500"),
    ],
)
def test_a_field_of_a_fork_that_the_engine_has_otherwise(times: dict[str, int], text: str, words: str) -> None:
    rollup = msgspec.structs.replace(PLAIN_ROLLUP, fork_times=times)
    with pytest.raises(ForkMismatchError, match=f"for block 7 at time 1000, where {words}") as caught:
        raise_for_fork_mismatch(rollup, ATTRIBUTES, 7, ErrorAnswer(-38003, text))
    assert f"{text} (-38003)" in str(caught.value) and f"--override.{words.split()[0]}" in str(caught.value)


TEMPORARY = "temporarily cannot insert new safe block: "
NEED_RESET = "need reset to resolve pre-state problem: "
GENERIC = "unexpected generic error code in forkchoice-updated response"
ENGINE = "unexpected engine error code in forkchoice-updated response"
INCONSISTENT = "pre-block-creation forkchoice update was inconsistent with engine, need reset to resolve"
BAD_ATTRIBUTES, NOT_VALID = "invalid payload attributes: ", "attributes are not valid"
NO_UPDATE = "could not update forkchoice"


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (ErrorAnswer(-38002, "bad"), -40101, f"{NEED_RESET}{INCONSISTENT}: bad"),
        (ErrorAnswer(-38003, "bad"), -40101, f"{BAD_ATTRIBUTES}payload {NOT_VALID}, cannot build block: bad"),
        (ErrorAnswer(-38005, "bad"), -40101, f"{NEED_RESET}{ENGINE}: bad"),
        (ErrorAnswer(-38099, "bad"), -40101, f"{NEED_RESET}{ENGINE}: bad"),
        (ErrorAnswer(-38100, "bad"), -40100, f"{TEMPORARY}{GENERIC}: bad"),
        (ErrorAnswer(-32000, "bad"), -40100, f"{TEMPORARY}{GENERIC}: bad"),
        (Unavailable("away"), -40100, f"{TEMPORARY}failed to create new block via forkchoice: away"),
        (ForkchoiceAnswer("VALID"), -40100, f"{TEMPORARY}nil id in forkchoice result when expecting a valid ID"),
        (ForkchoiceAnswer("SYNCING"), -40100, f"{TEMPORARY}engine is syncing"),
        (ForkchoiceAnswer("ACCEPTED"), -40100, f"{TEMPORARY}unexpected ACCEPTED status, {NO_UPDATE}"),
        (ForkchoiceAnswer("ODD"), -40100, f'{TEMPORARY}unknown forkchoice status: "ODD"'),
        (ForkchoiceAnswer("INVALID"), -40101, f"{BAD_ATTRIBUTES}cannot update forkchoice, block is invalid"),
        (ForkchoiceAnswer(INVALID_HASH), -40101, f"{BAD_ATTRIBUTES}unexpected {INVALID_HASH} status, {NO_UPDATE}"),
    ],
)
def test_a_build_that_does_not_start(answer: object, code: int, text: str) -> None:
    assert open_error(answer) == BuildError(code, text)
    assert open_error(ForkchoiceAnswer("VALID", bytes(8))) is None


def test_a_payload_that_cannot_be_fetched() -> None:
    assert seal_error(ErrorAnswer(-38001, "Unknown payload"), "seal") == BuildError(-40120, "unknown payload")
    assert seal_error(ErrorAnswer(-32000, "busy"), "seal") == BuildError(-40199, "failed to seal payload: busy")
    assert seal_error(Unavailable("away"), "cancel") == BuildError(-40199, "failed to cancel payload: away")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (PayloadAnswer("VALID"), None),
        (PayloadAnswer("INVALID", "bad root"), BuildError(-40110, "execution invalid: bad root")),
        (PayloadAnswer("INVALID_BLOCK_HASH"), BuildError(-40110, "execution invalid: INVALID_BLOCK_HASH")),
        (PayloadAnswer("SYNCING"), BuildError(-40100, "the engine answers SYNCING to the payload")),
        (ErrorAnswer(-32000, "busy"), BuildError(-32000, "failed to insert payload: failed to execute payload: busy")),
        (Unavailable("away"), BuildError(-32000, "failed to insert payload: failed to execute payload: away")),
    ],
)
def test_a_payload_to_insert(answer: object, error: BuildError | None) -> None:
    assert commit_error(answer) == error
