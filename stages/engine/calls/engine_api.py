"""Calls of the execution engine, its answers, and the one table of what each answer means [ENG12 to ENG32]."""

from enum import Enum
from typing import Literal

import msgspec

from rollup_node.stages.engine.calls.engine_identity import EngineIdentity
from rollup_node.stages.engine.calls.heads import Forkchoice
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import INVALID_PARAMS, ForkMismatchError
from rollup_node.stages.protocol.forks.table import disputed_fork
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import Hash, L2BlockRef

Label = Literal["finalized", "safe", "latest"]
BlockName = int | Label | Hash
"""How eth_getBlockBy... names a block: number, label, or hash."""


def show_name(name: BlockName) -> str:
    """Return a block's name for people: a number, a label, or a hash in hex."""
    return to_hex(name) if isinstance(name, bytes) else str(name)


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
    """The status of a new payload."""

    status: str
    error: str | None = None
    latest_valid: Hash | None = None


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
    """No answer, or none that can be read: the endpoint is away, slow or broken.

    `unreadable`: it has answered, with a block that is incomplete or of another form."""

    reason: str
    unreadable: bool = False
    code: Code | None = None

    @property
    def text(self) -> str:
        """The reason with its code in front."""
        return str(Problem(self.code, "", self.reason))


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
    text = _status_text("building a block", answer.status, answer.error)
    if answer.status in _INVALID:
        return CallResult(CallStatus.INVALID, text)
    return CallResult(CallStatus.SYNCING if answer.status == "SYNCING" else CallStatus.RETRY, text)


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
    return CallResult(CallStatus.RESET, _status_text("a forkchoice update", answer.status, answer.error))


def insert_result(answer: object) -> CallResult:
    """Classify the answer to engine_newPayload.

    The block is one that this node had built [ENG23 to ENG25], or an unsafe block in CL mode [ENG30 to ENG32]."""
    if isinstance(answer, ErrorAnswer):
        return CallResult(CallStatus.RETRY, f"the engine did not take a payload: {answer_text(answer)}")
    if not isinstance(answer, PayloadAnswer):
        return CallResult(CallStatus.RETRY, "the engine's answer is not one to a new payload")
    if answer.status == "VALID":
        return CallResult(CallStatus.DONE, "")
    text = _status_text("a new payload", answer.status, answer.error)
    if answer.status in _INVALID:
        return CallResult(CallStatus.INVALID, text)
    return CallResult(CallStatus.SYNCING if answer.status == "SYNCING" else CallStatus.RETRY, text)


def _status_text(what: str, status: str, error: str | None) -> str:
    return f"the engine answers {status} to {what}" + (f": {error}" if error else "")


def raise_for_fork_mismatch(rollup: RollupConfig, attributes: PayloadAttributes, number: int, answer: object) -> None:
    """Raise ForkMismatchError if an engine's answer to attributes says that it has other forks [ENG13].

    `number` is that of the block."""
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
