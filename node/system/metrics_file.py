"""Each process's metrics as a text file in the runtime directory, replaced by rename; rpc merges them at scrape."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from rollup_node.node.system.runtime_dir import replace_file
from rollup_node.stages.io.metrics import Meter

WRITE_SECONDS = 2.0
SUFFIX = ".prom"


def metrics_path(folder: Path, process: str) -> Path:
    """Where a process's text stands."""
    return folder / f"{process}{SUFFIX}"


class MetricFile:
    """The file of one process. `collect` brings the meter up to date before each writing."""

    def __init__(self, folder: Path, process: str, meter: Meter, collect: Callable[[], None]) -> None:
        self._path, self._meter, self._collect = metrics_path(folder, process), meter, collect

    def write(self) -> None:
        """Writes the present text; a folder that is being removed is no error."""
        self._collect()
        with contextlib.suppress(OSError):
            replace_file(self._path, self._meter.text())

    async def repeat(self) -> None:
        """Writes every 2 seconds."""
        while True:
            self.write()
            await asyncio.sleep(WRITE_SECONDS)
