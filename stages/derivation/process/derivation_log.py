"""What the derivation process reports: log lines and metrics of what happens, drops for `explain`, health problems."""

from collections import deque

from rollup_node.stages.derivation.codec.batches import RejectedBatch, SingularBatch
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedDecoded, NeedL1Block, NeedL2Blocks
from rollup_node.stages.derivation.process.drop_buffer import DropBuffer
from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.derivation.reasons.singular import ParentHashMismatch, TimestampPast
from rollup_node.stages.derivation.reasons.span import SpanParentMismatch, SpanPast
from rollup_node.stages.derivation.tasks import DecodedChannel
from rollup_node.stages.io.log import Logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.derivation import Drop, DropEffect, Drops
from rollup_node.stages.protocol.types import L1BlockRef

LONG_WAIT = 15.0
"""Seconds after which an unmet need is a health problem."""
STALLED_BLOCKS = 50
"""L1 blocks after which an undecided batch is a health problem."""
LATEST_DROPS = 32
SAME_RESETS = 3
"""Resets for the same reason, one after the other, that are a health problem."""

_WARNINGS = frozenset(
    (
        DropEffect.DROPPED,
        DropEffect.FLUSHED,
        DropEffect.ENDED,
        DropEffect.UNDECIDED,
        DropEffect.TIMED_OUT,
        DropEffect.RESET,
    )
)
_EXPECTED = TimestampPast | SpanPast
"""Batches that are read again after every start; not worth a warning."""


class DerivationLog:
    """Every drop becomes a log line, a count by its rule and an entry of `buffer`."""

    def __init__(self, meter: Meter, log: Logger) -> None:
        self._meter = meter
        self._log = log
        self._origin: L1BlockRef | None = None
        self._need: tuple[object, float] = (None, 0.0)
        self._stall: tuple[Reason | None, int] = (None, 0)
        self._last_reset: tuple[str | None, int] = (None, 0)
        self.buffer = DropBuffer()
        self._latest: deque[Drop] = deque(maxlen=LATEST_DROPS)

    @property
    def drops(self) -> Drops:
        """The latest drops since derivation started, as they are published."""
        return Drops(self.buffer.total, tuple(self._latest))

    def restart(self) -> None:
        """Clears the latest drops, because derivation starts again."""
        self._latest.clear()

    def dropped(self, dropped: Dropped) -> None:
        """Logs and counts a drop, and adds it to the buffer."""
        drop = _message(dropped)
        self.buffer.add(drop)
        self._latest.append(drop)
        self._meter.count("derivation_drops_total", effect=dropped.effect.value, rule=dropped.label)
        if dropped.effect is DropEffect.TIMED_OUT:
            self._meter.count("channel_timeout")
        is_warning = dropped.effect in _WARNINGS and not isinstance(dropped.reason, _EXPECTED)
        write = self._log.warn if is_warning else self._log.debug
        write(str(dropped), at=dropped.origin, **dropped.reason.values)

    def at_block(self, block: L1BlockRef) -> None:
        """Records the L1 block being read."""
        self._origin = block
        self._meter.set("refs_number", block.number, layer="l1", type="l1_derived")
        self._meter.set("refs_time", block.timestamp, layer="l1", type="l1_derived")
        self._log.trace("reading L1 block", block=block)

    def channel_decoded(self, need: NeedDecoded, result: DecodedChannel) -> None:
        """A channel, or a part of a long one, was decoded."""
        if not need.task.first:
            self._meter.count("head_channel")
            self._meter.count("channel_input_bytes", len(need.task.body))
        for batch in result.batches:
            if not isinstance(batch, RejectedBatch):
                self._meter.count("derived_batches", type="singular" if isinstance(batch, SingularBatch) else "span")
        self._log.debug("channel decoded", bytes=len(need.task.body), batches=len(result.batches))

    def reset_needed(self, reason: str) -> None:
        """The deriver cannot go on without a reset."""
        last, times = self._last_reset
        self._last_reset = reason, times + 1 if reason == last else 1

    def idle(self, idle: bool) -> None:
        """Whether all L1 blocks up to the head are exhausted."""
        self._meter.set("derivation_idle", int(idle))
        if idle:
            self._last_reset = (None, 0)

    def problems(self, need: object, reset: str | None, stalled_by: Reason | None, now: float) -> list[str]:
        """The health problems, one line each. `need` is an unmet need of the deriver, `reset` the reason of a reset
        that has not come, `stalled_by` that of an undecided batch [H1]; `now` in seconds of any steady clock."""
        found: list[str] = []
        if need != self._need[0]:
            self._need = need, now
        elif need is not None and now - self._need[1] > LONG_WAIT and (what := _description(need)) is not None:
            found.append(f"derivation has waited {now - self._need[1]:.0f} s for {what}")
        if reset is not None:
            found.append(f"derivation waits for a reset: {reset}")
        if self._last_reset[1] >= SAME_RESETS:
            found.append(f"{self._last_reset[1]} resets for the same reason: {self._last_reset[0]}")
        number = self._origin.number if self._origin else 0
        if stalled_by != self._stall[0]:
            self._stall = stalled_by, number
        elif stalled_by is not None and number - self._stall[1] > STALLED_BLOCKS:
            found.append(f"a batch has held up the queue for {number - self._stall[1]} L1 blocks: {stalled_by}")
        return found


def _message(dropped: Dropped) -> Drop:
    reason = dropped.reason
    return Drop(
        rule=reason.rule,
        text=str(dropped),
        origin=dropped.origin,
        needs_parent_hash=isinstance(reason, ParentHashMismatch | SpanParentMismatch),
        effect=dropped.effect,
        reason=reason.name,
        values=reason.values,
    )


def _description(need: object) -> str | None:
    match need:
        case NeedL1Block(number=number):
            return f"L1 block {number}"
        case NeedBlobs(block=block, blobs=blobs):
            return f"{len(blobs)} blobs of L1 block {block}"
        case NeedL2Blocks(first=first, last=last):
            return f"L2 blocks {first} to {last}"
        case NeedDecoded():
            return "a channel to be decoded"
    return None
