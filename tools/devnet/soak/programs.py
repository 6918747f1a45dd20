"""The programs of a local network as the lanes of a soak use them."""

import asyncio
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rollup_node.node.supervisor.child_processes import exit_text
from rollup_node.node.system.procfs import read_stat
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.tools.devnet.engine.backend import drop_last_blocks
from rollup_node.tools.devnet.network import NetworkPrograms
from rollup_node.tools.devnet.settings import SEQUENCER
from rollup_node.tools.devnet.soak.lanes import Process
from rollup_node.tools.faults.proxy import FaultProxy
from rollup_node.tools.faults.scenario import Action, FaultPlan, Role, Scenario

END_SECONDS = 30.0
POLL_SECONDS = 0.1
CALL_SECONDS = 5.0
HEADS_SECONDS = 0.5
FLAGS = {Role.L1: "l1", Role.BEACON: "l1.beacon", Role.ENGINE: "l2"}
"""The option of a node for each endpoint that is behind a fault proxy."""

TRANSPORT = frozenset(
    {
        Action.DELAY,
        Action.HANG,
        Action.RESET,
        Action.STATUS,
        Action.HTML,
        Action.GARBAGE,
        Action.TRUNCATE,
        Action.CUT_JSON,
    }
)
"""The faults that the sequencer meets too: with wrong answers of its endpoints it would build another chain."""


def usable_faults(scenarios: Sequence[Scenario]) -> tuple[Scenario, ...]:
    """Return the scenarios that consist of faults of L1, Beacon API and engine alone, after which no process ends."""
    return tuple(
        scenario
        for scenario in scenarios
        if scenario.faults
        and not scenario.events
        and not scenario.dies
        and all(fault.on in FLAGS for fault in scenario.faults)
    )


def faults_of(node: str, scenarios: Sequence[Scenario]) -> list[str]:
    """Return the names of the scenarios for a node."""
    return [
        scenario.name
        for scenario in scenarios
        if node != SEQUENCER or all(fault.do in TRANSPORT for fault in scenario.faults)
    ]


class SoakPrograms:
    """The programs of a network whose nodes are each behind fault proxies. `heads` are the last known safe heads."""

    def __init__(self, network: NetworkPrograms, scenarios: Sequence[Scenario], seed: int) -> None:
        self._network = network
        self._scenarios: Mapping[str, Scenario] = {scenario.name: scenario for scenario in scenarios}
        self._chance = random.Random(f"{seed}:faults")
        self._proxies: dict[str, list[FaultProxy]] = {}
        self._clients: dict[str, JsonRpcClient] = {}
        self.nodes = tuple(network.nodes)
        self.heads: dict[str, int | None] = dict.fromkeys(self.nodes)

    async def start_proxies(self) -> None:
        """Put a proxy before each endpoint of each node, which does not run yet."""
        for node in self.nodes:
            engine = self._network.engines[node][1]
            upstreams = {Role.L1: self._network.l1, Role.BEACON: self._network.beacon, Role.ENGINE: engine}
            self._proxies[node] = []
            for role, upstream in upstreams.items():
                proxy = FaultProxy(role, upstream)
                self._proxies[node].append(proxy)
                await proxy.start()
                self._network.proxies.setdefault(node, {})[FLAGS[role]] = proxy.url

    async def close(self) -> None:
        """Close proxies and connections."""
        for client in self._clients.values():
            await client.close()
        for proxies in self._proxies.values():
            for proxy in proxies:
                await proxy.stop()

    async def follow_heads(self) -> None:
        """Read the safe heads of all nodes until it is cancelled."""
        while True:
            await asyncio.gather(*(self._read_head(node) for node in self.nodes))
            await asyncio.sleep(HEADS_SECONDS)

    async def _read_head(self, node: str) -> None:
        self.heads[node] = None if (head := await self._safe_head(node)) is None else head

    async def _safe_head(self, node: str) -> int | None:
        with suppress(EndpointError, RpcFailure, KeyError, TypeError, ValueError):
            status = await self._client(self._network.nodes[node]).call("optimism_syncStatus")
            # A node without a head yet answers with a zero hash.
            return int(status["safe_l2"]["number"]) if int(status["unsafe_l2"]["hash"], 16) else None
        return None

    def _client(self, url: str) -> JsonRpcClient:
        return self._clients.setdefault(url, JsonRpcClient(url, timeout=CALL_SECONDS))

    # --- as the lanes use it ---------------------------------------------------------------------------------------

    def processes(self, node: str) -> dict[str, Process]:
        """Return the processes of a node by role; of a node that is starting some or none."""
        with suppress(OSError, ValueError):
            entries = json.loads((self._network.files.node(node) / "processes.json").read_text())
            return {entry["role"]: Process(entry["pid"], entry["start_ticks"]) for entry in entries}
        return {}

    def safe(self, node: str) -> int | None:
        """Return the last known safe head of a node; None if it does not answer."""
        return self.heads[node]

    def send(self, process: Process, number: signal.Signals) -> None:
        """Send a signal to a process if it still runs."""
        stat = read_stat(process.pid)
        if stat is not None and stat.start_ticks == process.ticks:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)

    async def end(self, node: str, number: signal.Signals) -> str:
        """End a node by a signal to its supervisor; what was wrong with its end."""
        program = self._network.children.suspend(f"{node} node", number)
        self.heads[node] = None
        deadline = time.monotonic() + END_SECONDS
        while (code := program.poll()) is None:
            if time.monotonic() > deadline:
                program.kill()
                program.wait()
                return f"the node did not end within {END_SECONDS:.0f} s"
            await asyncio.sleep(POLL_SECONDS)
        return "" if number is signal.SIGKILL or code == 0 else f"the node ended with {exit_text(code)}"

    def start(self, node: str) -> None:
        """Start a node that was ended."""
        self._network.children.resume(f"{node} node")

    async def set_fault(self, node: str, name: str) -> None:
        """Let the faults of a scenario hold; none with an empty name."""
        plan = FaultPlan(self._scenarios[name].faults, self._chance) if name else None
        for proxy in self._proxies[node]:
            await proxy.set_plan(plan)

    async def restart_engine(self, node: str, seconds: float, lost: int | None) -> None:
        """Kill the engine of a node, and start it after `seconds` without its last `lost` blocks; None for all."""
        name, folder = f"{node} engine", self._network.engine_data(node)
        self._network.children.suspend(name, signal.SIGKILL).wait()
        try:
            if lost is None:
                shutil.rmtree(folder, ignore_errors=True)
            elif lost:
                drop_last_blocks(folder, lost)
            await asyncio.sleep(seconds)
        finally:
            self._network.children.resume(name)

    def erase(self, node: str) -> None:
        """Remove the databases of a node that was ended."""
        for path in kept_files(self._network.files.root, node):
            path.unlink(missing_ok=True)

    async def reorg(self, depth: int) -> None:
        """Replace the last blocks of L1."""
        await self._client(self._network.l1).call("dev_reorg", depth)


def kept_files(root: Path, node: str) -> list[Path]:
    """Return the databases of a node, with what belongs to them."""
    return [path for kind in ("peers", "discovery", "safe-heads") for path in root.glob(f"{node}-{kind}.db*")]
