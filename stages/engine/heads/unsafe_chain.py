"""The unsafe chain: the queue of its blocks, their insertion, and the gaps between tip and queue [UNS1 to UNS6].

Blocks from gossip, peers and operators wait in the queue, ordered by number, and are inserted one after the other as
their parents become the tip. A block stays until the head has moved past it, so that a failed insertion is tried again.

A gap may be fetched by the execution engine from its own peers: it gets the block above the gap, and is pointed at it:

| state    | next call                | then                                                                        |
|----------|--------------------------|-----------------------------------------------------------------------------|
| idle     |                          | begun, every two block times                                                |
| begun    | new payload              | inserted; idle, the block is invalid                                        |
| inserted | forkchoice update to it  | taken, the engine has the whole chain; idle: fetching, `target` is set, or  |
|          |                          | the engine refuses the block                                                |
| taken    | the block at the height  | idle: reached, or the chain is another one than that of our safe head       |
|          | of our pending safe head |                                                                             |
"""

from heapq import heapify, heappop, heappush

import msgspec

from rollup_node.stages.engine.calls.engine_api import (
    CallStatus,
    ForkchoiceUpdate,
    GetBlockRef,
    NewPayload,
    forkchoice_result,
    insert_result,
    is_syncing,
)
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads, L2BlockInfo, UnreadableBlockError, l2_block_info
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash, L2BlockRef

GAP_BLOCK_TIMES = 2
GapCall = NewPayload | ForkchoiceUpdate | GetBlockRef
MAX_BYTES = 500 << 20
MAX_HEAD_AGE = 12 * 3600
"""Seconds: the blocks after an older head come from L1, not from peers [UNS4]."""
_FIXED_COST = 1000
_COST_PER_TRANSACTION = 24


class DroppedUnsafeBlock(msgspec.Struct, frozen=True):
    """An invalid block left the queue."""

    number: int
    hash: Hash
    reason: str


def size_of(payload: ExecutionPayload) -> int:
    """Return the bytes that a block counts as [UNS1]."""
    transactions = payload.transactions
    return _FIXED_COST + sum(map(len, transactions)) + _COST_PER_TRANSACTION * len(transactions)


class UnsafeQueue:
    """The queued blocks by position and hash; `bytes` is what they count as together, at most `max_bytes`.

    A position is the number of a block, and within one number that of its arrival."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.bytes = 0
        self._max_bytes = max_bytes
        self._arrivals = 0
        self._positions: list[tuple[int, int]] = []
        self._payloads: dict[tuple[int, int], ExecutionPayload] = {}
        self._hashes: set[Hash] = set()

    def __len__(self) -> int:
        return len(self._positions)

    def add(self, payload: ExecutionPayload) -> bool:
        """Add a block; False if its hash is queued already. Beyond the bound the lowest blocks are dropped [UNS1]."""
        if payload.block_hash in self._hashes:
            return False
        self._arrivals += 1
        position = payload.block_number, self._arrivals
        heappush(self._positions, position)
        self._payloads[position] = payload
        self._hashes.add(payload.block_hash)
        self.bytes += size_of(payload)
        while self.bytes > self._max_bytes:
            self._pop()
        return payload.block_hash in self._hashes

    @property
    def lowest(self) -> ExecutionPayload | None:
        """The block of the lowest number; None if nothing is queued."""
        return self._payloads[self._positions[0]] if self._positions else None

    @property
    def highest(self) -> ExecutionPayload | None:
        """The block of the highest number; None if nothing is queued."""
        return self._payloads[max(self._positions)] if self._positions else None

    def next(self, heads: Heads) -> ExecutionPayload | None:
        """Return the block that follows the unsafe head, or None; drops what these heads rule out [UNS2]."""
        while (payload := self.lowest) is not None:
            if payload.block_number > heads.unsafe.number + 1:
                return None
            is_next = payload.block_number == heads.unsafe.number + 1 and payload.parent_hash == heads.unsafe.hash
            if is_next and payload.block_number > heads.safe.number:
                return payload
            self._pop()
        return None

    def drop(self, block: Hash) -> None:
        """Drop an invalid block, if it is queued."""
        position = next((at for at, item in self._payloads.items() if item.block_hash == block), None)
        if position is not None:
            self._positions.remove(position)
            heapify(self._positions)
            self._forget(position)

    def drop_below(self, number: int) -> None:
        """Drop the blocks below a number: the engine fetches them by itself [ELS2]."""
        while (lowest := self.lowest) is not None and lowest.block_number < number:
            self._pop()

    def gap_end(self, heads: Heads, now: float) -> ExecutionPayload | None:
        """Return the block above a gap, None without one or for an old head [UNS4]; `now` in Unix seconds."""
        payload = self.lowest
        if payload is None or payload.block_number <= heads.unsafe.number + 1:
            return None
        return payload if heads.unsafe.timestamp + MAX_HEAD_AGE >= now else None

    def _pop(self) -> None:
        self._forget(heappop(self._positions))

    def _forget(self, position: tuple[int, int]) -> None:
        payload = self._payloads.pop(position)
        self._hashes.remove(payload.block_hash)
        self.bytes -= size_of(payload)


class GapFetch:
    """`target` is the block that the engine fetches the chain up to, as far as is known.

    `taken` is the update that it has accepted, until it is known that its chain has our pending safe head, which no
    update names."""

    def __init__(self, rollup: RollupConfig) -> None:
        self.target: L2BlockRef | None = None
        self.taken: Forkchoice | None = None
        self._rollup = rollup
        self._payload: ExecutionPayload | None = None
        self._ref: L2BlockRef | None = None
        self._inserted = False

    def begin(self, payload: ExecutionPayload) -> DroppedUnsafeBlock | None:
        """Have the engine fetch the chain up to this block, which is dropped if it cannot be one of this rollup."""
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
        """Return the call of the attempt that is due, while there is a gap between the tip and its block."""
        payload = self._payload
        if payload is None or payload.block_number <= heads.unsafe.number + 1:
            return None
        if self.taken is not None:
            return GetBlockRef(heads.pending_safe.number)
        if not self._inserted:
            return NewPayload(payload)
        return ForkchoiceUpdate(Forkchoice(payload.block_hash, heads.verified_safe.hash, heads.finalized.hash))

    def answer(self, call: GapCall, answer: object, heads: Heads) -> L2BlockRef | DroppedUnsafeBlock | None:
        """Take the answer; return the block once the engine has it, or what to drop. Raises TemporaryError."""
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
        raise TemporaryError(f"unsafe block {payload.block_number}: {result.text}", Code.ENGINE_ANSWER)

    def _confirm(
        self, payload: ExecutionPayload, ref: L2BlockRef, answer: object, heads: Heads
    ) -> L2BlockRef | DroppedUnsafeBlock:
        wanted = heads.pending_safe
        if not isinstance(answer, L2BlockRef):
            text = f"unsafe block {ref.number}: the engine does not show block {wanted.number} below it"
            raise TemporaryError(text, Code.ENGINE_ANSWER)
        self.end()
        if answer.hash == wanted.hash:
            return ref
        text = f"its chain has block {answer} instead of our safe head {wanted}"
        return DroppedUnsafeBlock(payload.block_number, payload.block_hash, text)


class UnsafeChain:
    """`gap_at` is the monotonic time from which a gap may be filled.

    Two block times after it was seen first, the last attempt, or a move of the unsafe head [UNS4]. `has_gap`: there was
    one when it was looked for. `fetch` is what the engine fetches of it [UNS6]."""

    def __init__(self, rollup: RollupConfig) -> None:
        self.rollup = rollup
        self.queue = UnsafeQueue()
        self.fetch = GapFetch(rollup)
        self.gap_at, self.has_gap = 0.0, False
        self._gap_pause = float(GAP_BLOCK_TIMES * rollup.block_time)
        self._head: Hash | None = None
        self._inserting: L2BlockInfo | None = None

    def on_heads(self, heads: Heads | None, monotonic: float) -> None:
        """Note that the heads may have moved: a gap gets time to close by itself."""
        head = None if heads is None else heads.unsafe.hash
        if head is None:
            self.fetch.end()
        if head is None or head != self._head:
            self._head = head
            self.gap_at = monotonic + self._gap_pause

    def gap_end(self, heads: Heads, monotonic: float, unix: float) -> ExecutionPayload | None:
        """Return the block above a gap that is to be filled now; None if there is none, or none is due."""
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
        """Return the insertion of the block after the tip, or None; a block that cannot be one is dropped."""
        payload = self.queue.next(heads)
        if payload is None:
            return None
        try:
            self._inserting = l2_block_info(payload, self.rollup)
        except UnreadableBlockError as error:
            return self._drop(payload, str(error))
        return NewPayload(payload)

    def answer(self, call: NewPayload, answer: object) -> L2BlockInfo | DroppedUnsafeBlock:
        """Take the answer to an insertion: the new tip, or a dropped block. Raises TemporaryError [ENG30 to ENG32]."""
        result, block = insert_result(answer), self._inserting
        if result.status is CallStatus.INVALID:
            return self._drop(call.payload, result.text)
        if result.status is not CallStatus.DONE or block is None:
            raise TemporaryError(f"unsafe block {call.payload.block_number}: {result.text}", Code.ENGINE_ANSWER)
        return block

    def _drop(self, payload: ExecutionPayload, reason: str) -> DroppedUnsafeBlock:
        self.queue.drop(payload.block_hash)
        return DroppedUnsafeBlock(payload.block_number, payload.block_hash, reason)
