"""The help texts: one screen, and all options [CMD8]."""

from collections.abc import Mapping
from textwrap import wrap

from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.parsing import option_parser
from rollup_node.node.options.table import FLAGS, SECTIONS
from rollup_node.node.system.exit_codes import PROGRAM

MAIN_OPTIONS = {
    "network": "built-in network, such as op-mainnet or op-sepolia",
    "rollup.config": "in place of --network: the chain's rollup.json",
    "l1": "JSON-RPC of L1, or several separated by commas",
    "l1.beacon": "Beacon API of L1, for blobs",
    "l2": "the execution engine's authenticated port, often 8551",
    "l2.jwt-secret": "file with the secret shared with the engine",
    "syncmode": "consensus-layer (default) or execution-layer",
    "sequencer.enabled": "build blocks instead of only following the chain",
    "rpc.port": "port of JSON-RPC, /readyz and /status.json (9545)",
    "metrics.enabled": "serve Prometheus metrics (port 7300)",
    "config": "TOML or YAML file with options",
}
"""The options that --help shows, with their lines."""


_EXAMPLE = f"""Example:
  {PROGRAM} --network=op-sepolia --l1=URL --l1.beacon=URL --l2=URL
"""


BY_NAME_ALONE = ("explain", "networks", "bundle-check", "budget", "doc", "completion", "man", "help")
"""The commands that --help names without a line each."""


def help_text(commands: Mapping[str, str]) -> str:
    """Return the text of --help, on one screen of 80 by 36; the commands are given with a line each."""
    options = [(_usage(FLAGS[name]), line) for name, line in MAIN_OPTIONS.items()]
    lines = [
        f"usage: {PROGRAM} [options]   or   {PROGRAM} COMMAND ...",
        f"Options (--help-all: all of them; {PROGRAM} help TOPIC: those of a topic):",
        *(f"  {usage:22} {line}" for usage, line in options),
        f"Commands ({PROGRAM} COMMAND --help):",
        *(f"  {name:10} {line}" for name, line in commands.items() if name not in BY_NAME_ALONE),
        *wrap(f"more: {', '.join(BY_NAME_ALONE)}", 78, initial_indent="  ", subsequent_indent="  "),
    ]
    return "\n".join(lines) + "\n" + _EXAMPLE


def full_help_text(commands: Mapping[str, str]) -> str:
    """Return the text of --help-all: options by section, without hidden ones, and the commands."""
    lines = "".join(f"  {name:10} {line}\n" for name, line in commands.items())
    return f"{option_parser(SECTIONS).format_help().rstrip()}\n\nCommands ({PROGRAM} COMMAND --help):\n{lines}"


def _usage(option: AnyOption) -> str:
    is_flag = option.value_type.label == "bool"
    return f"--{option.name}" if is_flag else f"--{option.name} {option.metavar}"
