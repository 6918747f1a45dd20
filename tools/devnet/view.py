"""The display of a running network: a live table in a terminal, plain lines elsewhere, nothing with --json."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rollup_node.tools.devnet.status import NetworkStatus, ProcessUsage

LINE_SECONDS = 2.0


class View(Protocol):
    """A display of messages and the network's status.

    `shows_processes` is whether the processes of the nodes are part of it."""

    shows_processes: bool

    def message(self, text: str) -> None:
        """Show a line of text."""

    def show(self, status: NetworkStatus) -> None:
        """Show the current status."""

    def close(self) -> None:
        """End the display."""


class SilentView:
    """Shows nothing; for --json, which prints only the result."""

    shows_processes = False

    def message(self, text: str) -> None:
        pass

    def show(self, status: NetworkStatus) -> None:
        pass

    def close(self) -> None:
        pass


class LineView:
    """Prints a status line every two seconds; `target` is the wanted number of safe blocks."""

    shows_processes = False

    def __init__(self, target: int | None) -> None:
        self._target = target
        self._next = 0.0

    def message(self, text: str) -> None:
        print(text, flush=True)

    def show(self, status: NetworkStatus) -> None:
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
        pass


def choose(json: bool, target: int | None) -> View:
    """Return the display for this output: silent for `json`, live in a terminal, lines elsewhere."""
    if json:
        return SilentView()
    if not sys.stdout.isatty():
        return LineView(target)
    # Imported here alone: it brings rich with it.

    return LiveView(target)


def peers_text(count: int | None) -> str:
    """Return the number of peers, if it is known."""
    return "-" if count is None else str(count)


def number_text(number: int | None) -> str:
    """Return the number of a block, if it is known."""
    return "starting" if number is None else str(number)


class LiveView:
    """A table in the terminal, with a progress bar towards `target` safe blocks."""

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
