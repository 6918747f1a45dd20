"""The status of a running network: heads, peers, batches, memory; its display; at the end, its output roots."""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rollup_node.node.system.procfs import read_proportional_memory
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient

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
            name: read_processes(self._root / name / "processes.json", memory.of)
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


def memory_of(pid: int) -> float:
    """Return the proportional set size of a process in MiB; 0 when there is none."""
    return (read_proportional_memory(pid) or 0) / MIB


class RecentMemory:
    """The memory of a node's processes, read at most every MEMORY_INTERVAL for a process."""

    def __init__(self) -> None:
        self._read: dict[int, tuple[float, float]] = {}

    def of(self, pid: int) -> float:
        """Return the memory of a process, as `memory_of`."""
        now = time.monotonic()
        if pid not in self._read or now >= self._read[pid][0] + MEMORY_INTERVAL:
            self._read[pid] = (now, memory_of(pid))
        return self._read[pid][1]


def read_processes(path: Path, memory: Callable[[int], float] = memory_of) -> list[ProcessUsage]:
    """Return the processes in a node's `processes.json` with their memory; empty without the file."""
    entries = _read_json(path) or []
    names = [f"{entry['role']}.{entry['chain']}" if "chain" in entry else entry["role"] for entry in entries]
    copies = Counter(names)
    return [
        ProcessUsage(
            f"{name}-{entry['copy']}" if copies[name] > 1 else name,
            entry["pid"],
            entry["incarnation"],
            memory(entry["pid"]),
        )
        for name, entry in zip(names, entries, strict=True)
    ]


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


LINE_SECONDS = 2.0


class LineView:
    """Prints messages, and a status line every two seconds; `target` is the wanted number of safe blocks.

    `is_silent`, for --json, it prints nothing."""

    shows_processes = False

    def __init__(self, target: int | None, is_silent: bool = False) -> None:
        self._target, self._is_silent = target, is_silent
        self._next = 0.0

    def message(self, text: str) -> None:
        """Show a line of text."""
        if not self._is_silent:
            print(text, flush=True)

    def show(self, status: NetworkStatus) -> None:
        """Show the current status."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LINE_SECONDS
        parts = [f"L1 {number_text(status.l1_head)}"]
        for name, heads in status.nodes.items():
            text = (
                f"{heads.unsafe}/{heads.safe}/{heads.finalized} peers {peers_text(heads.peers)}"
                if heads
                else "starting"
            )
            parts.append(f"{name} unsafe/safe/finalized {text}")
        batches = status.batches
        if status.leader is not None:
            parts.append(f"leader {status.leader}")
        parts.append(f"batches {batches.get('channels', 0)} blobs {batches.get('blobs', 0)}")
        self.message("  ".join(parts) + (f"  of {self._target}" if self._target else ""))

    def close(self) -> None:
        """End the display."""


def peers_text(count: int | None) -> str:
    """Return the number of peers, if it is known."""
    return "-" if count is None else str(count)


def number_text(number: int | None) -> str:
    """Return the number of a block, if it is known."""
    return "starting" if number is None else str(number)


class LiveView:
    """A table in the terminal, with a progress bar towards `target` safe blocks.

    `shows_processes`: those of the nodes are part of it."""

    shows_processes = True

    def __init__(self, target: int | None) -> None:
        self._target = target
        self._console = Console()
        self._live = Live(console=self._console, refresh_per_second=4, transient=False)

    def message(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def show(self, status: NetworkStatus) -> None:
        # Not before the network is started: a thread begins, and then nothing can be forked.
        self._live.start()
        self._live.update(Group(self._heads(status), self._processes(status), self._progress(status)))

    def close(self) -> None:
        self._live.stop()

    def _heads(self, status: NetworkStatus) -> Group:
        leader = "" if status.leader is None else f", leader {status.leader}"
        batches = status.batches
        posted = f"{batches.get('channels', 0)} channels posted, {batches.get('blobs', 0)} blobs"
        title = Text(f"L1 head {number_text(status.l1_head)}{leader}, {posted}", overflow="ellipsis", no_wrap=True)
        table = Table(box=None)
        for column in ("node", "unsafe", "safe", "finalized", "peers"):
            table.add_column(column, justify="left" if column == "node" else "right")
        for name, heads in status.nodes.items():
            known = (heads.unsafe, heads.safe, heads.finalized, peers_text(heads.peers)) if heads else None
            numbers = known or ("starting", "", "", "")
            table.add_row(name, *map(str, numbers))
        return Group(title, table)

    def _processes(self, status: NetworkStatus) -> Table:
        """Return a row for each role and copy, with pid, starts and MiB of each node, as far as there is room."""
        nodes = {name: processes for name, processes in status.processes.items() if processes}
        by_row = {name: dict(_rows(processes)) for name, processes in nodes.items()}
        rows = dict.fromkeys(row for cells in by_row.values() for row in cells)
        room = self._console.height - len(status.nodes) - OTHER_ROWS
        if len(rows) > room:
            by_row = {name: _by_role(cells) for name, cells in by_row.items()}
            rows = dict.fromkeys(row for cells in by_row.values() for row in cells)
        table = Table(box=None)
        with_pid = self._console.width >= FIRST_COLUMN + len(nodes) * NODE_COLUMN
        table.add_column("process" if with_pid else "starts, MiB", no_wrap=True)
        for name in nodes:
            table.add_column(f"{name} pid starts MiB" if with_pid else name, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(row, *(_cell(cells.get(row), with_pid) for cells in by_row.values()))
        if nodes:
            table.add_row("total", *(f"{sum(one.memory for one in processes):.0f}" for processes in nodes.values()))
        return table

    def _progress(self, status: NetworkStatus) -> Group:
        safe = min((heads.safe if heads else 0) for heads in status.nodes.values()) if status.nodes else 0
        if not self._target:
            return Group(Text(f"safe on all nodes: {safe} (Ctrl-C to stop)"))
        return Group(
            ProgressBar(total=self._target, completed=min(safe, self._target), width=40),
            Text(f"{safe} of {self._target} blocks safe on all nodes"),
        )


View = LineView | LiveView


def choose(json: bool, target: int | None) -> View:
    """Return the display for this output: silent for `json`, live in a terminal, lines elsewhere."""
    return LiveView(target) if not json and sys.stdout.isatty() else LineView(target, json)


OTHER_ROWS = 6
"""Of the screen: two titles, the line of L1, the total, the progress, and the one of the cursor."""
FIRST_COLUMN, NODE_COLUMN = 13, 28


def _rows(processes: Sequence[ProcessUsage]) -> Iterator[tuple[str, list[ProcessUsage]]]:
    """Yield each process of a node with the name of its row."""
    seen: Counter[str] = Counter()
    for process in processes:
        seen[process.role] += 1
        copy = seen[process.role]
        yield (process.role if copy == 1 else f"{process.role} {copy}"), [process]


def _by_role(cells: Mapping[str, Sequence[ProcessUsage]]) -> dict[str, list[ProcessUsage]]:
    """Return the same with the copies of a role in one row."""
    result: dict[str, list[ProcessUsage]] = {}
    for processes in cells.values():
        result.setdefault(processes[0].role, []).extend(processes)
    return result


def _cell(processes: Sequence[ProcessUsage] | None, with_pid: bool) -> str:
    """Return pid, starts and memory of a process, or of the copies of a role."""
    if not processes:
        return ""
    starts, memory = sum(one.incarnation for one in processes), sum(one.memory for one in processes)
    pid = str(processes[0].pid) if len(processes) == 1 else f"x{len(processes)}"
    return f"{f'{pid} ' if with_pid else ''}{starts:>5}x {memory:>4.0f}"
