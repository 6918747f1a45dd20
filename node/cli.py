"""The command `rollup-node`: runs the node, or one of its commands."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from rollup_node.node.options.nearest import did_you_mean
from rollup_node.node.system.exit_codes import Exit, SetupError, one_line
from rollup_node.node.system.standard_streams import OutputError, give_up_output, open_standard_streams
from rollup_node.node.system.version import PROGRAM, version

COMMANDS = {
    "devnet": "rollup_node.tools.devnet.cli",
    "batches": "rollup_node.node.commands.batches",
    "replay": "rollup_node.node.commands.replay",
    "p2p": "rollup_node.node.commands.p2p",
    "decode": "rollup_node.node.commands.decode",
    "explain": "rollup_node.node.commands.explain",
}
"""Commands by name; each module has `main(arguments) -> exit code`, and is imported only when asked for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (node/exits)."""
    open_standard_streams()
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return code
    except SetupError as error:
        return _failed(error)
    except OutputError as error:
        give_up_output()
        return Exit.SETUP if error.reader_is_gone else _failed(error)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _run(words: Sequence[str]) -> int:
    try:
        if words and not words[0].startswith("-"):
            return _command(words[0])(words[1:])
        return _node(words, os.environ)
    except SystemExit as end:  # argparse, after --help
        return int(end.code or 0)


def _failed(error: Exception) -> int:
    print(f"{PROGRAM}: {one_line(str(error))}", file=sys.stderr)
    return Exit.SETUP


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
    from rollup_node.node.options.parsing import help_text, information_asked, parse_options

    asked = information_asked(words)
    if asked == "--help":
        print(help_text(COMMANDS), end="")
        return Exit.OK
    if asked == "--version":
        print(f"{PROGRAM} version {version()}")
        return Exit.OK
    parsed = parse_options(words, environ)

    from rollup_node.node.setup.endpoint_checks import check_ports
    from rollup_node.node.setup.plan import listeners, log_notices, plan_node

    plan = plan_node(parsed.values)
    check_ports(listeners(parsed.values))
    log_notices(plan, parsed.warnings)

    from rollup_node.node.supervisor.supervisor import run_node

    return run_node(plan.rows, plan.settings)
