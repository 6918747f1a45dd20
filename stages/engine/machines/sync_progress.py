"""How far the execution engine's own sync is: blocks to go, blocks a second and the time left, from what the engine
says every ten seconds [ELS13]."""

from collections import deque

import msgspec

from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import EL_SYNC
from rollup_node.stages.protocol.texts import duration

POLL_SECONDS = 10.0
SAMPLES = 31
STALL_SECONDS = 300.0
MAX_ETA = 10 * 365 * 86_400


class SyncEstimate(msgspec.Struct, frozen=True):
    """The engine's block and those left; `rate` in blocks a second, `eta` in seconds and None without a rate; `stalled`
    are the seconds since the block last changed."""

    current: int
    to_go: int
    rate: float
    eta: float | None
    stalled: float

    @property
    def is_stalled(self) -> bool:
        """Whether there has been no new block for long."""
        return self.stalled >= STALL_SECONDS

    @property
    def problem(self) -> Problem:
        """How far the sync is, for operators."""
        if self.is_stalled:
            text = (
                f"{self.to_go} blocks to go, no new block for {duration(self.stalled)}; check that the execution"
                " engine has peers, or start with --syncmode=consensus-layer"
            )
            return Problem(Code.EL_SYNC_STALLED, EL_SYNC, text)
        left = "" if self.eta is None else f", about {duration(self.eta)} left"
        text = f"block {self.current}, {self.to_go} blocks to go, {self.rate:.1f} blocks/s{left}"
        return Problem(None, EL_SYNC, text)


class SyncProgress:
    """The samples of the last five minutes; times in monotonic seconds."""

    def __init__(self) -> None:
        self.due_at = 0.0
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES)
        self._moved_at = 0.0

    def clear(self) -> None:
        """Another sync begins."""
        self._samples.clear()
        self.due_at = 0.0

    def add(self, current: int, target: int, monotonic: float) -> SyncEstimate:
        """Takes the engine's block; `target` is the highest block known."""
        if not self._samples or self._samples[-1][1] != current:
            self._moved_at = monotonic
        if self._samples and current < self._samples[-1][1]:
            self._samples.clear()  # an engine that starts over, or another stage of its sync
        self._samples.append((monotonic, current))
        (since, first), to_go = self._samples[0], max(0, target - current)
        rate = (current - first) / (monotonic - since) if monotonic > since else 0.0
        eta = min(to_go / rate, MAX_ETA) if rate > 0 else None
        return SyncEstimate(current, to_go, rate, eta, monotonic - self._moved_at)
