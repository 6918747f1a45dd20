"""What an engine's answers mean for the calls of the `opstack` namespace: op-node's error codes and texts [RPC66]."""

import msgspec

from rollup_node.stages.engine.calls.engine_api import (
    INVALID_ATTRIBUTES,
    INVALID_FORKCHOICE,
    ErrorAnswer,
    ForkchoiceAnswer,
    PayloadAnswer,
    Unavailable,
)
from rollup_node.stages.protocol.errors import SERVER_ERROR

TEMPORARY = -40100
PRESTATE = -40101
INVALID_INPUT = -40110
UNKNOWN_PAYLOAD = -40120
OTHER = -40199

_ENGINE_UNKNOWN_PAYLOAD = -38001
_FORKCHOICE_STATUSES = {
    "SYNCING": "engine is syncing",
    "INVALID": "cannot update forkchoice, block is invalid",
    **dict.fromkeys(("ACCEPTED", "INVALID_TERMINAL_BLOCK", "INVALID_BLOCK_HASH"), ""),
}


class BuildError(msgspec.Struct, frozen=True):
    """An error to answer with."""

    code: int
    text: str


def open_error(answer: object) -> BuildError | None:
    """Return the error of a forkchoice update with attributes; None where it started a block."""
    if isinstance(answer, ErrorAnswer):
        return _open_rpc_error(answer)
    if not isinstance(answer, ForkchoiceAnswer):
        return _temporary(f"failed to create new block via forkchoice: {_reason(answer)}")
    if answer.status == "VALID":
        missing = answer.payload_id is None
        return _temporary("nil id in forkchoice result when expecting a valid ID") if missing else None
    text = _FORKCHOICE_STATUSES.get(answer.status, f'unknown forkchoice status: "{answer.status}"')
    text = text or f"unexpected {answer.status} status, could not update forkchoice"
    if answer.status in ("INVALID", "INVALID_BLOCK_HASH"):
        return BuildError(PRESTATE, f"invalid payload attributes: {text}")
    return _temporary(text)


def _open_rpc_error(answer: ErrorAnswer) -> BuildError:
    what = "forkchoice-updated response"
    if answer.code == INVALID_ATTRIBUTES:
        text = "invalid payload attributes: payload attributes are not valid, cannot build block"
        return BuildError(PRESTATE, f"{text}: {answer.message}")
    if not -38100 < answer.code <= -38000:
        return _temporary(f"unexpected generic error code in {what}: {answer.message}")
    cause = f"unexpected engine error code in {what}"
    if answer.code == INVALID_FORKCHOICE:
        cause = "pre-block-creation forkchoice update was inconsistent with engine, need reset to resolve"
    return BuildError(PRESTATE, f"need reset to resolve pre-state problem: {cause}: {answer.message}")


def _temporary(text: str) -> BuildError:
    return BuildError(TEMPORARY, f"temporarily cannot insert new safe block: {text}")


def seal_error(answer: object, verb: str) -> BuildError:
    """Return the error of engine_getPayload without a payload; `verb` is "seal" or "cancel"."""
    if isinstance(answer, ErrorAnswer) and answer.code == _ENGINE_UNKNOWN_PAYLOAD:
        return BuildError(UNKNOWN_PAYLOAD, "unknown payload")
    return BuildError(OTHER, f"failed to {verb} payload: {_reason(answer)}")


def commit_error(answer: object) -> BuildError | None:
    """Return the error of engine_newPayload; None where the engine has validated the block.

    Differs: op-node makes a block the head that the engine could not validate yet."""
    if not isinstance(answer, PayloadAnswer):
        return BuildError(SERVER_ERROR, f"failed to insert payload: failed to execute payload: {_reason(answer)}")
    if answer.status == "VALID":
        return None
    if answer.status in ("INVALID", "INVALID_BLOCK_HASH"):
        return BuildError(INVALID_INPUT, f"execution invalid: {answer.error or answer.status}")
    return BuildError(TEMPORARY, f"the engine answers {answer.status} to the payload")


def _reason(answer: object) -> str:
    if isinstance(answer, ErrorAnswer):
        return answer.message
    return answer.text if isinstance(answer, Unavailable) else "the engine's answer is not one to this call"
