"""The status of a running network: heads, peers, batches, memory of each process; at the end, its output roots."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure

T = TypeVar("T")
Root: TypeAlias = Callable[[JsonRpcClient, int], Awaitable[str]]
MIB = 1 << 20
PEERS_TIMEOUT = 1.0
PEERS_INTERVAL = 2.0
MEMORY_INTERVAL = 3.0
"""Seconds between two reads of a process's memory, for which the kernel walks all its pages."""


class NoProgress(RuntimeError):
    """The safe heads do not advance, or cannot be read at the end."""


@dataclass(frozen=True)
class NodeHeads:
    """The numbers of a node's L2 heads, and of its connected peers where it reports them."""

    unsafe: int
    safe: int
    finalized: int
    peers: int | None = None


@dataclass(frozen=True)
class ProcessUsage:
    """A process of a node; `memory` is its proportional set size (PSS) in MiB."""

    role: str
    pid: int
    incarnation: int
    memory: float


@dataclass
class NetworkStatus:
    """The status at one time; None for a program that does not answer or is starting.

    `leader` is the leading sequencer where there is a conductor, `events` what it said since the status before."""

    l1_head: int | None = None
    nodes: dict[str, NodeHeads | None] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    processes: dict[str, list[ProcessUsage]] = field(default_factory=dict)
    leader: str | None = None
    events: list[str] = field(default_factory=list)


class StatusPoller:
    """Polls L1 and the nodes, and reads the files of batcher and supervisors.

    With `has_processes` a status has the processes of the nodes, whose memory costs as much as the rest."""

    def __init__(
        self,
        l1: str,
        nodes: Mapping[str, str],
        root: Path,
        conductor: str | None = None,
        *,
        has_processes: bool = True,
    ) -> None:
        self._has_processes = has_processes
        self._conductor = None if conductor is None else JsonRpcClient(conductor, timeout=3.0)
        self._next_event = 0
        self._l1 = JsonRpcClient(l1, timeout=3.0)
        self.nodes = {name: JsonRpcClient(url, timeout=5.0) for name, url in nodes.items()}
        self._root = root
        self._peers: dict[str, tuple[float, int | None]] = dict.fromkeys(nodes, (0.0, None))
        self._memory = {name: RecentMemory() for name in nodes}

    async def poll(self) -> NetworkStatus:
        """Return the status now."""
        status = NetworkStatus()
        try:
            status.l1_head = int(await self._l1.call("eth_blockNumber"), 16)
        except (EndpointError, RpcFailure):
            status.l1_head = None
        for name, client in self.nodes.items():
            status.nodes[name] = await self._heads(name, client)
        if self._has_processes:
            status.processes = self.processes()
        status.batches = _read_json(self._root / "batcher.json")
        if self._conductor is not None:
            await self._read_conductor(self._conductor, status)
        return status

    def processes(self) -> dict[str, list[ProcessUsage]]:
        """Return the processes of the nodes now."""
        return {
            name: read_processes(self._root / name / "processes.json", memory.of_all)
            for name, memory in self._memory.items()
        }

    async def _read_conductor(self, client: JsonRpcClient, status: NetworkStatus) -> None:
        try:
            result = await client.call("dev_conductor", self._next_event)
        except (EndpointError, RpcFailure):
            return
        status.leader, status.events, self._next_event = result["leader"], result["events"], result["next_event"]

    async def _heads(self, name: str, client: JsonRpcClient) -> NodeHeads | None:
        try:
            heads = await client.call("optimism_syncStatus")
        except (EndpointError, RpcFailure):
            return None
        if not int(heads["unsafe_l2"]["hash"], 16):
            return None
        unsafe, safe, finalized = [heads[key]["number"] for key in ("unsafe_l2", "safe_l2", "finalized_l2")]
        polled_at, peers = self._peers[name]
        if (now := time.monotonic()) >= polled_at + PEERS_INTERVAL:
            peers = await _peers_of(client)
            self._peers[name] = (now, peers)
        return NodeHeads(unsafe, safe, finalized, peers)

    async def close(self) -> None:
        """Close the connections."""
        for client in (self._l1, self._conductor, *self.nodes.values()):
            if client is not None:
                await client.close()


async def _peers_of(client: JsonRpcClient) -> int | None:
    """Return the number of connected peers; None where P2P is disabled or does not answer."""
    try:
        async with asyncio.timeout(PEERS_TIMEOUT):
            return int((await client.call("opp2p_peerStats"))["connected"])
    except (EndpointError, RpcFailure, TimeoutError):
        return None


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def memory_of_all(pids: Sequence[int]) -> list[float]:
    """Return the memory of each process, as `memory_of`."""
    return list(map(memory_of, pids))


class RecentMemory:
    """The memory of a node's processes, read at most every MEMORY_INTERVAL for a process."""

    def __init__(self) -> None:
        self._read: dict[int, tuple[float, float]] = {}

    def of_all(self, pids: Sequence[int]) -> list[float]:
        """Return the memory of each process."""
        now = time.monotonic()
        known = {pid: read for pid, read in self._read.items() if now - read[0] < MEMORY_INTERVAL}
        self._read = {pid: known.get(pid) or (now, memory_of(pid)) for pid in pids}
        return [self._read[pid][1] for pid in pids]


def read_processes(path: Path, memory: Callable[[Sequence[int]], list[float]] = memory_of_all) -> list[ProcessUsage]:
    """Return the processes in a node's `processes.json` with their memory; empty without the file."""
    entries = _read_json(path) or []
    names = [f"{entry['role']}.{entry['chain']}" if "chain" in entry else entry["role"] for entry in entries]
    copies = Counter(names)
    return [
        ProcessUsage(
            f"{name}-{entry['copy']}" if copies[name] > 1 else name,
            entry["pid"],
            entry["incarnation"],
            used,
        )
        for name, entry, used in zip(names, entries, memory([entry["pid"] for entry in entries]), strict=True)
    ]


def memory_of(pid: int) -> float:
    """Return the proportional set size of a process in MiB; 0 when there is none."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024 / MIB
    except OSError:
        return 0.0
    return 0.0


ATTEMPTS = 20
RETRY_SECONDS = 0.5
CONCURRENCY = 8


@dataclass(frozen=True)
class Comparison:
    """The number of blocks compared, and the number of the first that differs, if any."""

    blocks: int
    first_difference: int | None

    @property
    def equal(self) -> bool:
        """Whether no block differs."""
        return self.first_difference is None


async def compare_output_roots(nodes: Mapping[str, JsonRpcClient], last: int) -> Comparison:
    """Compare blocks 0 to `last` by optimism_outputAtBlock. Raises as `compare_roots`."""
    return await compare_roots(nodes, range(last + 1), _output_root)


async def compare_roots(nodes: Mapping[str, JsonRpcClient], numbers: range, root: Root) -> Comparison:
    """Compare the roots of these numbers, which `root` asks a node for.

    Raises EndpointError, RpcFailure or NoProgress when a node has none in `ATTEMPTS` requests."""
    for start in range(0, len(numbers), CONCURRENCY):
        some = numbers[start : start + CONCURRENCY]
        roots = await asyncio.gather(*(_roots(client, some, root) for client in nodes.values()))
        for number, result in zip(some, zip(*roots, strict=True), strict=True):
            if len(set(result)) != 1:
                return Comparison(number - numbers.start + 1, number)
    return Comparison(len(numbers), None)


async def _roots(client: JsonRpcClient, numbers: range, root: Root) -> list[str]:
    return [await persistent(root, client, number) for number in numbers]


async def persistent(ask: Callable[[JsonRpcClient, int], Awaitable[T]], client: JsonRpcClient, number: int) -> T:
    """Return what a node answers in the first of `ATTEMPTS` requests that does not fail."""
    for _ in range(ATTEMPTS - 1):
        try:
            return await ask(client, number)
        except (EndpointError, RpcFailure, NoProgress):
            await asyncio.sleep(RETRY_SECONDS)
    return await ask(client, number)


async def output_at_block(client: JsonRpcClient, number: int) -> Any:
    """Return the output of a block."""
    return await client.call("optimism_outputAtBlock", hex(number))


async def _output_root(client: JsonRpcClient, number: int) -> str:
    return str((await output_at_block(client, number))["outputRoot"])
