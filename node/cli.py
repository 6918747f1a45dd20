"""The command `rollup-node`: runs the node, or one of its commands."""

import gc
import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from rollup_node.node.options.errors import OptionError, did_you_mean, error_lines
from rollup_node.node.system.exit_codes import PROGRAM, ExitCode, SetupError, version
from rollup_node.node.system.standard_streams import StdoutError, discard_stdout, open_standard_streams
from rollup_node.stages.protocol.texts import escaped_line

_SECRET = re.compile(r"^-.*(?:key|raw|header|encoded)(?:=|$)|://(?:.*@|[^/]+/.)")
"""A flag of a secret, or an address with one."""
MAX_ERRORS = 40
"""Lines of errors that are printed."""


class Command(NamedTuple):
    """A command.

    Its module has `main(arguments) -> exit code` and is imported only when the command runs; `summary` is its line
    in --help. `extra` is the optional dependency of the package that has what it needs besides."""

    module: str
    summary: str
    extra: str = ""


COMMANDS = {
    "supernode": Command("rollup_node.node.supernode", "many chains on one L1, messages between them verified"),
    "devnet": Command(
        "rollup_node.tools.multichain.run", "run a local network: L1, batcher, engine and nodes", "devnet"
    ),
    "batches": Command("rollup_node.tools.commands.batches", "list the batches in a range of L1 blocks"),
    "replay": Command("rollup_node.tools.commands.replay", "derive L2 blocks from L1, compare them with an engine's"),
    "p2p": Command("rollup_node.tools.commands.p2p", "keys and peer ids; doctor: why a node has few peers"),
    "decode": Command("rollup_node.tools.commands.decode", "show blobs, frames, channels and batches in files"),
    "explain": Command("rollup_node.tools.commands.explain", "show what derivation dropped, and by which rule"),
    "history": Command("rollup_node.tools.commands.history", "derive a chain's past in ranges, on many workers"),
    "witness": Command("rollup_node.tools.commands.witness", "what deriving a range reads on L1, for provers"),
    "networks": Command(
        "rollup_node.tools.commands.networks", "list the built-in networks: chain ids, newest fork, end"
    ),
    "status": Command("rollup_node.tools.commands.status", "what a running node does, on one screen; --watch"),
    "watch": Command("rollup_node.tools.commands.watch", "compare fault games on L1 with what our node derives"),
    "health": Command("rollup_node.tools.commands.health", "whether the node here answers, for a container's check"),
    "check": Command("rollup_node.tools.commands.check", "everything that would keep a node from its work, at once"),
    "checkpoint": Command(
        "rollup_node.tools.commands.checkpoint", "a finalized block root for --l1.checkpoint, compared"
    ),
    "bundle-check": Command(
        "rollup_node.tools.commands.bundle_check", "check a file with a fork's upgrade transactions"
    ),
    "budget": Command("rollup_node.tools.commands.budget", "requests and bytes that L1 must serve: a day, a sync"),
    "config": Command(
        "rollup_node.tools.commands.config", "show: each option and its origin; convert: op-node's options"
    ),
    "bundle": Command("rollup_node.tools.commands.bundle", "an archive for a report, without secrets"),
    "doc": Command("rollup_node.tools.commands.doc", "metrics: name, type, labels and meaning of each"),
    "completion": Command("rollup_node.tools.commands.completion", "the completion script for bash, zsh or fish"),
    "man": Command("rollup_node.tools.commands.man", "the manual page"),
    "help": Command("rollup_node.tools.commands.help", "the options of a topic: l1, beacon, engine, p2p, rpc, ..."),
}
"""Commands by name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code [LIF2 to LIF9]."""
    open_standard_streams()
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return code
    except SetupError as error:
        return _print_error(error)
    except StdoutError as error:
        discard_stdout()
        return ExitCode.SETUP if error.reader_is_gone else _print_error(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _run(words: Sequence[str]) -> int:
    try:
        if len(words) == 2 and words[0] == "help" and words[1] in COMMANDS:
            return _command(words[1])(["--help"])
        if words and not words[0].startswith("-"):
            if any(map(_SECRET.search, words)):
                _hide_arguments(words[0])
            return _command(words[0])(words[1:])
        # The imports of a start make much that lives and little garbage. `freeze_heap` enables this again.
        gc.disable()
        return _node(words, os.environ)
    except SystemExit as end:  # argparse exits after --help
        return int(end.code or 0)
    finally:
        gc.enable()


def _print_error(error: Exception) -> int:
    lines = error_lines(error)
    for line in lines[:MAX_ERRORS]:
        print(f"{PROGRAM}: {escaped_line(line)}", file=sys.stderr)
    if len(lines) > MAX_ERRORS:
        print(f"{PROGRAM}: and {len(lines) - MAX_ERRORS} more errors", file=sys.stderr)
    return ExitCode.SETUP


def _command(name: str) -> Callable[[Sequence[str]], int]:
    if name not in COMMANDS:
        commands = ", ".join(COMMANDS)
        raise SetupError(f"unknown command {name[:80]!r}{did_you_mean(name, COMMANDS)}; commands are {commands}")
    try:
        run: Callable[[Sequence[str]], int] = importlib.import_module(COMMANDS[name].module).main
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("rollup_node."):
            extra = COMMANDS[name].extra
            package = f"{PROGRAM}[{extra}]" if extra else f"{PROGRAM} again"
            raise SetupError(f"command {name} needs the package {error.name}: install {package}") from None
        raise SetupError(f"command {name} is not part of this installation ({error.name} is missing)") from None
    return run


def _hide_arguments(title: str) -> None:
    """Replace what the list of processes shows: arguments may hold secrets [OPT88]."""
    from setproctitle import setproctitle

    setproctitle(f"{PROGRAM}: {title}")


def _node(words: Sequence[str], environ: Mapping[str, str]) -> int:
    from rollup_node.node.options.parsing import read_options, requested_information

    requested = requested_information(words)
    if requested is not None:
        print(_information(requested), end="")
        return ExitCode.OK
    _hide_arguments("start")
    parsed = read_options(words, environ)

    from rollup_node.node.setup.plan import reject_wrong_options
    from rollup_node.node.setup.start import start_node

    if parsed.errors:
        reject_wrong_options(parsed)
    try:
        return start_node(parsed, partial(read_options, words, environ))
    except OptionError:
        # The start ends at the first error; the others are reported with it.
        reject_wrong_options(parsed)
        raise


def _information(requested: str) -> str:
    from rollup_node.node.options.help import full_help_text, help_text

    if requested == "--version":
        return f"{PROGRAM} version {version()}\n"
    summaries = {name: command.summary for name, command in COMMANDS.items()}
    return help_text(summaries) if requested == "--help" else full_help_text(summaries)
