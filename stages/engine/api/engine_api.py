"""What is asked of the execution engine, what it may answer, and the one table of what each answer means
(node-behaviour 11.4). Transport errors never get here: the shell raises them as temporary."""

from enum import Enum

import msgspec

from rollup_node.stages.engine.api.heads import Forkchoice
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import Hash


class FindBlock(msgspec.Struct, frozen=True):
    """The canonical block of a number; answered by a payload or None."""

    number: int


class UpdateForkchoice(msgspec.Struct, frozen=True):
    """engine_forkchoiceUpdated, with attributes to start a build; answered by ForkchoiceAnswer."""

    forkchoice: Forkchoice
    attributes: PayloadAttributes | None = None


class FetchPayload(msgspec.Struct, frozen=True):
    """engine_getPayload of a build for a block of `timestamp`; answered by a payload."""

    payload_id: bytes
    timestamp: int


class InsertPayload(msgspec.Struct, frozen=True):
    """engine_newPayload; answered by PayloadAnswer."""

    payload: ExecutionPayload


class ForkchoiceAnswer(msgspec.Struct, frozen=True):
    """The payload status of a forkchoice update, and the build that it started."""

    status: str
    payload_id: bytes | None = None
    problem: str | None = None


class PayloadAnswer(msgspec.Struct, frozen=True):
    """The status of a new payload."""

    status: str
    problem: str | None = None
    latest_valid: Hash | None = None


class Refused(msgspec.Struct, frozen=True):
    """The engine answered with a JSON-RPC error."""

    code: int
    message: str


Call = FindBlock | UpdateForkchoice | FetchPayload | InsertPayload
Answer = ExecutionPayload | ForkchoiceAnswer | PayloadAnswer | Refused | None


def leaves_doubt(answer: Answer) -> bool:
    """Whether an engine that takes this answer for right may not have the block that the call stands on."""
    return isinstance(answer, ForkchoiceAnswer | PayloadAnswer) and answer.status in ("SYNCING", "ACCEPTED")


class Verdict(Enum):
    """What to do after an answer. SYNCING is a RETRY before which the sequencer waits longer with a new block."""

    DONE = "done"
    INVALID = "invalid"
    RESET = "reset"
    RETRY = "retry"
    SYNCING = "syncing"


class Judged(msgspec.Struct, frozen=True):
    """A verdict with a line for the log."""

    verdict: Verdict
    text: str


INVALID_FORKCHOICE = -38002
INVALID_ATTRIBUTES = -38003
_INVALID = ("INVALID", "INVALID_BLOCK_HASH")


def judge_build_start(answer: Answer) -> Judged:
    """Forkchoice update with attributes."""
    if isinstance(answer, Refused):
        text = f"the engine refused to start a block: {answer.message} ({answer.code})"
        if answer.code == INVALID_ATTRIBUTES:
            return Judged(Verdict.INVALID, text)
        return Judged(Verdict.RESET if -38099 <= answer.code <= -38000 else Verdict.RETRY, text)
    if not isinstance(answer, ForkchoiceAnswer):
        return Judged(Verdict.RETRY, "the engine's answer is not one to a forkchoice update")
    if answer.status == "VALID":
        if answer.payload_id is None:
            return Judged(Verdict.RETRY, "the engine started no block: it gave no payload id")
        return Judged(Verdict.DONE, "")
    text = _status_text("building a block", answer.status, answer.problem)
    if answer.status in _INVALID:
        return Judged(Verdict.INVALID, text)
    return Judged(Verdict.SYNCING if answer.status == "SYNCING" else Verdict.RETRY, text)


def judge_forkchoice(answer: Answer) -> Judged:
    """Forkchoice update without attributes."""
    if isinstance(answer, Refused):
        reset = answer.code == INVALID_FORKCHOICE
        text = f"the engine refused the forkchoice: {answer.message} ({answer.code})"
        return Judged(Verdict.RESET if reset else Verdict.RETRY, text)
    if not isinstance(answer, ForkchoiceAnswer):
        return Judged(Verdict.RETRY, "the engine's answer is not one to a forkchoice update")
    if answer.status == "VALID":
        return Judged(Verdict.DONE, "")
    return Judged(Verdict.RESET, _status_text("a forkchoice update", answer.status, answer.problem))


def judge_insert(answer: Answer) -> Judged:
    """New payload of a block that this node had built."""
    if isinstance(answer, Refused):
        return Judged(Verdict.RETRY, f"the engine refused a payload: {answer.message} ({answer.code})")
    if not isinstance(answer, PayloadAnswer):
        return Judged(Verdict.RETRY, "the engine's answer is not one to a new payload")
    if answer.status == "VALID":
        return Judged(Verdict.DONE, "")
    text = _status_text("a new payload", answer.status, answer.problem)
    if answer.status in _INVALID:
        return Judged(Verdict.INVALID, text)
    return Judged(Verdict.SYNCING if answer.status == "SYNCING" else Verdict.RETRY, text)


def _status_text(what: str, status: str, problem: str | None) -> str:
    return f"the engine answers {status} to {what}" + (f": {problem}" if problem else "")
