"""A cache bounded in bytes, and in number where that is asked for."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key, at most `most` of them and `most_bytes` in all; the least recently used go first.

    A value that is larger alone is kept as the only one if `keeps_newest`, and otherwise not at all."""

    def __init__(self, most_bytes: int, most: int | None = None, *, keeps_newest: bool = True) -> None:
        self._most_bytes, self._most, self._keeps_newest = most_bytes, most, keeps_newest
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Return a value, which counts as used now; None if it is not cached."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def peek(self, key: K) -> V | None:
        """Return a value without using it."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Add a value of `size` bytes in place of the one of its key, and of others if there is no room."""
        self.bytes -= self._entries.pop(key, (None, 0))[1]
        if size > self._most_bytes and not self._keeps_newest:
            return
        self._entries[key] = value, size
        self.bytes += size
        while len(self._entries) > 1 and self._is_full():
            self.bytes -= self._entries.popitem(last=False)[1][1]

    def _is_full(self) -> bool:
        return self.bytes > self._most_bytes or (self._most is not None and len(self._entries) > self._most)
