"""The unsafe chain: blocks from gossip, peers and operators are inserted one after the other as their parents become
the tip, and gaps between the tip and the queued blocks are found [UNS1 to UNS6]."""

from rollup_node.stages.engine.calls.engine_api import CallStatus, NewPayload, insert_result
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.calls.l2_block_info import L2BlockInfo, UnreadableBlockError, l2_block_info
from rollup_node.stages.engine.unsafe.gap_fetch import GapFetch
from rollup_node.stages.engine.unsafe.unsafe_queue import DroppedUnsafeBlock, UnsafeQueue
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

GAP_BLOCK_TIMES = 2


class UnsafeChain:
    """`gap_at` is the monotonic time from which a gap may be filled: two block times after it was seen first, the last
    attempt, or a move of the unsafe head [UNS4]. `has_gap`: there was one when it was looked for. `fetch` is what the
    engine fetches of it [UNS6]."""

    def __init__(self, rollup: RollupConfig) -> None:
        self.rollup = rollup
        self.queue = UnsafeQueue()
        self.fetch = GapFetch(rollup)
        self.gap_at, self.has_gap = 0.0, False
        self._gap_pause = float(GAP_BLOCK_TIMES * rollup.block_time)
        self._head: Hash | None = None
        self._inserting: L2BlockInfo | None = None

    def on_heads(self, heads: Heads | None, monotonic: float) -> None:
        """The heads may have moved: a gap gets time to close by itself."""
        head = None if heads is None else heads.unsafe.hash
        if head is None:
            self.fetch.end()
        if head is None or head != self._head:
            self._head = head
            self.gap_at = monotonic + self._gap_pause

    def gap_end(self, heads: Heads, monotonic: float, unix: float) -> ExecutionPayload | None:
        """The block above a gap that is to be filled now; None if there is none, or none is due."""
        end = self.queue.gap_end(heads, unix)
        if end is not None and not self.has_gap:
            # The blocks may only have come in another order.
            self.gap_at = monotonic + self._gap_pause
        self.has_gap = end is not None
        if end is None or monotonic < self.gap_at:
            return None
        self.gap_at = monotonic + self._gap_pause
        return end

    def next(self, heads: Heads) -> NewPayload | DroppedUnsafeBlock | None:
        """The insertion of the block that follows the tip, or that block, dropped because it cannot be one of this
        rollup; None if it is not queued."""
        payload = self.queue.next(heads)
        if payload is None:
            return None
        try:
            self._inserting = l2_block_info(payload, self.rollup)
        except UnreadableBlockError as error:
            return self._drop(payload, str(error))
        return NewPayload(payload)

    def answer(self, call: NewPayload, answer: object) -> L2BlockInfo | DroppedUnsafeBlock:
        """Takes the engine's answer to an insertion: the block if it is the new tip. Raises TemporaryError when it is
        to be tried again [ENG30 to ENG32]."""
        result, block = insert_result(answer), self._inserting
        if result.status is CallStatus.INVALID:
            return self._drop(call.payload, result.text)
        if result.status is not CallStatus.DONE or block is None:
            raise TemporaryError(f"unsafe block {call.payload.block_number}: {result.text}")
        return block

    def _drop(self, payload: ExecutionPayload, reason: str) -> DroppedUnsafeBlock:
        self.queue.drop(payload.block_hash)
        return DroppedUnsafeBlock(payload.block_number, payload.block_hash, reason)
