"""What the derivation process reports: log lines and metrics of what happens, drops for `explain`, health problems."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice

from prometheus_client import Counter

from rollup_node.stages.derivation.codec.batches import RejectedBatch, SingularBatch
from rollup_node.stages.derivation.pipeline import outputs
from rollup_node.stages.derivation.reasons import batches as reasons
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.derivation.tasks import DecodedChannel
from rollup_node.stages.io.log.logger import Level, Logger
from rollup_node.stages.io.metrics.meter import Meter, show_l1_block
from rollup_node.stages.messages import derivation
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.types import L1BlockRef

LONG_WAIT = 15.0
"""Seconds after which an unmet need is a health problem."""
STALLED_BLOCKS = 50
"""L1 blocks after which an undecided batch is a health problem."""
LATEST_DROPS = 32
MAX_COUNTS, MAX_COUNT_TEXT = 64, 200
SAME_RESETS = 3
"""Resets for the same reason, one after the other, that are a health problem."""

MAX_WARNINGS, WARNING_SECONDS = 30, 60.0
"""Drops that are logged as warnings in so many seconds; the others are logged at debug, and counted."""

_QUIET = (derivation.DropEffect.IGNORED, derivation.DropEffect.PAST, derivation.DropEffect.DISCARDED)
"""What happens to input every day, or follows from something else."""
_EXPECTED = (reasons.TimestampPast, reasons.SpanPast)
"""Batches that are read again after every start; not worth a warning."""


_L1_REQUESTS: dict[type, str] = {
    outputs.NeedL1Block: "block",
    outputs.NeedBlobs: "blobs",
    outputs.NeedChallenges: "challenges",
}
"""The metric labels of needs that L1 meets."""


class _Kind:
    """The drops of one reason with one effect: how they are counted and logged.

    `repeats` are those in the L1 block being read, `origin`, besides the first one; `last` is the last one of all, with
    their `count`."""

    def __init__(self, counters: tuple[Counter, Counter], is_warning: bool, dropped: Dropped) -> None:
        self.counters, self.is_warning = counters, is_warning
        self.label = dropped.label
        self.origin: L1BlockRef | None = None
        self.repeats = self.count = 0
        self.last = dropped

    def counted(self) -> derivation.DropCount:
        dropped, reason = self.last, self.last.reason
        block = None if dropped.origin is None else dropped.origin.number
        return derivation.DropCount(
            reason.kind.rule, reason.name, dropped.effect, self.count, str(dropped)[:MAX_COUNT_TEXT], block
        )


class DerivationLog:
    """Every drop is counted by its rule and becomes an entry of `buffer`.

    The first one of each kind in an L1 block is logged at once, the number of the others when the block has been
    read."""

    def __init__(self, meter: Meter, log: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._meter, self._log, self._clock = meter, log, clock
        self._warned_since = clock()
        self._warned = 0
        self._origin: L1BlockRef | None = None
        self._need: tuple[object, float] = (None, 0.0)
        self._l1_need: tuple[object, float] = (None, 0.0)
        self._stall: tuple[Reason | None, int] = (None, 0)
        self._last_reset: tuple[str | None, int] = (None, 0)
        self.buffer = DropBuffer()
        self._restarted_at = self._frames_added = 0
        self._drops = derivation.Drops(0, ())
        self._counts: derivation.DropCounts | None = None
        self._counted = 0
        self._kinds: dict[tuple[derivation.DropEffect, str], _Kind] = {}
        self._in_block: dict[tuple[derivation.DropEffect, str], _Kind] = {}

    @property
    def drops(self) -> derivation.Drops:
        """The latest drops since derivation started, as they are published."""
        total = self.buffer.total
        if self._drops.total != total:
            self._drops = derivation.Drops(total, self.buffer.latest(min(LATEST_DROPS, total - self._restarted_at)))
        return self._drops

    @property
    def drop_counts(self) -> derivation.DropCounts | None:
        """The drops since the process began; None without any."""
        if self.buffer.total != self._counted:
            self._counted = self.buffer.total
            kinds = sorted(self._kinds.values(), key=lambda kind: -kind.count)[:MAX_COUNTS]
            self._counts = derivation.DropCounts(tuple(kind.counted() for kind in kinds))
        return self._counts

    def restart(self) -> None:
        """Clear the latest drops, because derivation starts again."""
        self._log_repeats()
        self._restarted_at = self.buffer.total
        self._drops = derivation.Drops(self.buffer.total, ())

    def dropped(self, dropped: Dropped) -> None:
        """Count a drop, adds it to the buffer, and logs it if it is the first of its kind in the L1 block."""
        self.buffer.add(dropped)
        key = dropped.effect, dropped.reason.name
        kind = self._in_block.get(key)
        if kind is not None:
            kind.repeats += 1
        else:
            kind = self._in_block[key] = self._kinds.get(key) or self._new_kind(dropped)
            kind.origin = dropped.origin
            self._write(kind, str(dropped), dropped.reason.values)
        for counter in kind.counters:
            counter.inc()
        kind.count += 1
        kind.last = dropped
        if dropped.effect is derivation.DropEffect.TIMED_OUT:
            self._meter.count("channel_timeout")

    def _new_kind(self, dropped: Dropped) -> _Kind:
        effect = dropped.effect.value
        counters = (
            self._meter.counter("derivation_drops_total", effect=effect, rule=dropped.label),
            self._meter.counter("derivation_drop_effects_total", effect=effect),
        )
        is_warning = dropped.effect not in _QUIET and dropped.reason.kind not in _EXPECTED
        kind = self._kinds[dropped.effect, dropped.reason.name] = _Kind(counters, is_warning, dropped)
        return kind

    def _log_repeats(self) -> None:
        """End an L1 block: one line for each kind of which there was more than is logged."""
        for (effect, _), kind in self._in_block.items():
            if kind.repeats:
                text = "more was dropped for the same reason"
                self._write(kind, text, {"effect": effect.value, "reason": kind.label, "count": kind.repeats})
            kind.repeats = 0
        self._in_block.clear()

    def _write(self, kind: _Kind, text: str, values: Mapping[str, int | str]) -> None:
        level = Level.WARN if kind.is_warning and self._may_warn() else Level.DEBUG
        # A field of a reason may have any name.
        self._log.write(level, text, {**values, "code": Code.INPUT_DROPPED.text, "at": kind.origin})

    def _may_warn(self) -> bool:
        """Whether another warning of a drop fits into this minute."""
        now = self._clock()
        if now - self._warned_since >= WARNING_SECONDS:
            if self._warned > MAX_WARNINGS:
                text, count = "more was dropped than is logged, see explain", self._warned - MAX_WARNINGS
                self._log.warn(text, code=Code.INPUT_DROPPED.text, count=count)
            self._warned_since, self._warned = now, 0
        self._warned += 1
        return self._warned <= MAX_WARNINGS

    def at_block(self, block: L1BlockRef) -> None:
        """Record the L1 block being read; the one before has been read."""
        self._log_repeats()
        self._origin = block
        show_l1_block(self._meter, "l1_derived", block)
        self._log.trace("reading L1 block", block=block)

    def frames_added(self, total: int) -> None:
        """Count frames added to channels; `total` since the process started."""
        if total > self._frames_added:
            self._meter.count("frame_added", total - self._frames_added)
            self._frames_added = total

    def channel_decoded(self, need: outputs.NeedDecoded, result: DecodedChannel) -> None:
        """Log that a channel, or a part of a long one, was decoded."""
        if not need.task.first:
            self._meter.count("head_channel")
            self._meter.count("channel_input_bytes", len(need.task.body))
        for batch in result.batches:
            if not isinstance(batch, RejectedBatch):
                self._meter.count("derived_batches", type="singular" if isinstance(batch, SingularBatch) else "span")
        self._log.debug("channel decoded", bytes=len(need.task.body), batches=len(result.batches))

    def reset_needed(self, reason: str) -> None:
        """Log that the deriver cannot go on without a reset."""
        self._meter.count("derivation_errors")
        last, times = self._last_reset
        self._last_reset = reason, times + 1 if reason == last else 1

    def waits_for(self, need: object) -> None:
        """Note what derivation waits for, if anything, and count how long it waited for L1 before."""
        last, since = self._l1_need
        if need == last:
            return
        now = self._clock()
        if (request := _L1_REQUESTS.get(type(last))) is not None:
            self._meter.observe("l1_request_seconds", now - since, request=request)
        self._l1_need = need, now

    def idle(self, idle: bool) -> None:
        """Whether all L1 blocks up to the head are exhausted."""
        self._meter.set("derivation_idle", int(idle))
        if idle:
            self._last_reset = (None, 0)

    def problems(self, need: object, reset: str | None, stalled_by: Reason | None, now: float) -> list[Problem]:
        """Return the health problems.

        `need` is an unmet need of the deriver, `reset` the reason of a reset that has not come, `stalled_by` that of
        an undecided batch [H1]; `now` in seconds of any steady clock."""
        problems: list[Problem] = []
        if need != self._need[0]:
            self._need = need, now
        elif need is not None and now - self._need[1] > LONG_WAIT and (what := _description(need)) is not None:
            problems.append(Problem(None, "", f"derivation has waited {now - self._need[1]:.0f} s for {what}"))
        if reset is not None:
            problems.append(Problem(None, "", f"derivation waits for a reset: {reset}"))
        if self._last_reset[1] >= SAME_RESETS:
            text = f"{self._last_reset[1]} resets for the same reason: {self._last_reset[0]}"
            problems.append(Problem(Code.RESET_LOOP, "", text))
        number = self._origin.number if self._origin else 0
        if stalled_by != self._stall[0]:
            self._stall = stalled_by, number
        elif stalled_by is not None and number - self._stall[1] > STALLED_BLOCKS:
            text = f"a batch has held up the queue for {number - self._stall[1]} L1 blocks: {stalled_by}"
            problems.append(Problem(None, "", text))
        return problems


def _description(need: object) -> str | None:
    match need:
        case outputs.NeedL1Block(number=number):
            return f"L1 block {number}"
        case outputs.NeedBlobs(block=block, blobs=blobs):
            return f"{len(blobs)} blobs of L1 block {block}"
        case outputs.NeedL2Blocks(first=first, last=last):
            return f"L2 blocks {first} to {last}"
        case outputs.NeedDecoded():
            return "a channel to be decoded"
    return None


KEPT = 1000
PAGE = 200


class DropBuffer:
    """A ring buffer of `kept` drops.

    Readers name the number that they want next, so no state is kept for each. Texts are made of the drops that are
    read, since a batcher can post a million of them in a few L1 blocks."""

    def __init__(self, kept: int = KEPT) -> None:
        self.total = 0
        self._drops: deque[Dropped] = deque(maxlen=kept)
        self._kept = kept
        self._read = 0

    def add(self, dropped: Dropped) -> None:
        """Add a drop; when there are too many, the oldest goes."""
        self._drops.append(dropped)
        self.total += 1

    def answer(self, request: derivation.DropsRequest) -> derivation.DropsResponse:
        """Return the drops from the requested number on, at most a page of them, or from the oldest that is kept."""
        self._read = max(self._read, min(request.first, self.total))
        oldest = self.total - len(self._drops)
        first = min(max(request.first, oldest), self.total)
        page = islice(self._drops, first - oldest, first - oldest + PAGE)
        return derivation.DropsResponse(request.id, first, tuple(map(drop_of, page)), self.total)

    def latest(self, count: int) -> tuple[derivation.Drop, ...]:
        """Return the last `count` drops, oldest first, or as many as are kept."""
        size = len(self._drops)
        return tuple(map(drop_of, islice(self._drops, max(0, size - count), size)))

    @property
    def is_full(self) -> bool:
        """Whether the next drop would push out one that no reader has received."""
        return self.total - self._read >= self._kept


def drop_of(dropped: Dropped) -> derivation.Drop:
    """Return a drop as it is shown."""
    reason = dropped.reason
    return derivation.Drop(
        rule=reason.kind.rule,
        text=str(dropped),
        origin=dropped.origin,
        needs_parent_hash=reason.kind in (reasons.ParentHashMismatch, reasons.SpanParentMismatch),
        effect=dropped.effect,
        reason=reason.name,
        values=reason.values,
    )
