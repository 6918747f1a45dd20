"""The supervisor's own metrics: who lives, for how long, and at what cost."""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.node.supervisor.supervised_process import Member
from rollup_node.node.system.metrics_file import WRITE_SECONDS, MetricFile, metrics_path
from rollup_node.node.system.procfs import ProcessStat, read_stat
from rollup_node.stages.io.metrics import Meter

NAME = "supervisor"


class Accounts:
    """Keeps and writes the metrics of all processes that only the supervisor knows."""

    def __init__(self, version: str, folder: Path, board: LivenessTable) -> None:
        self._folder, self._board = folder, board
        self._meter = Meter(NAME)
        self._file = MetricFile(folder, NAME, self._meter, lambda: None)
        self._cpu: dict[tuple[int, int], float] = {}
        self._due = 0.0
        self._meter.set("info", 1, version=version)
        self._meter.set("up", 0)

    def node_is_up(self) -> None:
        """Every process has been ready."""
        self._meter.set("up", 1)

    def restarted(self, member: Member) -> None:
        """A process begins another life."""
        self._meter.count("process_restarts_total", process=member.name)

    def forget(self, member: Member) -> None:
        """A process has died: what it said last is not true any more."""
        self._meter.set("process_up", 0, process=member.name)
        with contextlib.suppress(OSError):
            metrics_path(self._folder, member.name).unlink()

    def write(self, members: Sequence[Member], now: float) -> None:
        """Brings everything up to date, every 2 seconds."""
        if now < self._due:
            return
        self._due = now + WRITE_SECONDS
        self._resources(NAME, os.getpid())
        for member in members:
            self._member(member)
        self._file.write()

    def _member(self, member: Member) -> None:
        up = member.child is not None and self._board.ready(member.index)
        self._meter.set("process_up", int(up), process=member.name)
        self._meter.set("process_incarnation", member.incarnation, process=member.name)
        if member.child is not None:
            beat = self._board.last_beat_ns(member.index)
            age = (time.monotonic_ns() - beat) / 1e9 if beat else time.monotonic() - member.started
            self._meter.set("process_heartbeat_age_seconds", age, process=member.name)
            self._resources(member.name, member.child.pid)

    def _resources(self, name: str, pid: int) -> None:
        stat = read_stat(pid)
        if stat is not None:
            self._meter.set("process_resident_memory_bytes", stat.resident, process=name)
            self._count_cpu(name, pid, stat)

    def _count_cpu(self, name: str, pid: int, stat: ProcessStat) -> None:
        life = (pid, stat.start_ticks)
        self._meter.count("process_cpu_seconds_total", max(0.0, stat.cpu - self._cpu.get(life, 0.0)), process=name)
        self._cpu[life] = stat.cpu
