"""Which L1 endpoint is in use: one that throttles, fails, lags or contradicts is set aside; and the quorum [LHD26]."""

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.pacing import backoff
from rollup_node.stages.protocol.types import Hash, L1BlockRef

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
    UNPROVEN = ("has blocks that are not proven", 30.0, 600.0)
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

    `now` is seconds of any monotonic clock. The end of its pause does not put an endpoint back into use: it is probed
    then, so that no request waits for one that is still down. Only where all are set aside one of them is used, that
    whose pause ends first; and none while all throttle. `verdicts` say why each is set aside, None if it is not."""

    def __init__(self, count: int) -> None:
        self.verdicts: list[Verdict | None] = [None] * count
        self._last: list[Verdict | None] = [None] * count

    def pick(self, now: float) -> int | None:
        """Return the endpoint in use; None while all throttle and ask for patience."""
        set_aside: list[tuple[float, int]] = []
        for index, verdict in enumerate(self.verdicts):
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
        present = self.verdicts[index]
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
        self.verdicts[index] = self._last[index] = Verdict(fault, reason, now, now + pause, times)
        return True

    def restore(self, index: int) -> None:
        """Put an endpoint back into use: it did well in a probe."""
        self.verdicts[index] = None

    def to_probe(self, now: float) -> list[int]:
        """Return the endpoints whose pause is over."""
        return [index for index, verdict in enumerate(self.verdicts) if verdict is not None and verdict.until <= now]

    def next_probe(self, now: float) -> float | None:
        """Seconds until the pause of an endpoint is over; None if none is set aside."""
        waits = [verdict.until - now for verdict in self.verdicts if verdict is not None]
        return max(0.0, min(waits)) if waits else None


STALE_SECONDS = 60
"""So much older than the newest head of its chain is that of an endpoint that is behind."""


class View(NamedTuple):
    """What an endpoint has: its latest block, and the hash of the block that all are asked for."""

    latest: L1BlockRef | None
    block: Hash | None


class EndpointFinding(NamedTuple):
    fault: EndpointFault
    reason: str


def lower_number(views: Mapping[int, View], wall_clock: float) -> int | None:
    """Return the number of the lowest recent head of the endpoints that do not have the block asked for.

    They need not be behind: it may be on a fork that has more blocks. None if there is no such head."""
    heads = [view.latest for view in views.values() if view.latest is not None]
    newest = min(max((head.timestamp for head in heads), default=0), int(wall_clock))
    lacking = [view.latest for view in views.values() if view.block is None and view.latest is not None]
    return min((head.number for head in lacking if newest - head.timestamp <= STALE_SECONDS), default=None)


def compare(
    number: int, views: Mapping[int, View], wall_clock: float, proven: Hash | None = None
) -> tuple[dict[int, EndpointFinding], str | None]:
    """Return what is wrong with the endpoints that answered, by index, and a disagreement without a majority.

    `number` is that of the block that all were asked for, and `proven` its hash where that is no question of a majority
    [LCP15]; `wall_clock`, in Unix seconds, bounds the time of a head, so that no endpoint makes others seem behind."""
    votes = Counter(view.block for view in views.values() if view.block is not None)
    if proven is not None:
        votes = Counter({proven: votes[proven]})
    findings: dict[int, EndpointFinding] = {}
    if not votes:
        return findings, None
    (right, count), *others = votes.most_common()
    if others and count * 2 <= votes.total():
        said = ", ".join(f"{to_hex(block)} ({times})" for block, times in votes.most_common())
        return findings, f"the L1 endpoints disagree on block {number}, and there is no majority: {said}"
    heads = [view.latest for view in views.values() if view.latest is not None and view.block == right]
    newest = min(max((head.timestamp for head in heads), default=0), int(wall_clock))
    for index, view in views.items():
        if view.block is None:
            head = "none" if view.latest is None else str(view.latest.number)
            findings[index] = EndpointFinding(
                EndpointFault.BEHIND, f"it does not have block {number}; its head is {head}"
            )
        elif view.block != right:
            findings[index] = EndpointFinding(
                EndpointFault.FORKED,
                f"its block {number} is {to_hex(view.block)}, "
                + (f"that of {count} others {to_hex(right)}" if proven is None else f"the proven one {to_hex(right)}"),
            )
        elif view.latest is not None and newest - view.latest.timestamp > STALE_SECONDS:
            late = newest - view.latest.timestamp
            findings[index] = EndpointFinding(
                EndpointFault.BEHIND, f"its head {view.latest.number} is {late} s behind another one's"
            )
    return findings, None
