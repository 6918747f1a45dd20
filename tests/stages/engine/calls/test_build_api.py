"""op-node's error codes and texts of the `opstack` namespace, by the engine's answer [RPC66]."""

import pytest

from rollup_node.stages.engine.calls.build_api import BuildError, commit_error, open_error, seal_error
from rollup_node.stages.engine.calls.engine_api import ErrorAnswer, ForkchoiceAnswer, PayloadAnswer, Unavailable

TEMPORARY = "temporarily cannot insert new safe block: "
RESET = "need reset to resolve pre-state problem: "
GENERIC = "unexpected generic error code in forkchoice-updated response"
ENGINE = "unexpected engine error code in forkchoice-updated response"
INCONSISTENT = "pre-block-creation forkchoice update was inconsistent with engine, need reset to resolve"
INVALID = "invalid payload attributes: "


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (ErrorAnswer(-38002, "bad"), -40101, f"{RESET}{INCONSISTENT}: bad"),
        (ErrorAnswer(-38003, "bad"), -40101, f"{INVALID}payload attributes are not valid, cannot build block: bad"),
        (ErrorAnswer(-38005, "bad"), -40101, f"{RESET}{ENGINE}: bad"),
        (ErrorAnswer(-38099, "bad"), -40101, f"{RESET}{ENGINE}: bad"),
        (ErrorAnswer(-38100, "bad"), -40100, f"{TEMPORARY}{GENERIC}: bad"),
        (ErrorAnswer(-32000, "bad"), -40100, f"{TEMPORARY}{GENERIC}: bad"),
        (Unavailable("away"), -40100, f"{TEMPORARY}failed to create new block via forkchoice: away"),
        (ForkchoiceAnswer("VALID"), -40100, f"{TEMPORARY}nil id in forkchoice result when expecting a valid ID"),
        (ForkchoiceAnswer("SYNCING"), -40100, f"{TEMPORARY}engine is syncing"),
        (ForkchoiceAnswer("ACCEPTED"), -40100, f"{TEMPORARY}unexpected ACCEPTED status, could not update forkchoice"),
        (ForkchoiceAnswer("ODD"), -40100, f'{TEMPORARY}unknown forkchoice status: "ODD"'),
        (ForkchoiceAnswer("INVALID"), -40101, f"{INVALID}cannot update forkchoice, block is invalid"),
        (
            ForkchoiceAnswer("INVALID_BLOCK_HASH"),
            -40101,
            f"{INVALID}unexpected INVALID_BLOCK_HASH status, could not update forkchoice",
        ),
    ],
)
def test_a_build_that_does_not_start(answer: object, code: int, text: str) -> None:
    assert open_error(answer) == BuildError(code, text)


def test_a_build_that_starts() -> None:
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
