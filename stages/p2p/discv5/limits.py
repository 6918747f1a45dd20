"""How much work strangers can make us do: buckets of tokens by address, and one for all together."""

from collections import OrderedDict
from dataclasses import dataclass, field


@dataclass
class TokenBucket:
    """Lets `burst` through at once and `rate` per second in the long run."""

    rate: float
    burst: float
    tokens: float = field(init=False)
    filled_at: float | None = None

    def __post_init__(self) -> None:
        self.tokens = self.burst

    def take(self, now: float) -> bool:
        """Whether one more may pass."""
        if self.filled_at is not None:
            self.tokens = min(self.burst, self.tokens + max(0.0, now - self.filled_at) * self.rate)
        self.filled_at = now
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True


class KeyedRateLimiter:
    """A bucket for each group, kept for the `most` groups seen last."""

    def __init__(self, rate: float, burst: float, most: int = 2048) -> None:
        self._rate, self._burst, self._most = rate, burst, most
        self._buckets: OrderedDict[bytes, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, group: bytes, now: float) -> bool:
        """Whether one more of this group may pass."""
        bucket = self._buckets.get(group)
        if bucket is None:
            if len(self._buckets) >= self._most:
                self._buckets.popitem(last=False)
            bucket = self._buckets[group] = TokenBucket(self._rate, self._burst)
        self._buckets.move_to_end(group)
        return bucket.take(now)
