"""The calls of the `opstack` namespace: somebody else builds and commits blocks with this engine [RPC61 to RPC66].

One request is worked on at a time, and its calls are made between those of the node itself:

| request | calls                                                                      |
|---------|----------------------------------------------------------------------------|
| open    | the parent; a forkchoice update with attributes                            |
| seal    | the payload                                                                |
| commit  | a new payload; then the block is the head, by the forkchoice update due then |
"""

from collections import deque
from typing import TYPE_CHECKING

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.calls import engine_api
from rollup_node.stages.engine.calls.actions import Send
from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.calls.engine_api import show_block
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads
from rollup_node.stages.engine.core.rows import HeadRow
from rollup_node.stages.messages.control import BuildResponse, CommitBlockRequest, OpenBlockRequest, SealBlockRequest
from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload
from rollup_node.stages.protocol.config import end_text
from rollup_node.stages.protocol.errors import SERVER_ERROR, TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L2BlockRef

if TYPE_CHECKING:
    from rollup_node.stages.engine.core.state import CoreState

MAX_REQUESTS = 16

BuildRequest = OpenBlockRequest | SealBlockRequest | CommitBlockRequest


class BuildApiRow(HeadRow):
    """The oldest request is under way; a reset undoes its calls."""

    takes_silence = True
    purpose = CallPurpose.BUILD_API

    def __init__(self, core: "CoreState") -> None:
        super().__init__(core)
        self._waiting: deque[tuple[ProcessId, BuildRequest]] = deque()
        self._has_parent = False
        self._committed: L2BlockRef | None = None

    def request(self, peer: ProcessId, message: BuildRequest) -> None:
        """Take a request, unless it is waiting already or there is no room."""
        if (peer, message) not in self._waiting and len(self._waiting) < MAX_REQUESTS:
            self._waiting.append((peer, message))

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def due(self, now: Instant) -> CoreCall | None:
        """Return the next call of the oldest request; it waits for heads, and while a derived block is built."""
        core, heads = self._core, self._core.confirmed_heads
        if heads is None or core.attributes.building or core.controller.restoring_backup:
            return None
        if core.replaces or core.waits(self.purpose, now):
            return None
        while self._waiting:
            call = self._call(self._waiting[0][1], heads)
            if not isinstance(call, engine_api.BuildError):
                return call
            self._respond(call)
        return None

    def begin(self) -> None:
        """Begin with the oldest request, perhaps again."""
        self._has_parent, self._committed = False, None

    def _call(self, request: BuildRequest, heads: Heads) -> CoreCall | engine_api.BuildError:
        rollup = self._core.config.rollup
        match request:
            case OpenBlockRequest(attributes=block) | CommitBlockRequest(payload=block) if rollup.is_foreign(
                block.timestamp
            ):
                return engine_api.BuildError(SERVER_ERROR, end_text(rollup))
            case OpenBlockRequest(parent=parent) if not self._has_parent:
                return engine_api.GetBlockRef(parent.hash)
            case OpenBlockRequest(parent=parent, attributes=attributes):
                return engine_api.ForkchoiceUpdate(
                    Forkchoice(parent.hash, heads.verified_safe.hash, heads.finalized.hash), attributes
                )
            case SealBlockRequest(payload_id=payload_id, timestamp=timestamp):
                return engine_api.GetPayload(payload_id, timestamp)
        return self._new_payload(request.payload, heads)

    def _new_payload(self, payload: ExecutionPayload, heads: Heads) -> CoreCall | engine_api.BuildError:
        try:
            ref = l2_ref_of_payload(self._core.config.rollup, payload)
        except BlockError as error:
            return engine_api.BuildError(SERVER_ERROR, f"invalid payload: {error}")
        if ref.number < heads.finalized.number:
            shown = f"unsafe head {show_block(ref)} is behind finalized head {show_block(heads.finalized)}"
            text = f"failed to update engine forkchoice: invalid forkchoice state, {shown}"
            return engine_api.BuildError(SERVER_ERROR, text)
        self._committed = ref
        return engine_api.NewPayload(payload)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        request = self._waiting[0][1]
        match request:
            case OpenBlockRequest() if isinstance(pending.call, engine_api.ForkchoiceUpdate):
                self._opened(pending.call, answer, now)
            case OpenBlockRequest(parent=parent):
                self._parent(parent, answer)
            case SealBlockRequest(cancel=cancel) if not isinstance(answer, ExecutionPayload):
                self._respond(engine_api.seal_error(answer, "cancel" if cancel else "seal"))
            case SealBlockRequest(cancel=cancel):
                self._respond(None, payload=None if cancel or not isinstance(answer, ExecutionPayload) else answer)
            case CommitBlockRequest():
                self._inserted(answer, now)

    def failed(self, call: CoreCall | None, error: TemporaryError, now: Instant) -> float | None:
        seconds = super().failed(call, error, now)
        self.fail_commit(str(error))
        return seconds

    def _parent(self, parent: BlockId, answer: CoreAnswer) -> None:
        if isinstance(answer, L2BlockRef):
            self._has_parent = True
            return
        reason = "not found"
        if isinstance(answer, engine_api.ErrorAnswer | engine_api.Unavailable):
            reason = answer.message if isinstance(answer, engine_api.ErrorAnswer) else answer.text
        inner = f"failed to determine block-hash of hash {to_hex(parent.hash)}, could not get payload: {reason}"
        self._respond(
            engine_api.BuildError(
                SERVER_ERROR, f"failed to retrieve parent block {show_block(parent)} from engine: {inner}"
            )
        )

    def _opened(self, call: engine_api.ForkchoiceUpdate, answer: CoreAnswer, now: Instant) -> None:
        error = engine_api.open_error(answer)
        if error is not None or not isinstance(answer, engine_api.ForkchoiceAnswer):
            self._respond(error)
            return
        core = self._core
        core.controller.accept(call.forkchoice)
        self._respond(None, payload_id=answer.payload_id)
        if core.controller.forkchoice_due() is None:
            core.confirm(now)
        core.publish(now)

    def _inserted(self, answer: CoreAnswer, now: Instant) -> None:
        error = engine_api.commit_error(answer)
        if error is not None or self._committed is None:
            self._respond(error)
            return
        self._core.controller.advance(self._committed)
        if self._core.controller.forkchoice_due() is None:
            self.finished(now)
        else:
            self._core.finishing = self

    def finished(self, now: Instant) -> None:
        """Answer the commit: the engine has made the block its head."""
        committed, heads = self._committed, self._core.controller.heads
        self._core.recover(self.purpose)
        self._respond(None)
        pending_safe = None if heads is None else heads.pending_safe
        if committed is None or pending_safe is None or committed == pending_safe:
            return
        if committed.number <= pending_safe.number:
            self._core.request_reset("a block was committed in place of pending safe ones", now)

    def fail_commit(self, reason: str) -> None:
        """Answer the commit, if one is under way: the engine did not make the block the head."""
        if self._waiting and self._committed is not None:
            self._respond(engine_api.BuildError(SERVER_ERROR, f"failed to update engine forkchoice: {reason}"))

    def _respond(
        self,
        error: engine_api.BuildError | None,
        payload_id: bytes | None = None,
        payload: ExecutionPayload | None = None,
    ) -> None:
        """Answer the oldest request; the next one begins."""
        peer, request = self._waiting.popleft()
        self.begin()
        text, code = (None, 0) if error is None else (error.text, error.code)
        self._core.do(Send(peer, BuildResponse(request.id, text, code, payload_id, payload)))
