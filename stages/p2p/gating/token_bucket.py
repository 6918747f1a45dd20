"""Token buckets, one or one per key, by which requests and packets of peers are limited.

Times are in monotonic seconds."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class TokenBucket:
    """Tokens that refill at `rate` per second up to `burst`."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._updated_at = float("-inf")

    def allow(self, now: float) -> bool:
        """Take a token if there is one; returns whether it did."""
        if self._balance(now) < 1.0:
            return False
        self.consume(now)
        return True

    def delay(self, now: float) -> float:
        """Seconds until there is a token."""
        return max(0.0, (1.0 - self._balance(now)) / self._rate)

    def consume(self, now: float, tokens: float = 1.0) -> None:
        """Take tokens even if they are missing; the debt delays later requests."""
        self._tokens = self._balance(now) - tokens
        self._updated_at = max(now, self._updated_at)

    def _balance(self, now: float) -> float:
        return min(self._burst, self._tokens + max(0.0, now - self._updated_at) * self._rate)


class KeyedTokenBuckets(Generic[K]):
    """A token bucket per key, kept for the `max_keys` keys used last."""

    def __init__(self, rate: float, burst: float, max_keys: int) -> None:
        self._rate, self._burst, self._max_keys = rate, burst, max_keys
        self._buckets: OrderedDict[K, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def __getitem__(self, key: K) -> TokenBucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._rate, self._burst)
            if len(self._buckets) > self._max_keys:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return bucket
