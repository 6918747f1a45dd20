"""Progress of the node as log lines: states and rates from the statuses that the processes publish [LOG7 to LOG10]."""

from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from rollup_node.stages.messages.derivation import DerivationStatus, DerivationWaits
from rollup_node.stages.messages.engine import EL_SYNC, EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.types import L1BlockRef, L2BlockRef

LINE_SECONDS = 12.0
HOLD_SECONDS = 5.0
"""A state is left when it has not applied for so long; so this is the least time between two changes."""
RATE_SECONDS = 60.0
MIN_RATE_SECONDS = 5.0
"""A rate over less than this is left out."""
BEHIND_BLOCKS, CAUGHT_UP_BLOCKS = 12, 3
"""A synced node is syncing again when it is more than so many L1 blocks behind, and synced when at most so many."""
SETTLED_SECONDS = 2.0
DROPS_SECONDS, DROPS_STEP = 3600.0, 60.0
MAX_TEXT = 300


class State(StrEnum):
    """What the node does; the value is the message of the line."""

    STARTING = "starting"
    EL_SYNC = "EL sync"
    SYNCING = "syncing"
    SYNCED = "synced"
    FOLLOWING = "following"
    WAITING = "waiting"


class Snapshot(NamedTuple):
    """What is known at one moment; None for what is not. `peers` are the connected ones, `drops` those since derivation
    started, `reasons` those of `/readyz`."""

    l1: L1Heads | None
    engine: EngineStatus | None
    derivation: DerivationStatus | None
    peers: int | None
    drops: int | None
    reasons: Sequence[str]


class Line(NamedTuple):
    """One line at level info."""

    message: str
    fields: dict[str, object]


class Progress:
    """Decides which line is due. All times `now` are of one monotonic clock, in seconds, and begin with this object."""

    def __init__(self, rollup: RollupConfig, derives: bool) -> None:
        self.state = State.STARTING
        self._rollup, self._derives = rollup, derives
        self._applied: float | None = None
        self._line_at: float | None = None
        self._tip_gap = 0
        self._head_since: tuple[int, float] = (-1, 0.0)
        self._sync_began: tuple[float, int | None] | None = None
        self._safe = RateWindow()
        self._waits = DerivationWaits()
        self._drops = RecentDrops()

    def step(self, seen: Snapshot, now: float, wall: float) -> Line | None:
        """The line to write now, if one is due. `wall` in Unix seconds, for the ages of blocks."""
        safe = None if seen.engine is None else seen.engine.safe
        if safe is not None:
            self._safe.add(safe.number, now)
        if seen.drops is not None:
            self._drops.add(seen.drops, now)
        line = self._changed(seen, safe, now)
        if line is None and self._line_at is not None and now - self._line_at < LINE_SECONDS:
            return None
        self._line_at = now
        return line or Line(self.state.value, self._fields(seen, now, wall))

    def _changed(self, seen: Snapshot, safe: L2BlockRef | None, now: float) -> Line | None:
        """Changes the state if it is time; the line `caught up`, or one without a time limit, for a new state."""
        state = self._current(seen, now)
        if self._applied is None or state is self.state:
            self._applied = now
        if state is self.state or (self.state is not State.STARTING and now - self._applied < HOLD_SECONDS):
            return None
        if self.state is State.STARTING and self._line_at is not None and now - self._line_at < HOLD_SECONDS:
            return None
        ended = self._applied
        self.state, self._applied, self._line_at = state, now, None
        if state is State.SYNCING and self._sync_began is None:
            self._sync_began = now, None if safe is None else safe.number
        if state is not State.SYNCED or self._sync_began is None:
            return None
        (began, first), self._sync_began = self._sync_began, None
        if ended - began < LINE_SECONDS:
            return None
        return Line("caught up", _caught_up(ended - began, first, None if safe is None else safe.number))

    def _current(self, seen: Snapshot, now: float) -> State:
        if any(reason.startswith(f"engine: {EL_SYNC}") for reason in seen.reasons):
            return State.EL_SYNC
        if seen.reasons:
            return State.STARTING if self.state is State.STARTING else State.WAITING
        if not self._derives:
            return State.FOLLOWING
        behind = self._behind(seen, now)
        if behind is None:
            return State.STARTING if self.state is State.STARTING else State.SYNCING
        limit = BEHIND_BLOCKS if self.state is State.SYNCED else CAUGHT_UP_BLOCKS
        return State.SYNCED if behind <= limit else State.SYNCING

    def _behind(self, seen: Snapshot, now: float) -> int | None:
        """L1 blocks that derivation may read already; None while unknown. With `verifier.l1-confs`, or a supervisor, an
        idle derivation stays some blocks below the head, and that distance does not count."""
        head, current = _l1_head(seen), _current_l1(seen)
        if seen.derivation is None or head is None or current is None:
            return None
        gap = head.number - current.number
        if head.number != self._head_since[0]:
            self._head_since = head.number, now
        # A new head may come before derivation has published that it reads on.
        if seen.derivation.idle and now - self._head_since[1] >= SETTLED_SECONDS:
            self._tip_gap = max(gap, 0)
        return max(gap - self._tip_gap, 0)

    def _fields(self, seen: Snapshot, now: float, wall: float) -> dict[str, object]:
        if self.state is State.SYNCING:
            found = self._syncing(seen, now)
        elif self.state in (State.SYNCED, State.FOLLOWING):
            found = _heads(seen, wall)
        else:
            found = _waits_for(seen) | _short_heads(seen)
        if seen.peers is not None:
            found["peers"] = seen.peers
        if self.state is State.SYNCED and seen.drops is not None:
            found["drops_1h"] = self._drops.recent(now)
        return found

    def _syncing(self, seen: Snapshot, now: float) -> dict[str, object]:
        found: dict[str, object] = {}
        safe, head = (None if seen.engine is None else seen.engine.safe), _l1_head(seen)
        speed = self._safe.rate(now)
        if safe is not None and head is not None:
            target = max(_block_at(self._rollup, head.timestamp), safe.number)
            found["safe"] = f"{safe.number} of ~{target}"
            if speed is not None:
                found["speed"] = _speed(speed)
                # The target moves on by a block each block time meanwhile.
                gain = speed - 1 / self._rollup.block_time
                if gain > 0:
                    found["eta"] = duration((target - safe.number) / gain)
        if seen.derivation is not None:
            before, self._waits = self._waits, seen.derivation.waits
            if (limited_by := longest_wait(before, self._waits)) is not None:
                found["limited_by"] = limited_by
        return found | {name: value for name, value in _short_heads(seen).items() if name not in found}


class RateWindow:
    """The growth of a number over the last RATE_SECONDS, at most one sample a second."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, number: int, now: float) -> None:
        """Adds the number at a time. A smaller one than the last begins a new window: the chain was reset."""
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
        """Takes the counter at a time."""
        last, self._total = self._total, total
        grown = 0 if last is None else total - last if total >= last else total
        if grown == 0:
            return
        if self._steps and now - self._steps[-1][0] < DROPS_STEP:
            self._steps[-1] = self._steps[-1][0], self._steps[-1][1] + grown
        else:
            self._steps.append((now, grown))
        self.recent(now)

    def recent(self, now: float) -> int:
        """The growth of the last hour, to a minute; since the first count if that is less."""
        while self._steps and now - self._steps[0][0] > DROPS_SECONDS:
            self._steps.popleft()
        return sum(grown for _, grown in self._steps)


def longest_wait(before: DerivationWaits, after: DerivationWaits) -> str | None:
    """What took most of the time between two statuses: the process that derivation waited for, or itself; None without
    a second to tell by. After a restart of its process the counts begin again."""
    names = DerivationWaits.__struct_fields__
    if any(getattr(after, name) < getattr(before, name) for name in names):
        before = DerivationWaits()
    grown = {name: getattr(after, name) - getattr(before, name) for name in names}
    longest = max(grown, key=grown.__getitem__)
    return longest if grown[longest] else None


def duration(seconds: float) -> str:
    """Its two largest units: `8s`, `6m55s`, `2h13m`, `3d4h`."""
    whole = int(seconds)
    for unit, name, below, below_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit:
            return f"{whole // unit}{name}{whole % unit // below}{below_name}"
    return f"{whole}s"


def _speed(rate: float) -> str:
    return f"{rate:.1f} blocks/s" if rate < 100 else f"{rate:.0f} blocks/s"


def _block_at(rollup: RollupConfig, timestamp: int) -> int:
    return rollup.genesis.l2.number + max(timestamp - rollup.genesis.l2_time, 0) // rollup.block_time


def _caught_up(took: float, first: int | None, last: int | None) -> dict[str, object]:
    found: dict[str, object] = {"took": duration(took)}
    if first is not None and last is not None and last >= first and took > 0:
        found |= {"blocks": last - first, "mean": _speed((last - first) / took)}
    return found


def _l1_head(seen: Snapshot) -> L1BlockRef | None:
    return None if seen.l1 is None else seen.l1.head


def _current_l1(seen: Snapshot) -> L1BlockRef | None:
    return None if seen.derivation is None else seen.derivation.current_l1


def _waits_for(seen: Snapshot) -> dict[str, object]:
    if not seen.reasons:
        return {}
    # Many reasons may follow from one; `/readyz` has them all.
    others = {"others": len(seen.reasons) - 1} if len(seen.reasons) > 1 else {}
    return {"for": seen.reasons[0][:MAX_TEXT], **others}


def _short_heads(seen: Snapshot) -> dict[str, object]:
    """Numbers without ages, as they are known."""
    found: dict[str, object] = {}
    if seen.engine is not None and seen.engine.safe is not None:
        found["safe"] = seen.engine.safe.number
    head, current = _l1_head(seen), _current_l1(seen)
    if head is not None:
        found["l1"] = head.number if current is None else f"{current.number}/{head.number}"
    return found


def _heads(seen: Snapshot, wall: float) -> dict[str, object]:
    found: dict[str, object] = {}
    if seen.engine is not None:
        for name, ref in (("unsafe", seen.engine.unsafe), ("safe", seen.engine.safe)):
            if ref is not None:
                found[name] = _with_age(ref, wall)
        if seen.engine.finalized is not None:
            found["finalized"] = seen.engine.finalized.number
    head = _l1_head(seen)
    if head is not None:
        found["l1"] = _with_age(head, wall)
    return found


def _with_age(ref: L1BlockRef | L2BlockRef, wall: float) -> str:
    age = max(wall - ref.timestamp, 0.0)
    return f"{ref.number} ({age:.1f} s)" if age < 10 else f"{ref.number} ({duration(age)})"
