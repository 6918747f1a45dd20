"""The ages of the heads over the last hour, for the chart of the status page [RPC95]."""

from collections import deque
from typing import NamedTuple

import msgspec

from rollup_node.stages.rpc.status.node_status import BlockStatus, NodeStatus

STEP_SECONDS = 10.0
KEPT_SECONDS = 3600.0


class HistoryColumns(msgspec.Struct, frozen=True):
    """The samples in columns of one length, oldest first: `time` in Unix seconds, and how old each head was then, in
    seconds; None for a head that was not known. `step_s` is the time between two samples."""

    step_s: float
    time: list[int]
    l1_head: list[float | None]
    unsafe: list[float | None]
    safe: list[float | None]
    finalized: list[float | None]


class _Sample(NamedTuple):
    time: int
    l1_head: float | None
    unsafe: float | None
    safe: float | None
    finalized: float | None


class HeadHistory:
    """One sample every STEP_SECONDS for KEPT_SECONDS; all times are those of the statuses."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=int(KEPT_SECONDS / STEP_SECONDS))

    def add(self, status: NodeStatus) -> None:
        """Take a status, unless the last sample is younger than STEP_SECONDS.

        A clock that was set back begins a new history."""
        time = int(status.time)
        if self._samples and time < self._samples[-1].time:
            self._samples.clear()
        if self._samples and time - self._samples[-1].time < STEP_SECONDS:
            return
        heads = status.heads
        ages = _age(status.l1.head), _age(heads.unsafe), _age(heads.safe), _age(heads.finalized)
        self._samples.append(_Sample(time, *ages))

    def columns(self) -> HistoryColumns:
        """Return the samples of the last hour."""
        columns = [list(column) for column in zip(*self._samples, strict=True)] or [[] for _ in _Sample._fields]
        return HistoryColumns(STEP_SECONDS, *columns)


def _age(block: BlockStatus | None) -> float | None:
    return None if block is None else block.age_s
