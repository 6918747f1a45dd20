"""Which L1 endpoint is in use: one that throttles, fails, lags or contradicts is set aside for a while [LHD26]."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from rollup_node.stages.protocol.pacing import backoff

MAX_RETRY_AFTER = 60.0
FORGET_FACTOR = 10
"""An endpoint that did well for so many times its last pause begins with the first pause again."""


class EndpointFault(Enum):
    """What an endpoint did wrong: in words, and for how many seconds it is set aside the first time and at most."""

    THROTTLED = ("throttles requests", 1.0, MAX_RETRY_AFTER)
    UNREACHABLE = ("does not answer", 2.0, 60.0)
    FAILING = ("answers with an error", 2.0, 60.0)
    BEHIND = ("is behind", 5.0, 60.0)
    WRONG_DATA = ("answers with wrong data", 30.0, 600.0)
    FORKED = ("follows another fork", 30.0, 600.0)
    OTHER_CHAIN = ("is on another chain", 30.0, 600.0)

    def __init__(self, words: str, first: float, longest: float) -> None:
        self.words, self.first, self.longest = words, first, longest


class Verdict(NamedTuple):
    """Why an endpoint is set aside, and until when in seconds of the pool's clock; `times` in a row."""

    fault: EndpointFault
    reason: str
    since: float
    until: float
    times: int


class EndpointPool:
    """The endpoints by their index, in the order of the option: the first that is not set aside is in use.

    `now` is seconds of any monotonic clock.

    The end of its pause does not put an endpoint back into use: it is probed then, so that no request waits for one
    that is still down. Only where all are set aside one of them is used, that whose pause ends first; and none while
    all throttle."""

    def __init__(self, count: int) -> None:
        self._verdicts: list[Verdict | None] = [None] * count
        self._last: list[Verdict | None] = [None] * count

    @property
    def verdicts(self) -> Sequence[Verdict | None]:
        """Why each endpoint is set aside; None for one that is not."""
        return self._verdicts

    def pick(self, now: float) -> int | None:
        """Return the endpoint in use; None while all throttle and ask for patience."""
        set_aside: list[tuple[float, int]] = []
        for index, verdict in enumerate(self._verdicts):
            if verdict is None:
                return index
            if verdict.fault is not EndpointFault.THROTTLED or verdict.until <= now:
                set_aside.append((verdict.until, index))
        return min(set_aside)[1] if set_aside else None

    def set_aside(
        self, index: int, fault: EndpointFault, reason: str, now: float, retry_after: float | None = None
    ) -> bool:
        """Set an endpoint aside; `retry_after` are the seconds that it asks for.

        False if it is set aside already for something no better: what failed with it adds nothing."""
        present = self._verdicts[index]
        until = now + min(retry_after or 0.0, MAX_RETRY_AFTER)
        if present is not None and max(now, until) < present.until and fault.longest <= present.fault.longest:
            return False
        last = self._last[index]
        times = 1
        if last is not None and last.fault is fault:
            pause = last.until - last.since
            times = last.times + 1 if now < last.until + FORGET_FACTOR * pause else 1
        pause = backoff(times, fault.first, fault.longest)
        if retry_after is not None:
            pause = min(max(retry_after, fault.first), MAX_RETRY_AFTER)
        self._verdicts[index] = self._last[index] = Verdict(fault, reason, now, now + pause, times)
        return True

    def restore(self, index: int) -> None:
        """Put an endpoint back into use: it did well in a probe."""
        self._verdicts[index] = None

    def to_probe(self, now: float) -> list[int]:
        """Return the endpoints whose pause is over."""
        return [index for index, verdict in enumerate(self._verdicts) if verdict is not None and verdict.until <= now]

    def next_probe(self, now: float) -> float | None:
        """Seconds until the pause of an endpoint is over; None if none is set aside."""
        waits = [verdict.until - now for verdict in self._verdicts if verdict is not None]
        return max(0.0, min(waits)) if waits else None
