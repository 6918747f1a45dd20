"""Writes the progress of the node to the log [LOG7]."""

from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.rpc.process.status_source import StatusSource
from rollup_node.stages.rpc.process.status_watch import StatusWatch
from rollup_node.stages.rpc.status.progress import Progress

STEP_SECONDS = 1.0

log = get_logger("progress")


class ProgressLog:
    """Looks at the status each second, and writes the lines that are due, and what is wrong with it."""

    def __init__(self, source: StatusSource) -> None:
        self._source = source
        self._progress = Progress()
        self._watch = StatusWatch(log, source.clock)
        self.periodic_task = PeriodicTask("progress", self.step, is_aligned=True)

    async def step(self) -> float:
        """Write the line that is due, if any."""
        status = self._source.status()
        self._watch.step(status, self._source.reasons())
        line = self._progress.step(status, self._source.clock())
        if line is not None:
            log.info(line.message, **line.fields)
        return STEP_SECONDS
