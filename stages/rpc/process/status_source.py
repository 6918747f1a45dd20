"""The status of the node, made from the NodeView and from what the supervisor writes about its processes [RPC94]."""

import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from rollup_node.stages.io.files.private_files import read_private_file
from rollup_node.stages.io.task import ChainAside, ProcessEntry
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.rpc.process.node_view import NodeView
from rollup_node.stages.rpc.status.node_status import NodeStatus, ProcessStatus
from rollup_node.stages.rpc.status.readiness import Readiness, UnreadyReason, lag_reason
from rollup_node.stages.rpc.status.status_builder import StatusBuilder

KEPT_SECONDS = 0.25
"""How long a status serves further requests."""
FILES_SECONDS = 2.0
"""The supervisor writes its metrics as often."""
CPU_SAMPLES = 6
"""Of the CPU time, FILES_SECONDS apart, over which the share of a core is measured."""
MAX_FILE = 1 << 20
SUPERVISOR = "supervisor"

_SAMPLE = re.compile(
    r"^process_(up|heartbeat_age_seconds|(?:resident|proportional)_memory_bytes|cpu_seconds_total)"
    r'\{process="([^"]+)"\} '
    r"([0-9.e+-]+)$",
    re.ASCII | re.MULTILINE,
)

T = TypeVar("T")
Figures = Mapping[str, Mapping[str, float]]


class StatusSource:
    """Makes the status at most once in KEPT_SECONDS. `clock` is monotonic, `wall` in Unix seconds."""

    def __init__(
        self, node: NodeView, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        config = node.config
        self.clock = clock
        self._node, self._wall = node, wall
        self._builder = StatusBuilder(config)
        self._files = SupervisorFiles(config.processes_file, config.metrics_dir, str(config.rollup.l2_chain_id))
        self._last: tuple[float, NodeStatus] | None = None
        self._json: tuple[NodeStatus, bytes] | None = None

    def status(self) -> NodeStatus:
        """Return the status now, or that of up to KEPT_SECONDS ago."""
        now = self.clock()
        if self._last is None or now - self._last[0] >= KEPT_SECONDS:
            self._last = now, self._build(now)
        return self._last[1]

    def reasons(self) -> tuple[list[UnreadyReason], bool]:
        """Return why the node is not ready, by that status, and whether it syncs more slowly than the chain grows."""
        self.status()
        return self._builder.reasons, self._builder.slow.is_slow

    def readiness(self, lag: float | None) -> Readiness:
        """Return what `/readyz` says, to a client that takes no unsafe head older than `lag` seconds [RPC92, RPC93]."""
        status = self.status()
        reasons = list(status.reasons)
        if lag is not None and (reason := lag_reason(status, lag)) is not None:
            reasons.append(reason)
        return Readiness(reasons, [f"{warning.code}: {warning.text}" for warning in status.warnings])

    def json(self) -> bytes:
        """Return the status as a JSON object."""
        status = self.status()
        if self._json is None or self._json[0] is not status:
            self._json = status, msgspec.json.encode(status)
        return self._json[1]

    def _build(self, now: float) -> NodeStatus:
        node, wall = self._node, self._wall()
        processes, uptime = self._files.processes(node.ages(), now, wall)
        faults = [*self._aside(), *node.faults()]
        seen = node.seen._replace(faults=faults, processes=processes, uptime=uptime)
        return self._builder.build(seen, now, wall)

    def _aside(self) -> list[UnreadyReason]:
        """Why the supervisor has stopped the processes of this chain, if it has [LIF34]."""
        chain = str(self._node.config.rollup.l2_chain_id)
        return [
            UnreadyReason(SUPERVISOR, Problem(Code.CHAIN_ASIDE, "", f"{aside.reason} ({aside.code})"))
            for aside in _read_list(self._node.config.aside_file, ChainAside)
            if aside.chain == chain
        ]


class SupervisorFiles:
    """The list of processes and the supervisor's metrics, read at most once in FILES_SECONDS.

    Of the processes of several chains only those of `chain` are shown, by their roles."""

    def __init__(self, processes_file: str, metrics_dir: str, chain: str = "") -> None:
        self._processes_file, self._chain = processes_file, chain
        self._metrics_file = Path(metrics_dir) / f"{SUPERVISOR}.prom"
        self._entries: list[ProcessEntry] = []
        self._figures: Figures = {}
        self._cpu: deque[tuple[float, dict[tuple[str, int], float]]] = deque(maxlen=CPU_SAMPLES)
        self._due: float | None = None

    def processes(
        self, ages: Mapping[str, float | None], now: float, wall: float
    ) -> tuple[list[ProcessStatus] | None, float | None]:
        """Return the processes with `ages` of their statuses and the node's age, None for an unreadable list."""
        if self._due is None or now >= self._due:
            self._due = now + FILES_SECONDS
            self._entries, self._figures = _read_list(self._processes_file, ProcessEntry), _figures(self._metrics_file)
            written = _written_at(self._metrics_file)
            if written is not None and (not self._cpu or written != self._cpu[-1][0]):
                self._cpu.append((written, self._cpu_seconds()))
        if not self._entries:
            return None, None
        started = next((entry.started for entry in self._entries if entry.role == SUPERVISOR), None)
        uptime = None if started is None else round(max(wall - started, 0.0), 1)
        shares = self._cpu_shares()
        own = [entry for entry in self._entries if entry.chain in ("", self._chain)]
        return [_status(entry, self._figures, ages, wall, shares) for entry in own], uptime

    def _cpu_seconds(self) -> dict[tuple[str, int], float]:
        """Return the CPU time of each process, by name and pid."""
        named = [(_name(entry, self._figures), entry.pid) for entry in self._entries]
        result = {key: self._figures.get(key[0], {}).get("cpu_seconds_total") for key in named}
        return {key: seconds for key, seconds in result.items() if seconds is not None}

    def _cpu_shares(self) -> dict[tuple[str, int], float]:
        """Return the part of a core that each process used between the oldest and the newest sample that have it."""
        shares: dict[tuple[str, int], float] = {}
        if not self._cpu:
            return shares
        newest_at, newest = self._cpu[-1]
        for key, seconds in newest.items():
            at, oldest = next((at, sample[key]) for at, sample in self._cpu if key in sample)
            if newest_at - at >= FILES_SECONDS / 2:
                shares[key] = max(0.0, round((seconds - oldest) / (newest_at - at), 3))
        return shares


def _read_list(path: str, item: type[T]) -> list[T]:
    try:
        return msgspec.json.decode(read_private_file(path, MAX_FILE), type=list[item]) if path else []  # type: ignore[valid-type]
    except (OSError, *DECODE_ERRORS):
        return []


def _figures(path: Path) -> Figures:
    """Return the figures of the supervisor's metrics by process and metric; none while the file is not there."""
    figures: dict[str, dict[str, float]] = {}
    try:
        text = read_private_file(path, MAX_FILE).decode()
        for metric, process, value in _SAMPLE.findall(text):
            figures.setdefault(process, {})[metric] = float(value)
    except (OSError, ValueError):
        return {}
    return figures


def _name(entry: ProcessEntry, figures: Figures) -> str:
    role = f"{entry.role}.{entry.chain}" if entry.chain else entry.role
    numbered = f"{role}-{entry.copy}"
    return numbered if numbered in figures or entry.copy > 0 else role


def _written_at(path: Path) -> float | None:
    """When a file was written, in Unix seconds; None where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _status(
    entry: ProcessEntry,
    figures: Figures,
    ages: Mapping[str, float | None],
    wall: float,
    shares: Mapping[tuple[str, int], float],
) -> ProcessStatus:
    name = _name(entry, figures)
    shown = name.replace(f".{entry.chain}", "", 1) if entry.chain else name
    result, age = figures.get(name, {}), ages.get(shown)
    # Resident memory counts what processes share once for each; it stands where the kernel does not tell the shares.
    up, memory = result.get("up"), result.get("proportional_memory_bytes", result.get("resident_memory_bytes"))
    return ProcessStatus(
        name=shown,
        pid=entry.pid,
        incarnation=entry.incarnation,
        restarts=max(entry.incarnation - 1, 0),
        uptime_s=round(max(wall - entry.started, 0.0), 1),
        up=None if up is None else bool(up),
        heartbeat_age_s=_rounded(result.get("heartbeat_age_seconds")),
        status_age_s=_rounded(age),
        cpu_s=_rounded(result.get("cpu_seconds_total")),
        memory_bytes=None if memory is None else int(memory),
        cpu_share=shares.get((name, entry.pid)),
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
