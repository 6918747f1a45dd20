"""The display of a running network: a live table in a terminal, plain lines elsewhere, nothing with --json."""

import sys
import time
from typing import Protocol

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
    from rollup_node.tools.devnet.live_view import LiveView

    return LiveView(target)


def peers_text(count: int | None) -> str:
    """Return the number of peers, if it is known."""
    return "-" if count is None else str(count)


def number_text(number: int | None) -> str:
    """Return the number of a block, if it is known."""
    return "starting" if number is None else str(number)
