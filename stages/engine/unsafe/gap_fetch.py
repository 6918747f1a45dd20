"""A gap in the unsafe chain that the execution engine fetches from its own peers: it gets the block above the gap, and
is pointed at it [UNS6].

| state    | next call                | then                                                                        |
|----------|--------------------------|-----------------------------------------------------------------------------|
| idle     |                          | begun, every two block times                                                |
| begun    | new payload              | inserted; idle, the block is invalid                                        |
| inserted | forkchoice update to it  | taken, the engine has the whole chain; idle: fetching, `target` is set, or  |
|          |                          | the engine refuses the block                                                |
| taken    | the block at the height  | idle: reached, or the chain is another one than that of our safe head       |
|          | of our pending safe head |                                                                             |"""

from rollup_node.stages.engine.calls.engine_api import (
    CallStatus,
    ForkchoiceUpdate,
    GetBlockRef,
    NewPayload,
    forkchoice_result,
    insert_result,
    is_syncing,
)
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads
from rollup_node.stages.engine.calls.l2_block_info import UnreadableBlockError, l2_block_info
from rollup_node.stages.engine.unsafe.unsafe_queue import DroppedUnsafeBlock
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import L2BlockRef

GapCall = NewPayload | ForkchoiceUpdate | GetBlockRef


class GapFetch:
    """`target` is the block that the engine fetches the chain up to, as far as is known; `taken` is the update that it
    has accepted, until it is known that its chain has our pending safe head, which no update names."""

    def __init__(self, rollup: RollupConfig) -> None:
        self.target: L2BlockRef | None = None
        self.taken: Forkchoice | None = None
        self._rollup = rollup
        self._payload: ExecutionPayload | None = None
        self._ref: L2BlockRef | None = None
        self._inserted = False

    def begin(self, payload: ExecutionPayload) -> DroppedUnsafeBlock | None:
        """The engine is to fetch the chain up to this block, which is dropped if it cannot be one of this rollup."""
        try:
            self._ref = l2_block_info(payload, self._rollup).ref
        except UnreadableBlockError as error:
            return DroppedUnsafeBlock(payload.block_number, payload.block_hash, str(error))
        self._payload, self._inserted, self.taken = payload, False, None
        return None

    def end(self) -> None:
        """There is no gap any more, or the attempt has failed."""
        self.target = self._payload = self._ref = self.taken = None

    def next(self, heads: Heads) -> GapCall | None:
        """The call of the attempt that is due, while there is a gap between the tip and its block."""
        payload = self._payload
        if payload is None or payload.block_number <= heads.unsafe.number + 1:
            return None
        if self.taken is not None:
            return GetBlockRef(heads.pending_safe.number)
        if not self._inserted:
            return NewPayload(payload)
        return ForkchoiceUpdate(Forkchoice(payload.block_hash, heads.verified_safe.hash, heads.finalized.hash))

    def answer(self, call: GapCall, answer: object, heads: Heads) -> L2BlockRef | DroppedUnsafeBlock | None:
        """Takes the answer to that call: the block once the engine has the chain up to it, or that block if it is to be
        dropped. Raises TemporaryError when the attempt has failed."""
        payload, ref = self._payload, self._ref
        if payload is None or ref is None:
            return None
        if isinstance(call, GetBlockRef):
            return self._confirm(payload, ref, answer, heads)
        result = insert_result(answer) if isinstance(call, NewPayload) else forkchoice_result(answer)
        is_done = result.status is CallStatus.DONE
        if isinstance(call, NewPayload) and (is_done or is_syncing(answer)):
            self._inserted = True
            return None
        if isinstance(call, ForkchoiceUpdate) and is_done:
            self.taken = call.forkchoice
            return None
        if isinstance(call, ForkchoiceUpdate) and is_syncing(answer):
            self._payload, self.target = None, ref
            return None
        self.end()
        if result.status in (CallStatus.INVALID, CallStatus.RESET):
            return DroppedUnsafeBlock(payload.block_number, payload.block_hash, result.text)
        raise TemporaryError(f"unsafe block {payload.block_number}: {result.text}")

    def _confirm(
        self, payload: ExecutionPayload, ref: L2BlockRef, answer: object, heads: Heads
    ) -> L2BlockRef | DroppedUnsafeBlock:
        wanted = heads.pending_safe
        if not isinstance(answer, L2BlockRef):
            raise TemporaryError(f"unsafe block {ref.number}: the engine does not show block {wanted.number} below it")
        self.end()
        if answer.hash == wanted.hash:
            return ref
        text = f"its chain has block {answer} instead of our safe head {wanted}"
        return DroppedUnsafeBlock(payload.block_number, payload.block_hash, text)
