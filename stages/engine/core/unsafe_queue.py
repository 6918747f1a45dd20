"""Unsafe blocks on their way into the chain (node-behaviour 11.7): those whose parent is not the unsafe head yet wait
here, ordered by number. A block stays until the head has moved past it, so that a failed insertion is tried again."""

from heapq import heappop, heappush
from typing import NamedTuple

from rollup_node.stages.engine.api.heads import Heads
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

MOST_BYTES = 500 << 20
OLDEST_GAP = 12 * 3600
"""Seconds: the blocks after an older head come from L1, not from peers."""
_FIXED_COST = 1000
_COST_PER_TRANSACTION = 24


class Place(NamedTuple):
    """Where a block stands: by number, and in order of arrival among those of one number."""

    number: int
    arrival: int


def size_of(payload: ExecutionPayload) -> int:
    """The bytes that a block counts as."""
    transactions = payload.transactions
    return _FIXED_COST + sum(map(len, transactions)) + _COST_PER_TRANSACTION * len(transactions)


class UnsafeQueue:
    """The waiting blocks by place and hash; `bytes` is what they count as together."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.bytes = 0
        self._most_bytes = most_bytes
        self._arrivals = 0
        self._places: list[Place] = []
        self._payloads: dict[Place, ExecutionPayload] = {}
        self._hashes: set[Hash] = set()

    def __len__(self) -> int:
        return len(self._places)

    def add(self, payload: ExecutionPayload) -> bool:
        """Takes a block, unless its hash is queued already. Beyond the bound the lowest blocks are given up."""
        if payload.block_hash in self._hashes:
            return False
        self._arrivals += 1
        place = Place(payload.block_number, self._arrivals)
        heappush(self._places, place)
        self._payloads[place] = payload
        self._hashes.add(payload.block_hash)
        self.bytes += size_of(payload)
        while self.bytes > self._most_bytes:
            self._pop()
        return payload.block_hash in self._hashes

    @property
    def lowest(self) -> ExecutionPayload | None:
        """The block of the lowest number; None if nothing is queued."""
        return self._payloads[self._places[0]] if self._places else None

    def next(self, heads: Heads) -> ExecutionPayload | None:
        """The block that follows the unsafe head. Drops before it what these heads have made useless."""
        while (payload := self.lowest) is not None:
            if payload.block_number > heads.unsafe.number + 1:
                return None
            is_next = payload.block_number == heads.unsafe.number + 1 and payload.parent_hash == heads.unsafe.hash
            if is_next and payload.block_number > heads.safe.number:
                return payload
            self._pop()
        return None

    def refuse(self, payload: ExecutionPayload) -> None:
        """The engine, or our own reading, says that a block is invalid: it is dropped if it is still the lowest."""
        lowest = self.lowest
        if lowest is not None and lowest.block_hash == payload.block_hash:
            self._pop()

    def gap_end(self, heads: Heads, now: float) -> ExecutionPayload | None:
        """The block above the gap that peers may fill; None without a gap, or after a head that is too old. `now` in
        Unix seconds."""
        payload = self.lowest
        if payload is None or payload.block_number <= heads.unsafe.number + 1:
            return None
        return payload if heads.unsafe.timestamp + OLDEST_GAP >= now else None

    def _pop(self) -> None:
        payload = self._payloads.pop(heappop(self._places))
        self._hashes.remove(payload.block_hash)
        self.bytes -= size_of(payload)
