"""The display of a network of several chains: lines, and in a terminal the state of a supernode below them."""

from rich.console import Console
from rich.live import Live
from rich.text import Text

from rollup_node.tools.inspect.status_screen import AnyStatus, status_lines

LINE_SECONDS, SCREEN_SECONDS = 4.0, 1.0


class ChainsView:
    """Shows messages and a line for the state of the network; `is_silent`, for --json, nothing.

    `wants_status` is whether the state of a supernode is part of it."""

    def __init__(self, is_silent: bool) -> None:
        self._console = Console(quiet=is_silent, highlight=False, markup=False, soft_wrap=True)
        self.wants_status = self._console.is_terminal and not is_silent
        self.seconds = SCREEN_SECONDS if self.wants_status else LINE_SECONDS
        self._live = Live(console=self._console, auto_refresh=False)
        if self.wants_status:
            self._live.start()

    def message(self, text: str) -> None:
        """Show a line of text."""
        self._console.print(text)

    def show(self, line: str, status: AnyStatus | None) -> None:
        """Show the state of the network, with that of a supernode if it is known."""
        if not self.wants_status:
            self.message(line)
            return
        columns, rows = self._console.size
        lines = [line[:columns], *([] if status is None else status_lines(status, columns, rows - 1))]
        self._live.update(Text("\n".join(lines), no_wrap=True), refresh=True)

    def close(self) -> None:
        """End the display."""
        self._live.stop()
