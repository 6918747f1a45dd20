"""A node as a program whose processes tests attack, one attack after another."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.processes.attacked_stage import MAX_LOG_BYTES_AN_HOUR
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.process_memory import peak_memory, reset_peak_memory
from tests.support.processes.programs import Program, process_entries
from tests.support.rpc.honest_client import HEALTH_SECONDS, STATUS_SECONDS, HonestClient

ROOT = Path(__file__).parents[3]


class AttackedNode(Program):
    """A node with an rpc process, whose runtime directory is `runtime`."""

    def __init__(self, leftovers: Leftovers, module: str, runtime: Path, *words: str) -> None:
        self._runtime = runtime
        super().__init__(leftovers, module, *words, PYTHONPATH=str(ROOT))
        self.wait_for_line(" processes are ready")

    def port(self, server: str = "rpc") -> int:
        """Return the port that a server listens on."""
        return int(self.wait_for_line(f"{server} server is listening").rpartition("port=")[2])

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
        assert honest.health < HEALTH_SECONDS, figures
        assert honest.status < STATUS_SECONDS, figures
