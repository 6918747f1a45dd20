"""The metrics that only the supervisor knows: which processes run, for how long, and what they use [MET5]."""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.node.supervisor.supervised_process import SupervisedProcess
from rollup_node.node.system.metrics_file import WRITE_SECONDS, MetricsFile, metrics_path
from rollup_node.node.system.procfs import ProcessStat, read_proportional_memory, read_stat
from rollup_node.node.system.resources import read_memory
from rollup_node.stages.io.metrics.meter import Meter

SUPERVISOR = "supervisor"
STATUS_SECONDS = 5.0
"""Between two files that only the status of the node is made of."""
MEMORY_SECONDS = 30.0
"""The kernel walks over all pages of a process for its proportional memory."""


class SupervisorMetrics:
    """The metrics of all processes, written to the supervisor's own file every `period` seconds or more often."""

    def __init__(
        self,
        version: str,
        folder: Path,
        liveness: LivenessTable,
        period: float = WRITE_SECONDS,
        chains: Sequence[str] = (),
    ) -> None:
        self._period = min(period, STATUS_SECONDS)
        self._folder, self._liveness = folder, liveness
        self._meter = Meter(SUPERVISOR)
        self._meter.expose(SUPERVISOR)
        self._file = MetricsFile(folder, SUPERVISOR, self._meter, lambda: None)
        self._cpu: dict[tuple[int, int], float] = {}
        self._due = self._memory_due = 0.0
        self._reads_memory = True
        self._meter.set("info", 1, version=version)
        for chain in chains:
            self._meter.set("chain", 1, chain=chain)

    def node_is_up(self) -> None:
        """Every process has been ready."""
        self._due = 0.0
        self._meter.set("up", 1)

    def restarted(self, process: SupervisedProcess) -> None:
        """Count a process that was started again."""
        self._due = 0.0
        self._meter.count("process_restarts_total", process=process.name)

    def died(self, process: SupervisedProcess) -> None:
        """Drop the values of a process that has exited."""
        self._due = 0.0
        self._meter.set("process_up", 0, process=process.name)
        with contextlib.suppress(OSError):
            metrics_path(self._folder, process.name).unlink()

    def write(self, processes: Sequence[SupervisedProcess], now: float) -> None:
        """Update all values and write the file, once a period and after each change. `now` is monotonic time."""
        if now < self._due:
            return
        self._due = now + self._period
        self._reads_memory = now >= self._memory_due
        if self._reads_memory:
            self._memory_due = now + MEMORY_SECONDS
            if (memory := read_memory()) is not None:
                self._meter.set("memory_limit_bytes", memory.total)
                self._meter.set("memory_available_bytes", memory.available)
        self._set_resources(SUPERVISOR, os.getpid())
        for process in processes:
            self._set_process(process)
        self._file.write()

    def _set_process(self, process: SupervisedProcess) -> None:
        up = process.child is not None and self._liveness.ready(process.slot)
        self._meter.set("process_up", int(up), process=process.name)
        self._meter.count("process_restarts_total", 0, process=process.name)
        self._meter.set("process_incarnation", process.incarnation, process=process.name)
        if process.child is not None:
            beat = self._liveness.last_beat_ns(process.slot)
            age = (time.monotonic_ns() - beat) / 1e9 if beat else time.monotonic() - process.started
            self._meter.set("process_heartbeat_age_seconds", age, process=process.name)
            self._set_resources(process.name, process.child.pid)

    def _set_resources(self, name: str, pid: int) -> None:
        stat = read_stat(pid)
        if stat is not None:
            self._meter.set("process_resident_memory_bytes", stat.resident, process=name)
            self._count_cpu(name, pid, stat)
        if self._reads_memory and (memory := read_proportional_memory(pid)) is not None:
            self._meter.set("process_proportional_memory_bytes", memory, process=name)

    def _count_cpu(self, name: str, pid: int, stat: ProcessStat) -> None:
        incarnation = (pid, stat.start_ticks)
        used = max(0.0, stat.cpu - self._cpu.get(incarnation, 0.0))
        self._meter.count("process_cpu_seconds_total", used, process=name)
        self._cpu[incarnation] = stat.cpu
