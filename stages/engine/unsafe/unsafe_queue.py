"""Unsafe blocks on their way into the chain: those whose parent is not the unsafe head yet wait here, ordered by
number. A block stays until the head has moved past it, so that a failed insertion is tried again [UNS1 to UNS3]."""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import msgspec

from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

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


class QueuePosition(NamedTuple):
    """Blocks are ordered by number, and by arrival within one number."""

    number: int
    arrival: int


def size_of(payload: ExecutionPayload) -> int:
    """The bytes that a block counts as [UNS1]."""
    transactions = payload.transactions
    return _FIXED_COST + sum(map(len, transactions)) + _COST_PER_TRANSACTION * len(transactions)


class UnsafeQueue:
    """The queued blocks by position and hash; `bytes` is what they count as together, at most `max_bytes`."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.bytes = 0
        self._max_bytes = max_bytes
        self._arrivals = 0
        self._positions: list[QueuePosition] = []
        self._payloads: dict[QueuePosition, ExecutionPayload] = {}
        self._hashes: set[Hash] = set()

    def __len__(self) -> int:
        return len(self._positions)

    def add(self, payload: ExecutionPayload) -> bool:
        """Adds a block; False if its hash is queued already. Beyond the bound the lowest blocks are dropped [UNS1]."""
        if payload.block_hash in self._hashes:
            return False
        self._arrivals += 1
        position = QueuePosition(payload.block_number, self._arrivals)
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
        """The block that follows the unsafe head, None if it is not queued. Blocks that these heads rule out are
        dropped first [UNS2]."""
        while (payload := self.lowest) is not None:
            if payload.block_number > heads.unsafe.number + 1:
                return None
            is_next = payload.block_number == heads.unsafe.number + 1 and payload.parent_hash == heads.unsafe.hash
            if is_next and payload.block_number > heads.safe.number:
                return payload
            self._pop()
        return None

    def drop(self, block: Hash) -> None:
        """Drops an invalid block, if it is queued."""
        position = next((at for at, each in self._payloads.items() if each.block_hash == block), None)
        if position is not None:
            self._positions.remove(position)
            heapify(self._positions)
            self._forget(position)

    def drop_below(self, number: int) -> None:
        """Drops the blocks below a number: the engine fetches them by itself [ELS2]."""
        while (lowest := self.lowest) is not None and lowest.block_number < number:
            self._pop()

    def gap_end(self, heads: Heads, now: float) -> ExecutionPayload | None:
        """The block above a gap that is to be filled; None without a gap, or when the head is too old [UNS4]. `now` in
        Unix seconds."""
        payload = self.lowest
        if payload is None or payload.block_number <= heads.unsafe.number + 1:
            return None
        return payload if heads.unsafe.timestamp + MAX_HEAD_AGE >= now else None

    def _pop(self) -> None:
        self._forget(heappop(self._positions))

    def _forget(self, position: QueuePosition) -> None:
        payload = self._payloads.pop(position)
        self._hashes.remove(payload.block_hash)
        self.bytes -= size_of(payload)
