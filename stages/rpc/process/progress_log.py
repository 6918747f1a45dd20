"""Writes the progress of the node to the log [LOG7]."""

import time
from collections.abc import Callable

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.rpc.process.node_view import NodeView
from rollup_node.stages.rpc.progress import Progress, Snapshot

STEP_SECONDS = 1.0

log = get_logger("progress")


class ProgressLog:
    """Looks at the statuses each second, and writes the lines that are due."""

    def __init__(
        self, node: NodeView, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._node, self._clock, self._wall = node, clock, wall
        self._progress = Progress(node.config.rollup, node.config.derives)
        self.periodic_task = PeriodicTask("progress", self.step)

    async def step(self) -> float:
        """Writes the line that is due, if any."""
        node = self._node
        peers = None if node.peer_status is None else node.peer_status.connected
        seen = Snapshot(node.l1, node.engine, node.derivation, peers, node.drops_total, node.not_ready_reasons())
        line = self._progress.step(seen, self._clock(), self._wall())
        if line is not None:
            log.info(line.message, **line.fields)
        return STEP_SECONDS
