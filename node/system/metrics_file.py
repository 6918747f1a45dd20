"""The metrics of a process as a text file in the runtime directory, replaced by rename; rpc merges the files."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from rollup_node.ipc.bus.timers import sleep_aligned
from rollup_node.stages.io.files.private_files import replace_private_file
from rollup_node.stages.io.metrics.meter import Meter

WRITE_SECONDS = 2.0
"""Between two files while the metrics are served."""
REWRITE_SECONDS = 60.0
"""After which a file is written though nothing has changed or nobody reads it: nobody removes it as an old one, and it
names a process that can be profiled."""
SUFFIX = ".prom"


def metrics_path(folder: Path, process: str) -> Path:
    return folder / f"{process}{SUFFIX}"


class MetricsFile:
    """The file of one process, written every `period` seconds. `collect` updates the meter before each write."""

    def __init__(
        self, folder: Path, process: str, meter: Meter, collect: Callable[[], None], period: float = WRITE_SECONDS
    ) -> None:
        self._period = period
        self._path, self._meter, self._collect = metrics_path(folder, process), meter, collect
        self._written, self._written_at = b"", -REWRITE_SECONDS

    def write(self) -> None:
        """Replace the file if anything has changed; a folder that is gone is ignored, as the node may be stopping."""
        self._collect()
        text, now = self._meter.text(), time.monotonic()
        if text == self._written and now - self._written_at < REWRITE_SECONDS:
            return
        with contextlib.suppress(OSError):
            replace_private_file(self._path, text)
            self._written, self._written_at = text, now

    async def repeat(self) -> None:
        """Write at once and then in each period, until it is cancelled."""
        while True:
            self.write()
            await sleep_aligned(self._period)
