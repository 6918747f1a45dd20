"""What the status of the node shows that no single process sees: old heads, a silent process, a sync without an end."""

import time
from collections.abc import Callable, Iterator

from rollup_node.stages.io.lasting_conditions import LastingCondition
from rollup_node.stages.io.log import Logger
from rollup_node.stages.messages.codes import Code, code_in
from rollup_node.stages.rpc.status import NodeStatus, State

SLOW_SECONDS = 60.0
"""A sync is slow when it has been slower than the chain for so long: batches come in bursts."""

WATCHED = (Code.BEHIND, Code.HEAD_OLD, Code.PROCESS_SILENT)
_SYNCING = (State.STARTING, State.EL_SYNC, State.SYNCING)


class StatusWatch:
    """Logs the conditions of one status after the other. `clock` returns seconds of any monotonic clock."""

    def __init__(self, log: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._conditions = {code: LastingCondition(log, clock, counts=False) for code in (*WATCHED, Code.SYNC_SLOW)}
        self._slow_since: float | None = None

    def step(self, status: NodeStatus) -> None:
        """Takes a status."""
        present = dict(self._present(status))
        for code, condition in self._conditions.items():
            if code in present:
                condition.report(code, *present[code][:1], **present[code][1])
            else:
                condition.end("the node is in order again" if code is not Code.SYNC_SLOW else "the sync gets on")

    def _present(self, status: NodeStatus) -> Iterator[tuple[Code, tuple[str, dict[str, object]]]]:
        """The codes with message and fields. While the node syncs, its lag is no news."""
        for reason in reversed(status.reasons):
            code = code_in(reason)
            if code in WATCHED and not (code is not Code.PROCESS_SILENT and status.state in _SYNCING):
                yield code, ("the node is not ready", {"reason": reason.replace(code.before(""), "")})
        if self._is_slow(status):
            progress, chain = status.progress, status.chain
            fields = {"speed": progress.blocks_per_s, "chain_speed": round(1 / chain.block_time_s, 2)}
            yield (
                Code.SYNC_SLOW,
                ("the sync is slower than the chain grows", fields | {"limited_by": progress.limited_by}),
            )

    def _is_slow(self, status: NodeStatus) -> bool:
        """Whether the sync has been slower than the chain for long."""
        speed = status.progress.blocks_per_s
        if status.state is not State.SYNCING or speed is None or speed * status.chain.block_time_s > 1:
            self._slow_since = None
            return False
        if self._slow_since is None:
            self._slow_since = self._clock()
        return self._clock() - self._slow_since >= SLOW_SECONDS
