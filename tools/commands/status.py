"""`rollup-node status`: what a running node does, on one screen."""

import argparse
import asyncio
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Protocol, TextIO

import msgspec

from rollup_node.node.system.exit_codes import PROGRAM
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.tools.commands.flags import FlagParser, url
from rollup_node.tools.inspect.status_screen import COLUMNS, ROWS, AnyStatus, StatusClient, StatusError, status_lines

DESCRIPTION = """Shows the state of a running node: its heads with their ages, how far it is behind L1, speed and time
left, the sequencing window, the next fork, peers, processes, and what is wrong. It reads /status.json at the node's
JSON-RPC; docs/operations.md explains the fields. Of a supernode it shows all chains, or one: --rpc URL/CHAIN."""
LOCAL = "http://127.0.0.1:9545"
WATCH_SECONDS = 1.0
CLEAR, HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[2J", "\x1b[H", "\x1b[K", "\x1b[J"


def main(arguments: Sequence[str]) -> int:
    """Run the command; 0 when the node answers, and at the end of --watch by Ctrl-C."""
    parser = FlagParser("status", DESCRIPTION)
    parser.add_argument("--rpc", type=url, default=LOCAL, metavar="URL", help=f"JSON-RPC of the node; default {LOCAL}")
    parser.add_argument("--json", action="store_true", help="the status as one JSON object a line")
    parser.add_argument("--watch", action="store_true", help="again each second, until Ctrl-C")
    flags = parser.parse_all(arguments)
    try:
        asyncio.run(_run(flags))
    except KeyboardInterrupt:
        if not flags.watch:
            raise
    return 0


async def _run(flags: argparse.Namespace) -> None:
    view = _view(flags, sys.stdout)
    async with StatusClient(flags.rpc) as client:
        # An error of the first request ends the command; later ones may be a restart of the node.
        view.show(await client.fetch())
        while flags.watch:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                view.show(await client.fetch())
            except StatusError as error:
                view.show_error(escaped_line(str(error)))


class View(Protocol):
    """Where the statuses go."""

    def show(self, status: AnyStatus) -> None:
        """Write a status."""

    def show_error(self, error: str) -> None:
        """Say why there is no status."""


def _view(flags: argparse.Namespace, output: TextIO) -> View:
    if flags.json:
        return Texts(output, lambda status: msgspec.json.encode(status).decode() + "\n", "")
    if flags.watch and output.isatty():
        return Screen(output)
    return Texts(output, lambda status: "".join(f"{line}\n" for line in status_lines(status)), "\n")


class Texts:
    """One status below the other, with `between` between two; errors go to standard error."""

    def __init__(self, output: TextIO, text: Callable[[AnyStatus], str], between: str) -> None:
        self._output, self._text, self._between = output, text, between
        self._before = ""

    def show(self, status: AnyStatus) -> None:
        """Write a status."""
        self._output.write(self._before + self._text(status))
        self._output.flush()
        self._before = self._between

    def show_error(self, error: str) -> None:
        """Say why there is no status."""
        print(f"{PROGRAM}: {error}", file=sys.stderr)


class Screen:
    """A terminal on which each status replaces the one before."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._before = CLEAR
        self._status: AnyStatus | None = None

    def show(self, status: AnyStatus) -> None:
        """Write a status."""
        self._status = status
        self._draw(())

    def show_error(self, error: str) -> None:
        """Say why there is no status, above the last one."""
        self._draw((f"the last status; {error}",))

    def _draw(self, first: Sequence[str]) -> None:
        columns, rows = shutil.get_terminal_size((COLUMNS, ROWS))
        lines = [] if self._status is None else status_lines(self._status, columns, rows - len(first))
        shown = "".join(f"{line[:columns]}{REST_OF_LINE}\n" for line in (*first, *lines))
        self._output.write(f"{self._before}{HOME}{shown}{REST_OF_SCREEN}")
        self._output.flush()
        self._before = ""
