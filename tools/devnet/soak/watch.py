"""The watch over the nodes of a soak: memory, descriptors, log lines, and what is left behind."""

import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median

from rollup_node.tools.devnet.soak.family import Family, LineCount, Usage, shared_files, usage
from rollup_node.tools.devnet.soak.lanes import ROLES, Process
from rollup_node.tools.devnet.soak.report import Minute, NodeTrend, Trend

TOOL = "soak"
"""The tool itself among the nodes."""

MAX_GROWTH = 0.15
SPARE_MEMORY_MB, SPARE_DESCRIPTORS, SPARE_SEGMENTS = 20.0, 10.0, 3.0
MAX_LINES = 1500
"""Lines of log that a node may write in a minute of kills and faults."""

MAX_LOADS = 4096
MAX_SHARED_FILES = 4096


class NodeWatch:
    """What a node uses, minute by minute."""

    def __init__(self, log: Path | None) -> None:
        self._log = None if log is None else LineCount(log)
        self._samples: list[Usage] = []
        self.memory, self.descriptors, self.segments, self.lines = Trend(), Trend(), Trend(), Trend()
        self.most_lines = 0

    def sample(self, pids: Iterable[int]) -> None:
        """Read what the node uses now."""
        self._samples.append(usage(pids))

    def minute(self, run: str, at: float, node: str) -> Minute:
        """Return the medians since the last call.

        Zero without a sample, of a node that was never complete meanwhile."""
        samples, self._samples = self._samples, []
        lines = 0 if self._log is None else self._log.more()
        self.lines.add(lines)
        self.most_lines = max(self.most_lines, lines)
        if not samples:
            return Minute(run, at, node, 0.0, 0, 0, 0, lines)
        middle = [median(values) for values in zip(*samples, strict=True)]
        for trend, value in zip((self.memory, self.descriptors, self.segments), middle, strict=False):
            trend.add(value)
        memory, descriptors, segments, processes = middle
        return Minute(run, at, node, round(memory, 1), int(descriptors), int(segments), int(processes), lines)

    def trend(self) -> NodeTrend:
        """Return the figures of the whole run."""
        pairs = [
            None if (result := item.quarters()) is None else (round(result.first, 1), round(result.last, 1))
            for item in (self.memory, self.descriptors, self.segments)
        ]
        lines = median(self.lines.values) if self.lines.values else 0.0
        return NodeTrend(pairs[0], pairs[1], pairs[2], lines, self.most_lines)

    def problems(self, node: str) -> Iterator[str]:
        """Yield what is not flat or not bounded."""
        figures = (
            ("MB of memory", self.memory, SPARE_MEMORY_MB),
            ("descriptors", self.descriptors, SPARE_DESCRIPTORS),
            ("shared memory segments", self.segments, SPARE_SEGMENTS),
        )
        for name, trend, spare in figures:
            result = trend.quarters()
            if result is not None and result.grows(MAX_GROWTH, spare):
                yield f"{node}: {result.first:.0f} {name} in the first quarter, {result.last:.0f} in the last"
        if self.most_lines > MAX_LINES:
            yield f"{node}: {self.most_lines} lines of log in a minute, more than {MAX_LINES}"


class Watch:
    """The watch over all nodes and the tool itself.

    `processes` are those of a node, `known` the pids of the programs that the tool itself has started."""

    def __init__(
        self,
        logs: Mapping[str, Path],
        processes: Callable[[str], dict[str, Process]],
        known: Callable[[], Iterable[int]],
        problem: Callable[[str], None],
    ) -> None:
        self._processes, self._known, self._problem = processes, known, problem
        self.nodes = {node: NodeWatch(log) for node, log in logs.items()} | {TOOL: NodeWatch(None)}
        self._family = Family()
        self._loads: list[float] = []
        self._shared_files: set[str] = set()

    def sample(self) -> None:
        """Read what complete nodes use, and what is left behind."""
        for node, item in self.nodes.items():
            if node == TOOL:
                item.sample([os.getpid()])
                continue
            processes = self._processes(node)
            pids = [process.pid for process in processes.values()]
            if len(self._shared_files) < MAX_SHARED_FILES:
                self._shared_files |= shared_files(pids)
            if set(ROLES) <= set(processes):
                item.sample(pids)
        if len(self._loads) < MAX_LOADS:
            self._loads.append(os.getloadavg()[0])
        for text in self._family.check(self._known()):
            self._problem(text)

    def minute(self, run: str, at: float) -> list[Minute]:
        """Return the lines of the last minute."""
        return [item.minute(run, at, node) for node, item in self.nodes.items()]

    @property
    def load(self) -> float:
        """The median load of the machine."""
        return median(self._loads) if self._loads else 0.0

    def left(self) -> list[int]:
        """Return the pids of processes below the tool."""
        return self._family.left()

    def left_files(self) -> list[str]:
        """Return the files in /dev/shm that processes of the nodes had mapped, and that still exist."""
        return sorted(path for path in self._shared_files if os.path.exists(path))


def commit_of_checkout() -> str:
    """Return the commit of this checkout, with a plus where files were changed since; "unknown" without git."""
    folder = Path(__file__).resolve().parent
    words = [("rev-parse", "--short=10", "HEAD"), ("status", "--porcelain", "--untracked-files=no")]
    try:
        commit, changed = (
            subprocess.run(["git", *word], cwd=folder, capture_output=True, text=True, check=True, timeout=20).stdout
            for word in words
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return commit.strip() + ("+" if changed.strip() else "")


def machine_text() -> str:
    """Cores, memory, system and Python of this machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )
