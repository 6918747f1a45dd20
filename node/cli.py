"""The command `rollup-node`: runs the node, or one of its commands."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from rollup_node.node.options.nearest import did_you_mean
from rollup_node.node.system.exit_codes import ExitCode, SetupError, one_line
from rollup_node.node.system.standard_streams import StdoutError, discard_stdout, open_standard_streams
from rollup_node.node.system.version import PROGRAM, version

COMMANDS = {
    "devnet": "rollup_node.tools.devnet.cli",
    "batches": "rollup_node.node.commands.batches",
    "replay": "rollup_node.node.commands.replay",
    "p2p": "rollup_node.node.commands.p2p",
    "decode": "rollup_node.node.commands.decode",
    "explain": "rollup_node.node.commands.explain",
}
"""Commands by name. Each module has `main(arguments) -> exit code` and is imported only when its command runs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code [LIF2 to LIF9]."""
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
        if words and not words[0].startswith("-"):
            return _command(words[0])(words[1:])
        return _node(words, os.environ)
    except SystemExit as end:  # argparse exits after --help
        return int(end.code or 0)


def _print_error(error: Exception) -> int:
    print(f"{PROGRAM}: {one_line(str(error))}", file=sys.stderr)
    return ExitCode.SETUP


def _command(name: str) -> Callable[[Sequence[str]], int]:
    if name not in COMMANDS:
        commands = ", ".join(COMMANDS)
        raise SetupError(f"unknown command {name[:80]!r}{did_you_mean(name, COMMANDS)}; commands are {commands}")
    try:
        run: Callable[[Sequence[str]], int] = importlib.import_module(COMMANDS[name]).main
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("rollup_node."):
            raise SetupError(f"command {name} needs the package {error.name}: install {PROGRAM} again") from None
        raise SetupError(f"command {name} is not part of this installation ({error.name} is missing)") from None
    return run


def _node(words: Sequence[str], environ: Mapping[str, str]) -> int:
    from rollup_node.node.options.parsing import help_text, parse_options, requested_information

    requested = requested_information(words)
    if requested == "--help":
        print(help_text(COMMANDS), end="")
        return ExitCode.OK
    if requested == "--version":
        print(f"{PROGRAM} version {version()}")
        return ExitCode.OK
    parsed = parse_options(words, environ)

    from rollup_node.node.setup.start import start_node

    return start_node(parsed.values, parsed.warnings)
