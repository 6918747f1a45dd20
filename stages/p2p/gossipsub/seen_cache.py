"""What was seen lately: keys remembered for a fixed time from when they first came, and never more than a bound."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class SeenCache(Generic[K]):
    """Keys with the time their memory ends. `ttl` in seconds; beyond `most` keys the oldest are forgotten early.
    Times come in rising order."""

    def __init__(self, ttl: float, most: int) -> None:
        self._ttl = ttl
        self._most = most
        self._ends: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def has(self, key: K, now: float) -> bool:
        """Whether the key came within the time."""
        end = self._ends.get(key)
        return end is not None and now < end

    def add(self, key: K, now: float) -> bool:
        """Remembers a key; False, and nothing changes, if it is remembered already."""
        if self.has(key, now):
            return False
        self._ends.pop(key, None)
        self._ends[key] = now + self._ttl
        if len(self._ends) > self._most:
            del self._ends[next(iter(self._ends))]
        return True

    def remove_expired(self, now: float) -> None:
        """Drops what came too long ago."""
        while self._ends:
            key = next(iter(self._ends))
            if self._ends[key] > now:
                return
            del self._ends[key]
