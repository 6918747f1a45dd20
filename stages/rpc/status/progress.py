"""Progress of the node over a time: rates and ages, and the log lines made from its status [LOG7 to LOG10, RPC95]."""

from collections import deque
from typing import NamedTuple

import msgspec

from rollup_node.stages.messages.derivation import DerivationWaits
from rollup_node.stages.messages.log_fields import FieldValue, Scalar, TypedText, seconds
from rollup_node.stages.protocol.texts import age
from rollup_node.stages.rpc.status.node_status import BlockStatus, NodeStatus, State

RATE_SECONDS = 60.0
MIN_RATE_SECONDS = 5.0
"""A rate over less than this is left out."""
WAITS_SECONDS = 12.0
DROPS_SECONDS, DROPS_STEP = 3600.0, 60.0
REQUESTS_SECONDS, REQUESTS_STEP = 600.0, 10.0

STEP_SECONDS = 10.0
KEPT_SECONDS = 3600.0


class RateWindow:
    """The growth of a number over the last RATE_SECONDS, at most one sample a second."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, number: int, now: float) -> None:
        """Add the number at a time. A smaller one than the last begins a new window: the chain was reset."""
        if self._samples and number < self._samples[-1][1]:
            self._samples.clear()
        if not self._samples or now - self._samples[-1][0] >= 1.0:
            self._samples.append((now, number))
        while now - self._samples[0][0] > RATE_SECONDS:
            self._samples.popleft()

    def rate(self, now: float) -> float | None:
        """Per second, never negative; None while too little time is covered, or no sample is recent."""
        if not self._samples or now - self._samples[-1][0] > MIN_RATE_SECONDS:
            return None
        (began, first), (ended, last) = self._samples[0], self._samples[-1]
        return (last - first) / (ended - began) if ended - began >= MIN_RATE_SECONDS else None


class RecentDrops:
    """How much a counter grew in the last hour, by minutes; a restart of its process takes it back to zero."""

    def __init__(self) -> None:
        self._total: int | None = None
        self._steps: deque[tuple[float, int]] = deque()

    def add(self, total: int, now: float) -> None:
        """Take the counter at a time."""
        last, self._total = self._total, total
        grown = 0 if last is None else total - last if total >= last else total
        if self._steps and now - self._steps[-1][0] < DROPS_STEP:
            self._steps[-1] = self._steps[-1][0], self._steps[-1][1] + grown
        else:
            self._steps.append((now, grown))
        self.recent(now)

    def recent(self, now: float) -> int:
        """Return the growth of the last hour, to a minute; since the first count if that is less."""
        while self._steps and now - self._steps[0][0] > DROPS_SECONDS:
            self._steps.popleft()
        return sum(grown for _, grown in self._steps)


class RecentRequests:
    """Calls to L1 for each L1 block that derivation read in the last REQUESTS_SECONDS, sampled every REQUESTS_STEP."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, int]] = deque()
        self._last = 0, 0

    def add(self, requests: int, block: int, now: float) -> None:
        """Take the count of requests and the block's number at a time.

        A smaller count or number than before begins again: a process was restarted, or derivation reset."""
        if requests < self._last[0] or block < self._last[1]:
            self._samples.clear()
        self._last = requests, block
        if not self._samples or now - self._samples[-1][0] >= REQUESTS_STEP:
            self._samples.append((now, requests, block))
        while now - self._samples[0][0] > REQUESTS_SECONDS:
            self._samples.popleft()

    def per_block(self) -> float | None:
        """Return the requests for each block; None while no block was read."""
        if not self._samples:
            return None
        (_, first, lowest), (last, highest) = self._samples[0], self._last
        return round((last - first) / (highest - lowest), 1) if highest > lowest else None


class RecentWaits:
    """What derivation waited for in the last WAITS_SECONDS, at most one sample a second."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, DerivationWaits]] = deque()
        self._before = DerivationWaits()

    def add(self, waits: DerivationWaits, now: float) -> None:
        """Take the counts at a time."""
        if not self._samples or now - self._samples[-1][0] >= 1.0:
            self._samples.append((now, waits))
        while now - self._samples[0][0] >= WAITS_SECONDS:
            self._before = self._samples.popleft()[1]

    def longest(self) -> str | None:
        """Return the process that derivation waited for longest, or itself; None without a second to tell by."""
        return longest_wait(self._before, self._samples[-1][1]) if self._samples else None


def longest_wait(before: DerivationWaits, after: DerivationWaits) -> str | None:
    """Return what took most of the time between two statuses: the process that derivation waited for, or itself.

    None without a second to tell by. After a restart of its process the counts begin again."""
    names = DerivationWaits.__struct_fields__
    if any(getattr(after, name) < getattr(before, name) for name in names):
        before = DerivationWaits()
    grown = {name: getattr(after, name) - getattr(before, name) for name in names}
    longest = max(grown, key=grown.__getitem__)
    return longest if grown[longest] else None


_Ages = tuple[int, float | None, float | None, float | None, float | None]
"""Time, and the ages of the L1 head and of the unsafe, safe and finalized heads."""


class HistoryColumns(msgspec.Struct, frozen=True):
    """Samples of the heads' ages in seconds, each `step_s`, in columns; None for a head that was not known."""

    step_s: float
    time: list[int]
    l1_head: list[float | None]
    unsafe: list[float | None]
    safe: list[float | None]
    finalized: list[float | None]


class HeadHistory:
    """One sample every STEP_SECONDS for KEPT_SECONDS; all times are those of the statuses."""

    def __init__(self) -> None:
        self._samples: deque[_Ages] = deque(maxlen=int(KEPT_SECONDS / STEP_SECONDS))

    def add(self, status: NodeStatus) -> None:
        """Take a status, at most one in STEP_SECONDS; a clock that was set back begins a new history."""
        time = int(status.time)
        if self._samples and time < self._samples[-1][0]:
            self._samples.clear()
        if self._samples and time - self._samples[-1][0] < STEP_SECONDS:
            return
        heads = status.heads
        blocks = status.l1.head, heads.unsafe, heads.safe, heads.finalized
        l1, unsafe, safe, finalized = (None if block is None else block.age_s for block in blocks)
        self._samples.append((time, l1, unsafe, safe, finalized))

    def columns(self) -> HistoryColumns:
        """Return the samples of the last hour."""
        columns = [list(column) for column in zip(*self._samples, strict=True)] or [[] for _ in range(5)]
        return HistoryColumns(STEP_SECONDS, *columns)


LINE_SECONDS = 12.0
MAX_TEXT = 300


class Line(NamedTuple):
    """One line at level info."""

    message: str
    fields: dict[str, FieldValue]


class Progress:
    """Decides which line is due. All times `now` are of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._line_at: float | None = None
        self._sync_began: tuple[float, int | None] | None = None

    def step(self, status: NodeStatus, now: float) -> Line | None:
        """Return the line to write now, if one is due."""
        line = self._changed(status, now)
        if status.state is State.WAITING and not status.reasons:
            # What it waited for has come, and the state is about to change.
            return None
        if line is None and self._line_at is not None and now - self._line_at < LINE_SECONDS:
            return None
        self._line_at = now
        return line or Line(status.state.value, _fields(status))

    def _changed(self, status: NodeStatus, now: float) -> Line | None:
        """Take a new state; the line `caught up`, or one without a time limit."""
        if status.state is self._state:
            return None
        self._state, self._line_at = status.state, None
        safe = None if status.heads.safe is None else status.heads.safe.number
        if status.state is State.SYNCING and self._sync_began is None:
            self._sync_began = now, safe
        if status.state is not State.SYNCED or self._sync_began is None:
            return None
        (began, first), self._sync_began = self._sync_began, None
        took = now - status.state_age_s - began
        return None if took < LINE_SECONDS else Line("caught up", _caught_up(took, first, safe))


def _fields(status: NodeStatus) -> dict[str, FieldValue]:
    if status.state is State.SYNCING:
        fields = _syncing(status)
    elif status.state in (State.SYNCED, State.FOLLOWING):
        fields = _heads(status)
    else:
        fields = _waits_for(status) | _short_heads(status)
    if status.peers is not None:
        fields["peers"] = status.peers.connected
    if status.state is State.SYNCED and status.drops_1h is not None:
        fields["drops_1h"] = status.drops_1h
    return fields


def _syncing(status: NodeStatus) -> dict[str, FieldValue]:
    result: dict[str, FieldValue] = {}
    safe, progress = status.heads.safe, status.progress
    if safe is not None and progress.target_block is not None:
        text = f"{safe.number} of ~{progress.target_block}"
        result["safe"] = TypedText(text, safe_block=safe.number, target_block=progress.target_block)
        if progress.blocks_per_s is not None:
            result["speed"] = speed_text(progress.blocks_per_s)
        if progress.eta_s is not None:
            result |= seconds("eta", progress.eta_s)
    if progress.limited_by is not None:
        result["limited_by"] = progress.limited_by
    result |= {name: value for name, value in _short_heads(status).items() if name not in result}
    if status.l1_req_per_block is not None:
        result["l1_req_per_block"] = round(status.l1_req_per_block, 1)
    return result


def speed_text(rate: float) -> TypedText:
    """Return a speed as people read it; in JSON it is `blocks_per_s`."""
    text = f"{rate:.1f} blocks/s" if rate < 100 else f"{rate:.0f} blocks/s"
    return TypedText(text, blocks_per_s=round(rate, 2))


def _caught_up(took: float, first: int | None, last: int | None) -> dict[str, FieldValue]:
    result: dict[str, FieldValue] = {**seconds("took", took)}
    if first is not None and last is not None and last >= first and took > 0:
        result |= {"blocks": last - first, "mean": speed_text((last - first) / took)}
    return result


def _waits_for(status: NodeStatus) -> dict[str, FieldValue]:
    if not status.reasons:
        return {}
    # Many reasons may follow from one; `/readyz` has them all.
    others = {"others": len(status.reasons) - 1} if len(status.reasons) > 1 else {}
    return {"for": status.reasons[0][:MAX_TEXT], **others}


def _short_heads(status: NodeStatus) -> dict[str, FieldValue]:
    """Numbers without ages, as they are known."""
    short_heads: dict[str, FieldValue] = {}
    if status.heads.safe is not None:
        short_heads["safe"] = _number(status.heads.safe, "safe_block")
    head, current = status.l1.head, status.l1.current
    if head is not None and current is not None:
        both = f"{current.number}/{head.number}"
        short_heads["l1"] = TypedText(both, l1_current=current.number, l1_head=head.number)
    elif head is not None:
        short_heads["l1"] = _number(head, "l1_head")
    return short_heads


def _heads(status: NodeStatus) -> dict[str, FieldValue]:
    heads, l1 = status.heads, status.l1.head
    result: dict[str, FieldValue] = {}
    if heads.unsafe is not None:
        result["unsafe"] = _with_age(heads.unsafe, "unsafe_block", "unsafe_age_s")
    if heads.safe is not None:
        result["safe"] = _with_age(heads.safe, "safe_block", "safe_age_s")
    if heads.finalized is not None:
        result["finalized"] = _number(heads.finalized, "finalized_block")
    if l1 is not None:
        result["l1"] = _with_age(l1, "l1_head", "l1_age_s")
    return result


def _number(block: BlockStatus, name: str) -> TypedText:
    return TypedText(str(block.number), **{name: block.number})


def _with_age(block: BlockStatus, name: str, age_name: str) -> TypedText:
    figures: dict[str, Scalar] = {name: block.number, age_name: block.age_s}
    return TypedText(f"{block.number} ({age(block.age_s)})", **figures)
