"""A node as a program whose processes tests attack, one attack after another."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.support.processes.attacked_stage import MAX_LOG_BYTES_AN_HOUR
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.process_memory import peak_memory, reset_peak_memory
from tests.support.processes.programs import Program, call, http_get, process_entries
from tests.support.timing.slowness import within
from tests.support.timing.stopwatch import Stopwatch

T = TypeVar("T")
HEALTH_SECONDS = 1.0
STATUS_SECONDS = 2.0
"""The longest waits that docs/security.md allows."""


class HonestClient:
    """Asks over new connections.

    `health` and `status` are the longest times that it has waited, in seconds; what does not count is the time for
    which other programs on a busy machine kept the server, or the client itself, from running."""

    def __init__(self, port: int, server: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._server = server
        self.health = self.status = 0.0

    def ask(self) -> dict[str, Any]:
        """Asks for health and for the sync status, which is returned."""
        (code, _), seconds = self._timed(lambda: http_get(f"{self._url}/healthz", 20))
        assert code == 200
        self.health = max(self.health, seconds)
        status: dict[str, Any]
        status, seconds = self._timed(lambda: call(self._url, "optimism_syncStatus", seconds=20))
        self.status = max(self.status, seconds)
        return status

    def _timed(self, action: Callable[[], T]) -> tuple[T, float]:
        stopwatch = Stopwatch(self._server, os.getpid())
        return action(), stopwatch.seconds


class AttackedNode(Program):
    """A node with an rpc process, whose runtime directory is `runtime`."""

    def __init__(self, leftovers: Leftovers, module: str, runtime: Path, *words: str) -> None:
        self._runtime = runtime
        super().__init__(leftovers, module, *words)
        self.wait_for_line(" processes are ready")

    def entry(self, role: str) -> dict[str, Any]:
        """Return the entry of a process in processes.json."""
        return process_entries(self._runtime)[role]

    @contextmanager
    def within_bounds(self, attack: str, memory: Mapping[str, int]) -> Iterator[HonestClient]:
        """Yield an honest client; after the attack all is within the bounds of docs/security.md.

        Its answers came in time, none of the processes in `memory` was restarted, and each stayed below so many
        bytes."""
        before, logged = {role: self.entry(role) for role in memory}, len(self.out)
        for entry in before.values():
            reset_peak_memory(entry["pid"])
        honest = HonestClient(self.port(), self.entry("rpc")["pid"])
        yield honest
        written = len(self.out) - logged
        assert {role: self.entry(role) for role in memory} == before, f"{attack}: a restart\n{self.out[-3000:]}"
        peaks = {role: peak_memory(entry["pid"]) for role, entry in before.items()}
        figures = (
            f"{attack}: peaks { ({role: peak >> 20 for role, peak in peaks.items()}) } MiB, {written} bytes of log,"
            f" healthz {honest.health:.2f} s, syncStatus {honest.status:.2f} s"
        )
        print(figures)
        assert all(peaks[role] < bound for role, bound in memory.items()), figures
        # Warnings are limited per minute, and those of a minute may all fall into these seconds.
        assert written < MAX_LOG_BYTES_AN_HOUR / 60, f"{figures}\n{self.out[-2000:]}"
        assert within(honest.health, HEALTH_SECONDS), figures
        assert within(honest.status, STATUS_SECONDS), figures
