"""Which payloads of sequenced blocks are kept: the latest, of a bounded size [SGN12]."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rollup_node.stages.protocol.types import Hash

MAX_PAYLOADS = 128
MAX_BYTES = 32 << 20


class KeptPayload(NamedTuple):
    """A block whose payload is kept: `position` grows with each block, `size` in bytes."""

    position: int
    number: int
    hash: Hash
    size: int


class KeptPayloads:
    """The kept payloads in the order in which the blocks were sequenced."""

    def __init__(self, kept: Iterable[KeptPayload] = ()) -> None:
        self._kept = {each.hash: each for each in sorted(kept)}
        self._bytes = sum(each.size for each in self._kept.values())
        self._next = max((each.position for each in self._kept.values()), default=0) + 1

    @property
    def lowest(self) -> int:
        """The lowest position that is kept."""
        return next((each.position for each in self._kept.values()), self._next)

    def add(self, number: int, block_hash: Hash, size: int) -> KeptPayload | None:
        """Add a block, and forgets the oldest beyond the bounds, but never this one; None if it is kept already."""
        if block_hash in self._kept:
            return None
        added = self._kept[block_hash] = KeptPayload(self._next, number, block_hash, size)
        self._next += 1
        self._bytes += size
        while len(self._kept) > 1 and (len(self._kept) > MAX_PAYLOADS or self._bytes > MAX_BYTES):
            self._bytes -= self._kept.pop(next(iter(self._kept))).size
        return added

    def find(self, block_hash: Hash) -> KeptPayload | None:
        """Return the kept payload of a block, None if there is none."""
        return self._kept.get(block_hash)

    def newest_first(self) -> Iterator[KeptPayload]:
        """Return the kept payloads, the last one first."""
        return reversed(self._kept.values())
