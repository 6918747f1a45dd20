"""The seen cache: keys remembered for a fixed time from when they first came, bounded in number."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class SeenCache(Generic[K]):
    """Keys with their expiry.

    `ttl` in seconds; beyond `max_size` keys the oldest are dropped early. Times must not decrease."""

    def __init__(self, ttl: float, max_size: int) -> None:
        self._ttl = ttl
        self._max_size = max_size
        self._expiries: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._expiries)

    def has(self, key: K, now: float) -> bool:
        """Whether the key was added within the TTL."""
        expiry = self._expiries.get(key)
        return expiry is not None and now < expiry

    def add(self, key: K, now: float) -> bool:
        """Add a key; returns False, and changes nothing, if it is present."""
        if self.has(key, now):
            return False
        self._expiries.pop(key, None)
        self._expiries[key] = now + self._ttl
        if len(self._expiries) > self._max_size:
            del self._expiries[next(iter(self._expiries))]
        return True

    def remove_expired(self, now: float) -> None:
        """Remove expired keys."""
        while self._expiries:
            key = next(iter(self._expiries))
            if self._expiries[key] > now:
                return
            del self._expiries[key]
