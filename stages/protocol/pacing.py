"""How often something is done: token buckets and exponential backoff; times are monotonic seconds."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class TokenBucket:
    """Tokens that refill at `rate` per second, above 0, up to `burst`. A new rate counts from the last use on."""

    __slots__ = ("_burst", "_tokens", "_updated_at", "rate")

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self._burst, self._tokens = rate, burst, burst
        self._updated_at = float("-inf")

    def allow(self, now: float) -> bool:
        """Take a token if there is one; return whether it did."""
        if self._balance(now) < 1.0:
            return False
        self.consume(now)
        return True

    def delay(self, now: float, tokens: float = 1.0) -> float:
        """Return the seconds until there are so many tokens; with 0 until a debt is paid."""
        return max(0.0, (tokens - self._balance(now)) / self.rate)

    def consume(self, now: float, tokens: float = 1.0) -> float:
        """Take tokens even if they are missing; return what is left, negative in debt."""
        self._tokens = self._balance(now) - tokens
        self._updated_at = max(now, self._updated_at)
        return self._tokens

    def _balance(self, now: float) -> float:
        return min(self._burst, self._tokens + max(0.0, now - self._updated_at) * self.rate)


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


def backoff(failures: int, first: float, most: float) -> float:
    """Return the seconds to wait after so many failures in a row: `first` doubled by each later one, up to `most`."""
    return min(most, first * 2.0 ** min(max(0, failures - 1), 30))
