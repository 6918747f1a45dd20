"""The calls of the `opstack` namespace: somebody else builds and commits blocks with this engine [RPC61 to RPC66]. One
request is worked on at a time, and its calls are made between those of the node itself:

| request | calls                                                                      |
|---------|----------------------------------------------------------------------------|
| open    | the parent; a forkchoice update with attributes                            |
| seal    | the payload                                                                |
| commit  | a new payload; then the block is the head, by the forkchoice update due then |
"""

from collections import deque

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.api.build_api import BuildError, commit_error, open_error, seal_error
from rollup_node.stages.engine.api.engine_api import (
    ErrorAnswer,
    ForkchoiceAnswer,
    ForkchoiceUpdate,
    GetBlockRef,
    GetPayload,
    NewPayload,
    Unavailable,
)
from rollup_node.stages.engine.api.heads import Forkchoice, Heads
from rollup_node.stages.engine.core import actions as act
from rollup_node.stages.engine.core.calls import CoreAnswer, CoreCall, Instant, PendingCall, Work
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.messages.control import BuildResponse, CommitBlockRequest, OpenBlockRequest, SealBlockRequest
from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload
from rollup_node.stages.protocol.config import end_text
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.jsonrpc_codes import SERVER_ERROR
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L2BlockRef

MAX_REQUESTS = 16

BuildRequest = OpenBlockRequest | SealBlockRequest | CommitBlockRequest


class BuildApiCalls:
    """The oldest request is the one under way; `_epoch` is that of its calls so far, which a reset undoes."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._waiting: deque[tuple[ProcessId, BuildRequest]] = deque()
        self._epoch = 0
        self._found_parent = False
        self._committed: L2BlockRef | None = None

    def request(self, peer: ProcessId, message: BuildRequest) -> None:
        """Takes a request, unless it is waiting already or there is no room."""
        if (peer, message) not in self._waiting and len(self._waiting) < MAX_REQUESTS:
            self._waiting.append((peer, message))

    @property
    def waiting(self) -> bool:
        """Whether a request is to be answered."""
        return bool(self._waiting)

    # --- what is due -----------------------------------------------------------------------------------------------

    def due(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The next call of the oldest request; requests wait for heads, and while a derived block is being built."""
        state, heads = self._state, self._state.confirmed_heads
        busy = state.attributes.building or state.controller.restoring_backup
        if heads is None or busy or state.backoff.is_waiting(Work.BUILD_API.task, now.monotonic):
            return None
        if self._epoch != state.epoch:
            self._begin()
        while self._waiting:
            call = self._call(self._waiting[0][1], heads)
            if not isinstance(call, BuildError):
                return Work.BUILD_API, call
            self._respond(call)
        return None

    def _begin(self) -> None:
        self._epoch, self._found_parent, self._committed = self._state.epoch, False, None

    def _call(self, request: BuildRequest, heads: Heads) -> CoreCall | BuildError:
        rollup = self._state.config.rollup
        match request:
            case OpenBlockRequest(attributes=block) | CommitBlockRequest(payload=block) if rollup.is_foreign(
                block.timestamp
            ):
                return BuildError(SERVER_ERROR, end_text(rollup))
            case OpenBlockRequest(parent=parent) if not self._found_parent:
                return GetBlockRef(parent.hash)
            case OpenBlockRequest(parent=parent, attributes=attributes):
                return ForkchoiceUpdate(Forkchoice(parent.hash, heads.safe.hash, heads.finalized.hash), attributes)
            case SealBlockRequest(payload_id=payload_id, timestamp=timestamp):
                return GetPayload(payload_id, timestamp)
        return self._new_payload(request.payload, heads)

    def _new_payload(self, payload: ExecutionPayload, heads: Heads) -> CoreCall | BuildError:
        try:
            ref = l2_ref_of_payload(self._state.config.rollup, payload)
        except BlockError as error:
            return BuildError(SERVER_ERROR, f"invalid payload: {error}")
        if ref.number < heads.finalized.number:
            shown = f"unsafe head {_show(ref.id)} is behind finalized head {_show(heads.finalized.id)}"
            text = f"failed to update engine forkchoice: invalid forkchoice state, {shown}"
            return BuildError(SERVER_ERROR, text)
        self._committed = ref
        return NewPayload(payload)

    # --- answers ---------------------------------------------------------------------------------------------------

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to a call of `due`, Unavailable included."""
        request = self._waiting[0][1]
        match request:
            case OpenBlockRequest() if isinstance(pending.call, ForkchoiceUpdate):
                self._opened(pending.call, answer, now)
            case OpenBlockRequest(parent=parent):
                self._parent(parent, answer)
            case SealBlockRequest(cancel=cancel) if not isinstance(answer, ExecutionPayload):
                self._respond(seal_error(answer, "cancel" if cancel else "seal"))
            case SealBlockRequest(cancel=cancel):
                self._respond(None, payload=None if cancel or not isinstance(answer, ExecutionPayload) else answer)
            case CommitBlockRequest():
                self._inserted(answer, now)

    def _parent(self, parent: BlockId, answer: CoreAnswer) -> None:
        if isinstance(answer, L2BlockRef):
            self._found_parent = True
            return
        reason = "not found"
        if isinstance(answer, ErrorAnswer | Unavailable):
            reason = answer.message if isinstance(answer, ErrorAnswer) else answer.text
        inner = f"failed to determine block-hash of hash {to_hex(parent.hash)}, could not get payload: {reason}"
        self._respond(BuildError(SERVER_ERROR, f"failed to retrieve parent block {_show(parent)} from engine: {inner}"))

    def _opened(self, call: ForkchoiceUpdate, answer: CoreAnswer, now: Instant) -> None:
        error = open_error(answer)
        if error is not None or not isinstance(answer, ForkchoiceAnswer):
            self._respond(error)
            return
        state = self._state
        state.controller.accept(call.forkchoice)
        self._respond(None, payload_id=answer.payload_id)
        if state.controller.forkchoice_due() is None:
            state.confirm(now)
        state.publish(now)

    def _inserted(self, answer: CoreAnswer, now: Instant) -> None:
        error = commit_error(answer)
        if error is not None or self._committed is None:
            self._respond(error)
            return
        self._state.controller.advance(self._committed)
        if self._state.controller.forkchoice_due() is None:
            self.finish_commit(now)
        else:
            self._state.finishing = Work.BUILD_API

    def finish_commit(self, now: Instant) -> None:
        """The engine has made the committed block its head."""
        committed, heads = self._committed, self._state.controller.heads
        self._state.recover(Work.BUILD_API.task)
        self._respond(None)
        pending_safe = None if heads is None else heads.pending_safe
        if committed is None or pending_safe is None or committed == pending_safe:
            return
        if committed.number <= pending_safe.number:
            self._state.request_reset("a block was committed in place of pending safe ones", now)

    def fail_commit(self, reason: str) -> None:
        """The engine did not make it the head."""
        if self._waiting and self._committed is not None:
            self._respond(BuildError(SERVER_ERROR, f"failed to update engine forkchoice: {reason}"))

    def _respond(
        self, error: BuildError | None, payload_id: bytes | None = None, payload: ExecutionPayload | None = None
    ) -> None:
        """Answers the oldest request; the next one begins."""
        peer, request = self._waiting.popleft()
        self._begin()
        text, code = (None, 0) if error is None else (error.text, error.code)
        self._state.do(act.SendToRpc(peer, BuildResponse(request.id, text, code, payload_id, payload)))


def _show(block: BlockId) -> str:
    """A block as op-node's errors name it."""
    return f"{to_hex(block.hash)}:{block.number}"
