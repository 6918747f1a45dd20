"""A network for the lanes of a soak: its processes are numbers, its safe heads grow by one a second."""

import asyncio
import signal
from itertools import count

from rollup_node.tools.devnet.soak.lanes import ROLES, Process

RESTART_SECONDS = 0.5
WATCHDOG_SECONDS = 5.0


class SoakNetwork:
    """Replaces killed processes after RESTART_SECONDS, stopped ones after WATCHDOG_SECONDS.

    The safe heads of `stuck` nodes stand still, and the processes of those in `broken` are not replaced. `calls`
    says what was done."""

    def __init__(self, *nodes: str) -> None:
        self.nodes = nodes
        self.calls: list[str] = []
        self.stuck: set[str] = set()
        self.broken: set[str] = set()
        self.end_problem = ""
        self._pids = count(100)
        self._processes = {node: self._fresh() for node in nodes}
        self._began: float | None = None
        self._hung: asyncio.TimerHandle | None = None

    def _fresh(self) -> dict[str, Process]:
        return {role: Process(next(self._pids), 1) for role in ROLES}

    def processes(self, node: str) -> dict[str, Process]:
        return dict(self._processes[node])

    def safe(self, node: str) -> int | None:
        now = asyncio.get_running_loop().time()
        self._began = now if self._began is None else self._began
        if not self._processes[node]:
            return None
        return 5 if node in self.stuck else 5 + int(now - self._began)

    def replace(self, node: str, role: str) -> None:
        """Another process takes the place of one."""
        if self._processes[node] and node not in self.broken:
            self._processes[node][role] = Process(next(self._pids), 1)

    def send(self, process: Process, number: signal.Signals) -> None:
        owners = [
            (node, role) for node in self.nodes for role, item in self._processes[node].items() if item == process
        ]
        node, role = owners[0] if owners else ("", "")
        self.calls.append(f"{number.name} {node} {role}".strip())
        loop = asyncio.get_running_loop()
        if number is signal.SIGKILL:
            loop.call_later(RESTART_SECONDS, self.replace, node, role)
        elif number is signal.SIGSTOP:
            self._hung = loop.call_later(WATCHDOG_SECONDS, self.replace, node, role)
        elif self._hung is not None:
            self._hung.cancel()

    async def end(self, node: str, number: signal.Signals) -> str:
        self.calls.append(f"end {node} {number.name}")
        self._processes[node] = {}
        return self.end_problem

    def start(self, node: str) -> None:
        self.calls.append(f"start {node}")
        self._processes[node] = self._fresh()

    async def set_fault(self, node: str, name: str) -> None:
        self.calls.append(f"fault {node} {name}".strip())

    async def restart_engine(self, node: str, seconds: float, lost: int | None) -> None:
        self.calls.append(f"engine {node} {seconds:g} {lost}")
        await asyncio.sleep(seconds)

    def erase(self, node: str) -> None:
        self.calls.append(f"erase {node}")

    async def reorg(self, depth: int) -> None:
        self.calls.append(f"reorg {depth}")
