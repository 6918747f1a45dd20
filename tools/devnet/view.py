"""The display of a running network: a live table in a terminal, plain lines elsewhere, nothing with --json."""

import sys
import time
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rollup_node.tools.devnet.status import NetworkStatus

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

    def _heads(self, status: NetworkStatus) -> Table:
        leader = "" if status.leader is None else f", leader {status.leader}"
        table = Table(title=f"L1 head {number_text(status.l1_head)}{leader}", expand=False)
        for column in ("node", "unsafe", "safe", "finalized", "peers"):
            table.add_column(column, justify="left" if column == "node" else "right")
        for name, heads in status.nodes.items():
            known = (heads.unsafe, heads.safe, heads.finalized, peers_text(heads.peers)) if heads else None
            numbers = known or ("starting", "", "", "")
            table.add_row(name, *map(str, numbers))
        batches = status.batches
        table.caption = f"{batches.get('channels', 0)} channels posted, {batches.get('blobs', 0)} blobs"
        return table

    def _processes(self, status: NetworkStatus) -> Table:
        table = Table(expand=False)
        for column in ("node", "process", "pid", "started", "memory MiB"):
            table.add_column(column, justify="right" if column in ("pid", "started", "memory MiB") else "left")
        for name, processes in status.processes.items():
            for process in processes:
                starts = f"{process.incarnation}x"
                table.add_row(name, process.role, str(process.pid), starts, f"{process.memory:.0f}")
            if processes:
                table.add_row(name, "total", "", "", f"{sum(process.memory for process in processes):.0f}")
        return table

    def _progress(self, status: NetworkStatus) -> Group:
        safe = min((heads.safe if heads else 0) for heads in status.nodes.values()) if status.nodes else 0
        if not self._target:
            return Group(Text(f"safe on all nodes: {safe} (Ctrl-C to stop)"))
        return Group(
            ProgressBar(total=self._target, completed=min(safe, self._target), width=60),
            Text(f"{safe} of {self._target} blocks safe on all nodes"),
        )
