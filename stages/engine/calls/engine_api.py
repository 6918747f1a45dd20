"""Calls of the execution engine, its answers, and the one table of what each answer means [ENG12 to ENG32]."""

from enum import Enum
from typing import Literal

import msgspec

from rollup_node.stages.engine.calls.engine_identity import EngineIdentity
from rollup_node.stages.engine.calls.heads import Forkchoice
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import INVALID_PARAMS, SERVER_ERROR, ForkMismatchError
from rollup_node.stages.protocol.forks.table import disputed_fork
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import BlockId, Hash, L2BlockRef

Label = Literal["finalized", "safe", "latest"]
BlockName = int | Label | Hash
"""How eth_getBlockBy... names a block: number, label, or hash."""


def show_name(name: BlockName) -> str:
    """Return a block's name for people: a number, a label, or a hash in hex."""
    return to_hex(name) if isinstance(name, bytes) else str(name)


def show_block(block: BlockId | L2BlockRef) -> str:
    """Format a block as op-node's errors do."""
    return f"{to_hex(block.hash)}:{block.number}"


class GetBlock(msgspec.Struct, frozen=True):
    """eth_getBlockBy...; answered by the payload, None if the engine has no such block."""

    name: BlockName


class GetBlockRef(msgspec.Struct, frozen=True):
    """eth_getBlockBy...; answered by the block's reference, None if the engine has no such block."""

    name: BlockName


class GetBlockRefs(msgspec.Struct, frozen=True):
    """The canonical blocks `first` to `last` in one batch; answered by the references of those that the engine has."""

    first: int
    last: int


class ForkchoiceUpdate(msgspec.Struct, frozen=True):
    """engine_forkchoiceUpdated, with attributes to start a build; answered by ForkchoiceAnswer."""

    forkchoice: Forkchoice
    attributes: PayloadAttributes | None = None


class GetSyncProgress(msgspec.Struct, frozen=True):
    """eth_syncing, or eth_blockNumber where the engine does not sync; answered by SyncingBlocks."""


class GetPayload(msgspec.Struct, frozen=True):
    """engine_getPayload of a build for a block of `timestamp`; answered by the payload."""

    payload_id: bytes
    timestamp: int


class NewPayload(msgspec.Struct, frozen=True):
    """engine_newPayload; answered by PayloadAnswer."""

    payload: ExecutionPayload


class ForkchoiceAnswer(msgspec.Struct, frozen=True):
    """The payload status of a forkchoice update, and the id of the build that it started."""

    status: str
    payload_id: bytes | None = None
    error: str | None = None


class PayloadAnswer(msgspec.Struct, frozen=True):
    status: str
    error: str | None = None


class SyncingBlocks(msgspec.Struct, frozen=True):
    """How far the engine's own sync is: the numbers of its current block and of the highest one that it knows."""

    current: int
    highest: int


class GetIdentity(msgspec.Struct, frozen=True):
    """Who the engine says it is [ENG41]; answered by EngineIdentity, or None."""


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The engine answered with a JSON-RPC error."""

    code: int
    message: str


class Unavailable(msgspec.Struct, frozen=True):
    """No answer, or none that can be read; `unreadable`: a block that is incomplete or of another form.

    `cause` tells apart what the follow source fails by: a FollowReason."""

    reason: str
    unreadable: bool = False
    code: Code | None = None
    cause: str = ""

    @property
    def text(self) -> str:
        """The reason with its code in front."""
        return str(Problem(self.code, "", self.reason))


class Denied(msgspec.Struct, frozen=True):
    """In place of the engine's answer to newPayload: block `number` is denied, and the engine does not get it [IV5]."""

    number: int

    @property
    def problem(self) -> Problem:
        """What is wrong, for people."""
        return Problem(Code.BLOCK_DENIED, "", f"block {self.number} is denied: its messages are invalid")


EngineCall = (
    GetBlock | GetBlockRef | GetBlockRefs | ForkchoiceUpdate | GetPayload | NewPayload | GetSyncProgress | GetIdentity
)
EngineAnswer = (
    ExecutionPayload
    | L2BlockRef
    | tuple[L2BlockRef, ...]
    | ForkchoiceAnswer
    | PayloadAnswer
    | SyncingBlocks
    | EngineIdentity
    | ErrorAnswer
    | Denied
    | None
)


def answer_text(answer: object) -> str:
    """Return an answer that is not the one to the call, as a text: that of an error, or why there is none."""
    match answer:
        case ErrorAnswer():
            return f"{answer.message} ({answer.code})"
        case Unavailable():
            return answer.text
    return "the engine's answer is not one to this call"


def is_syncing(answer: object) -> bool:
    """Return whether the engine may lack the block that the call builds on: it answered SYNCING or ACCEPTED [ENG38]."""
    return isinstance(answer, ForkchoiceAnswer | PayloadAnswer) and answer.status in ("SYNCING", "ACCEPTED")


class CallStatus(Enum):
    """What follows from an answer. SYNCING is a RETRY before which the sequencer waits longer with a new block."""

    DONE = "done"
    INVALID = "invalid"
    RESET = "reset"
    RETRY = "retry"
    SYNCING = "syncing"


class CallResult(msgspec.Struct, frozen=True):
    """A status with a line for the log."""

    status: CallStatus
    text: str


INVALID_FORKCHOICE = -38002
INVALID_ATTRIBUTES = -38003
_INVALID = ("INVALID", "INVALID_BLOCK_HASH")


def build_start_result(answer: object) -> CallResult:
    """Classify the answer to engine_forkchoiceUpdated with attributes [ENG12 to ENG20]."""
    if isinstance(answer, ErrorAnswer):
        text = f"the engine did not start a block: {answer_text(answer)}"
        if answer.code == INVALID_ATTRIBUTES:
            return CallResult(CallStatus.INVALID, text)
        return CallResult(CallStatus.RESET if -38099 <= answer.code <= -38000 else CallStatus.RETRY, text)
    if not isinstance(answer, ForkchoiceAnswer):
        return CallResult(CallStatus.RETRY, "the engine's answer is not one to a forkchoice update")
    if answer.status == "VALID":
        if answer.payload_id is None:
            return CallResult(CallStatus.RETRY, "the engine started no block: it gave no payload id")
        return CallResult(CallStatus.DONE, "")
    return _not_valid("building a block", answer)


def forkchoice_result(answer: object) -> CallResult:
    """Classify the answer to engine_forkchoiceUpdated without attributes [ENG26 to ENG29]."""
    if isinstance(answer, ErrorAnswer):
        reset = answer.code == INVALID_FORKCHOICE
        text = f"the engine did not take the forkchoice: {answer_text(answer)}"
        return CallResult(CallStatus.RESET if reset else CallStatus.RETRY, text)
    if not isinstance(answer, ForkchoiceAnswer):
        return CallResult(CallStatus.RETRY, "the engine's answer is not one to a forkchoice update")
    if answer.status == "VALID":
        return CallResult(CallStatus.DONE, "")
    return CallResult(CallStatus.RESET, _status_text("a forkchoice update", answer))


def insert_result(answer: object) -> CallResult:
    """Classify the answer to engine_newPayload [ENG23 to ENG25, ENG30 to ENG32, IV5]."""
    if isinstance(answer, Denied):
        return CallResult(CallStatus.INVALID, answer.problem.text)
    if isinstance(answer, ErrorAnswer):
        return CallResult(CallStatus.RETRY, f"the engine did not take a payload: {answer_text(answer)}")
    if not isinstance(answer, PayloadAnswer):
        return CallResult(CallStatus.RETRY, "the engine's answer is not one to a new payload")
    if answer.status == "VALID":
        return CallResult(CallStatus.DONE, "")
    return _not_valid("a new payload", answer)


def _not_valid(what: str, answer: ForkchoiceAnswer | PayloadAnswer) -> CallResult:
    if answer.status in _INVALID:
        return CallResult(CallStatus.INVALID, _status_text(what, answer))
    status = CallStatus.SYNCING if answer.status == "SYNCING" else CallStatus.RETRY
    return CallResult(status, _status_text(what, answer))


def _status_text(what: str, answer: ForkchoiceAnswer | PayloadAnswer) -> str:
    return f"the engine answers {answer.status} to {what}" + (f": {answer.error}" if answer.error else "")


def raise_for_fork_mismatch(rollup: RollupConfig, attributes: PayloadAttributes, number: int, answer: object) -> None:
    """Raise ForkMismatchError if the answer to attributes of block `number` says that the forks differ [ENG13]."""
    if not isinstance(answer, ErrorAnswer) or answer.code not in (INVALID_ATTRIBUTES, INVALID_PARAMS):
        return
    time = attributes.timestamp
    fork = disputed_fork(answer.message, rollup.schedule().l2(time))
    if fork is None:
        return
    start = rollup.fork_times.get(fork)
    ours = "is never active" if start is None else f"is active since {start}" if start <= time else f"begins at {start}"
    raise ForkMismatchError(
        f"the execution engine and this node disagree on forks: for block {number} at time {time}, where {fork} {ours}"
        f" in this node, the engine answers {answer.message} ({answer.code}): compare {fork}_time in --rollup.config or"
        f" of --network with the engine's genesis, or set --override.{fork}"
    )


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
    if answer.status in _INVALID:
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
    """Return the error of engine_newPayload, None for VALID alone. Differs: op-node takes other blocks as well."""
    if isinstance(answer, Denied):
        return BuildError(INVALID_INPUT, answer.problem.text)
    if not isinstance(answer, PayloadAnswer):
        return BuildError(SERVER_ERROR, f"failed to insert payload: failed to execute payload: {_reason(answer)}")
    if answer.status == "VALID":
        return None
    if answer.status in _INVALID:
        return BuildError(INVALID_INPUT, f"execution invalid: {answer.error or answer.status}")
    return BuildError(TEMPORARY, f"the engine answers {answer.status} to the payload")


def _reason(answer: object) -> str:
    return answer.message if isinstance(answer, ErrorAnswer) else answer_text(answer)
