"""What the running network shows: heads of the nodes, L1, batches and the memory of every process."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollup_node.stages.io.jsonrpc import EndpointError, JsonRpcClient, RpcFailure

MIB = 1 << 20
PEERS_SECONDS = 1.0
PEERS_AGAIN_SECONDS = 2.0


@dataclass(frozen=True)
class NodeHeads:
    """L2 heads of a node by number, and its connected peers; None for a node that does not answer or is starting."""

    unsafe: int
    safe: int
    finalized: int
    peers: int | None = None


@dataclass(frozen=True)
class ProcessUsage:
    """One process of a node; memory is its proportional set size in MiB."""

    role: str
    pid: int
    incarnation: int
    memory: float


@dataclass
class NetworkStatus:
    """One look at everything."""

    l1_head: int | None = None
    nodes: dict[str, NodeHeads | None] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    processes: dict[str, list[ProcessUsage]] = field(default_factory=dict)


class StatusPoller:
    """Asks L1 and the nodes, reads the state files."""

    def __init__(self, l1: str, nodes: Mapping[str, str], root: Path) -> None:
        self._l1 = JsonRpcClient(l1, timeout=3.0)
        self.nodes = {name: JsonRpcClient(url, timeout=5.0) for name, url in nodes.items()}
        self._root = root
        self._peers: dict[str, tuple[float, int | None]] = dict.fromkeys(nodes, (0.0, None))

    async def look(self) -> NetworkStatus:
        """The state now; what does not answer is shown as unknown."""
        status = NetworkStatus()
        try:
            status.l1_head = int(await self._l1.call("eth_blockNumber"), 16)
        except (EndpointError, RpcFailure):
            status.l1_head = None
        for name, client in self.nodes.items():
            status.nodes[name] = await self._heads(name, client)
            status.processes[name] = read_processes(self._root / name / "processes.json")
        status.batches = _read_json(self._root / "batcher.json")
        return status

    async def _heads(self, name: str, client: JsonRpcClient) -> NodeHeads | None:
        try:
            answer = await client.call("optimism_syncStatus")
        except (EndpointError, RpcFailure):
            return None
        if not int(answer["unsafe_l2"]["hash"], 16):
            return None
        unsafe, safe, finalized = [answer[key]["number"] for key in ("unsafe_l2", "safe_l2", "finalized_l2")]
        asked_at, peers = self._peers[name]
        if (now := time.monotonic()) >= asked_at + PEERS_AGAIN_SECONDS:
            peers = await _peers_of(client)
            self._peers[name] = (now, peers)
        return NodeHeads(unsafe, safe, finalized, peers)

    async def close(self) -> None:
        """Closes the connections."""
        for client in (self._l1, *self.nodes.values()):
            await client.close()


async def _peers_of(client: JsonRpcClient) -> int | None:
    """How many peers are connected; None where the node has no peer-to-peer process that answers."""
    try:
        async with asyncio.timeout(PEERS_SECONDS):
            return int((await client.call("opp2p_peerStats"))["connected"])
    except (EndpointError, RpcFailure, TimeoutError):
        return None


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def read_processes(path: Path) -> list[ProcessUsage]:
    """A node's `processes.json` with the memory of each process; empty when there is none."""
    entries = _read_json(path) or []
    copies = Counter(entry["role"] for entry in entries)
    return [
        ProcessUsage(
            f"{entry['role']}-{entry['copy']}" if copies[entry["role"]] > 1 else entry["role"],
            entry["pid"],
            entry["incarnation"],
            memory_of(entry["pid"]),
        )
        for entry in entries
    ]


def memory_of(pid: int) -> float:
    """Proportional set size in MiB; 0 when the process is gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024 / MIB
    except OSError:
        return 0.0
    return 0.0
