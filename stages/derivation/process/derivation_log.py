"""What derivation tells about itself: log lines and metrics of what happened, and the problems it is in."""

from collections import deque
from typing import Protocol

from rollup_node.stages.derivation.codec.batches import RefusedBatch, SingularBatch
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedDecoded, NeedL1Block, NeedL2Blocks
from rollup_node.stages.derivation.process.drop_buffer import DropHistory
from rollup_node.stages.derivation.reasons.reasons import Dropped, Effect, Reason, Why
from rollup_node.stages.derivation.tasks import DecodedChannel
from rollup_node.stages.messages.derivation import Drop, Drops
from rollup_node.stages.protocol.types import L1BlockRef

LONG_WAIT = 15.0
STALLED_BLOCKS = 50
KEPT_DROPS = 32
SAME_RESETS = 3
_LOUD = frozenset((Effect.DROPPED, Effect.FLUSHED, Effect.ENDED, Effect.LOST, Effect.TIMED_OUT, Effect.RESET))

_EXPECTED = frozenset((Why.TIME_OLD, Why.SPAN_OLD))
"""What is read again after every start."""


class Counting(Protocol):
    """The meter."""

    def count(self, name: str, amount: float = 1, **labels: object) -> None: ...

    def set(self, name: str, value: float, **labels: object) -> None: ...


class Logging(Protocol):
    """The logger."""

    def trace(self, message: str, /, **fields: object) -> None: ...

    def debug(self, message: str, /, **fields: object) -> None: ...

    def warn(self, message: str, /, **fields: object) -> None: ...


class Journal:
    """Every drop is a log line and a count by its rule; a wait, a stall or a reset that comes back is a problem."""

    def __init__(self, meter: Counting, log: Logging) -> None:
        self._meter = meter
        self._log = log
        self._origin: L1BlockRef | None = None
        self._channel: bytes | None = None
        self._wait: tuple[object, float] = (None, 0.0)
        self._stall: tuple[Reason | None, int] = (None, 0)
        self._last_reset: tuple[str | None, int] = (None, 0)
        self.history = DropHistory()
        self._latest: deque[Drop] = deque(maxlen=KEPT_DROPS)

    @property
    def drops(self) -> Drops:
        """What was dropped, for those who ask why."""
        return Drops(self.history.total, tuple(self._latest))

    def begin(self) -> None:
        """Derivation begins anew: what was dropped before explains nothing any more."""
        self._latest.clear()

    def dropped(self, dropped: Dropped) -> None:
        """Something went no further."""
        drop = _told(dropped)
        self.history.add(drop)
        self._latest.append(drop)
        self._meter.count("derivation_drops_total", effect=dropped.effect.name.lower(), rule=dropped.label)
        if dropped.effect is Effect.TIMED_OUT:
            self._meter.count("channel_timeout")
        is_loud = dropped.effect in _LOUD and dropped.reason.why not in _EXPECTED
        say = self._log.warn if is_loud else self._log.debug
        say(str(dropped), at=dropped.origin, **dropped.reason.values)

    def at_block(self, block: L1BlockRef) -> None:
        """An L1 block is being read."""
        self._origin = block
        self._meter.set("refs_number", block.number, layer="l1", type="l1_derived")
        self._meter.set("refs_time", block.timestamp, layer="l1", type="l1_derived")
        self._log.trace("reading L1 block", block=block)

    def channel_read(self, need: NeedDecoded, result: DecodedChannel) -> None:
        """A channel, or a part of it, is read."""
        if not need.task.first:
            self._meter.count("head_channel")
            self._meter.count("channel_input_bytes", len(need.task.body))
        for batch in result.batches:
            if not isinstance(batch, RefusedBatch):
                self._meter.count("derived_batches", type="singular" if isinstance(batch, SingularBatch) else "span")
        self._log.debug("channel decoded", bytes=len(need.task.body), batches=len(result.batches))

    def reset_wanted(self, reason: str) -> None:
        """The deriver cannot go on."""
        last, times = self._last_reset
        self._last_reset = reason, times + 1 if reason == last else 1

    def idle(self, idle: bool) -> None:
        """Whether there is nothing to read."""
        self._meter.set("derivation_idle", int(idle))
        if idle:
            self._last_reset = (None, 0)

    def problems(self, waits: object, reset: str | None, stalled: Reason | None, now: float) -> list[str]:
        """What is wrong now. `waits` is the need that is not met, None if all is well; `stalled` why the batch queue
        does not go on; `now` in seconds of any steady clock."""
        found: list[str] = []
        if waits != self._wait[0]:
            self._wait = waits, now
        elif waits is not None and now - self._wait[1] > LONG_WAIT and (what := _described(waits)) is not None:
            found.append(f"derivation has waited {now - self._wait[1]:.0f} s for {what}")
        if reset is not None:
            found.append(f"derivation waits for a new start: {reset}")
        if self._last_reset[1] >= SAME_RESETS:
            found.append(f"the same reset came {self._last_reset[1]} times: {self._last_reset[0]}")
        number = self._origin.number if self._origin else 0
        if stalled != self._stall[0]:
            self._stall = stalled, number
        elif stalled is not None and number - self._stall[1] > STALLED_BLOCKS:
            found.append(f"a batch has held up the queue for {number - self._stall[1]} L1 blocks: {stalled}")
        return found


def _told(dropped: Dropped) -> Drop:
    reason = dropped.reason
    return Drop(
        rule=reason.rule.id,
        text=str(dropped),
        origin=dropped.origin,
        needs_parent_hash=reason.rule in (Why.PARENT_HASH.value, Why.SPAN_PARENT.value),
        effect=dropped.effect.name.lower(),
        reason=reason.name.lower(),
        values=reason.values,
    )


def _described(need: object) -> str | None:
    match need:
        case NeedL1Block(number=number):
            return f"L1 block {number}"
        case NeedBlobs(block=block, blobs=blobs):
            return f"{len(blobs)} blobs of L1 block {block}"
        case NeedL2Blocks(first=first, last=last):
            return f"the L2 blocks {first} to {last}"
        case NeedDecoded():
            return "a channel to be decoded"
    return None
