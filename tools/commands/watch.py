"""`rollup-node watch`: compares the claims of fault games on L1 with what our own node derives. It signs nothing."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack

from rollup_node.node.options.errors import shown_url
from rollup_node.node.system.exit_codes import PROGRAM, SetupError, version
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.tools.commands.common import address
from rollup_node.tools.commands.flags import FlagParser, timeout, url
from rollup_node.tools.inspect.status_screen import no_node, no_rollup_node
from rollup_node.tools.watch.l1_reader import FAILURES, L1Reader
from rollup_node.tools.watch.node_reader import OwnSide, own_side
from rollup_node.tools.watch.server import WatchMetrics, serving
from rollup_node.tools.watch.service import Output, Watch

DESCRIPTION = """Reads the dispute games of a factory on L1, and compares each claim with the output root that a running
node has at its block, or with the super root of a supernode at its time. It says agree, disagree, or not yet with what
is missing, follows L1, and never signs or sends anything."""
LOCAL = "http://127.0.0.1:9545"
WINDOW = 28 * 86_400.0
INTERVAL = 2.0
PORT = 7320


def main(arguments: Sequence[str]) -> int:
    """Run the command until Ctrl-C; with --once 0 when no claim is wrong, else 1."""
    flags = _parser().parse_all(arguments)
    return asyncio.run(_watch(flags))


def _parser() -> FlagParser:
    parser = FlagParser("watch", DESCRIPTION)
    parser.add_argument("--games", type=address, required=True, metavar="ADDRESS", help="the DisputeGameFactory on L1")
    parser.add_argument("--anchor", type=address, metavar="ADDRESS", help="the AnchorStateRegistry on L1")
    parser.add_argument("--l1", type=url, required=True, metavar="URL", help="an L1 execution endpoint")
    text = f"JSON-RPC of the running node, or of a supernode; default {LOCAL}"
    parser.add_argument("--rpc", type=url, default=LOCAL, metavar="URL", help=text)
    window = "games created within this time are read at the start; default 672h"
    parser.add_argument("--window", type=timeout, default=WINDOW, metavar="DURATION", help=window)
    interval = f"time between two looks at L1's head and at the node; default {INTERVAL:g}s"
    parser.add_argument("--interval", type=timeout, default=INTERVAL, metavar="DURATION", help=interval)
    parser.add_argument("--json", action="store_true", help="each change of a verdict as one JSON object a line")
    parser.add_argument("--once", action="store_true", help="end after the first look; exit code 1 for a wrong claim")
    parser.add_argument("--metrics", action="store_true", help="serve metrics, a page and /games.json")
    parser.add_argument("--metrics.addr", dest="host", default="127.0.0.1", metavar="ADDRESS", help="default 127.0.0.1")
    parser.add_argument("--metrics.port", dest="port", type=_port, default=PORT, metavar="PORT", help=f"default {PORT}")
    return parser


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65_536):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a port")
    return int(text)


async def _watch(flags: argparse.Namespace) -> int:
    async with AsyncExitStack() as stack:
        side = await _side(flags.rpc)
        stack.push_async_callback(side.close)
        client = JsonRpcClient(flags.l1)
        stack.push_async_callback(client.close)
        anchor = None if flags.anchor is None else to_hex(flags.anchor)
        l1 = L1Reader(client, to_hex(flags.games), anchor)
        await _check(l1, side)
        # JSON has its own escapes, and is never cut.
        output = Output(print if flags.json else _print, _note, flags.json)
        watch = Watch(l1, side, WatchMetrics(version()), output, flags.window)
        if flags.once:
            return await _once(watch)
        if flags.metrics:
            try:
                port = await stack.enter_async_context(serving(watch.pages, flags.host, flags.port))
            except OSError as error:
                raise SetupError(
                    f"--metrics.port: cannot listen on {flags.host}:{flags.port}: {error.strerror}"
                ) from None
            _note(f"metrics, page and games.json at http://{flags.host}:{port}/")
        what = "super roots of the supernode" if side.is_supernode else "roots of the node"
        _note(f"comparing the games of {to_hex(flags.games)} with the {what} at {side.name}")
        await watch.run(flags.interval)
    raise AssertionError("it runs until it is interrupted")


async def _side(node_url: str) -> OwnSide:
    try:
        return await own_side(node_url)
    except EndpointError as error:
        raise SetupError(no_node(error)) from None
    except RpcFailure:
        raise SetupError(no_rollup_node(shown_url(node_url))) from None


async def _check(l1: L1Reader, side: OwnSide) -> None:
    """Raise SetupError unless L1 is that of the node and the contracts are there."""
    try:
        problem = await l1.check(await side.l1_chain_id())
    except FAILURES as error:
        raise SetupError(f"--l1: {error}") from None
    if problem is not None:
        raise SetupError(problem)


async def _once(watch: Watch) -> int:
    await watch.step()
    if not watch.is_caught_up:
        raise SetupError(watch.summary)
    _note(watch.summary)
    return 1 if watch.has_disagreement else 0


def _print(text: str) -> None:
    print(escaped_line(text))


def _note(text: str) -> None:
    print(f"{PROGRAM}: {escaped_line(text)}", file=sys.stderr, flush=True)
