"""`rollup-node config show`: the value of each option, and where it comes from. `config convert` is in convert.py."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson

from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.parsing import read_options
from rollup_node.node.options.supernode import OWN, are_for_supernode, is_shared, read_supernode_options
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import NodeOptions, Values
from rollup_node.node.setup.chain import ChosenChain, choose_chain
from rollup_node.node.setup.plan import reject_wrong_options
from rollup_node.node.supernode import chain_values, plan_chains
from rollup_node.node.system.exit_codes import PROGRAM, SetupError
from rollup_node.stages.p2p.discv5.enode import choose_bootnodes
from rollup_node.stages.protocol.forks.table import OPTIONAL_FORK, OVERRIDABLE
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.convert.conversion import MASK, masked_address, toml_lines

DESCRIPTION = """Shows the value of each option and its origin: flag, variable, file, network, or default. Options are
given as to the node or to rollup-node supernode. Secrets, and what follows the host in addresses, are shown as ***, but
for addresses in --toml that is not written to a terminal."""
SHOW, CONVERT = "show", "convert"


class Setting(NamedTuple):
    """The value of an option as text, None for no value. `origin` is a word, `source` the flag, variable or file."""

    name: str
    value: str | None
    origin: str
    source: str


def main(arguments: Sequence[str]) -> int:
    """Print the settings. Raises SetupError for options that would not start a node."""
    words = list(arguments)
    if words[:1] == [CONVERT]:
        from rollup_node.tools.commands import convert  # it needs a parser of YAML

        return convert.main(words[1:])
    parser = FlagParser("config show", DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="one JSON object by option")
    parser.add_argument("--toml", action="store_true", help="a file for --config with the options that are given")
    if not {"-h", "--help"}.isdisjoint(words):
        parser.parse_args(["--help"])
    if not words or words.pop(0) != SHOW:
        raise SetupError(
            f"the command is {PROGRAM} config {SHOW} [--json|--toml] [options of the node], or {PROGRAM} config"
            f" {CONVERT} FILE..."
        )
    flags, rest = parser.parse_known_args(words)
    if are_for_supernode(rest, os.environ):
        options = read_supernode_options(rest, os.environ)
        plan_chains(options)
    else:
        options = read_options(rest, os.environ, parser.flags)
        reject_wrong_options(options)
    for warning in options.warnings:
        print(f"{PROGRAM}: warning: {escaped_line(warning)}", file=sys.stderr)
    result = settings(options)
    if flags.toml:
        print("\n".join(toml_lines(options, hide=sys.stdout.isatty())))
    elif flags.json:
        print(orjson.dumps(settings_rows(result), option=orjson.OPT_INDENT_2).decode())
    else:
        for row in result:
            value = "-" if row.value is None else escaped_line(row.value) or "(empty)"
            # By which name it is set may be long, and comes last.
            name = "" if row.source in (row.origin, f"flag --{row.name}") else f"   ({row.source})"
            print(f"{row.name:36} {row.origin:9} {value}{name}")
    return 0


def settings(options: NodeOptions) -> list[Setting]:
    """Return every option in the order of the table, hidden ones only where they are set.

    Of a supernode first its own, then those that chains share, and then those of each."""
    result = [_setting(option, options.own, {}, "") for option in OWN.values() if option.name in options.own.names]
    for group, values in options.chains.items():
        rows = _settings_of_chain(chain_values(options.own, int(group), values) if group else values)
        if group:
            shared = [row for row in rows if is_shared(row.name) and row.name not in OWN]
            result += shared if group == next(iter(options.chains)) else []
            rows = [row._replace(name=f"vn.{group}.{row.name}") for row in rows if not is_shared(row.name)]
        result += rows
    return result


def _settings_of_chain(values: Values) -> list[Setting]:
    chain = choose_chain(values)
    by_chain = _values_of_chain(values, chain)
    shown = (option for option in OPTIONS.values() if values.given(option.name) or not option.hidden)
    return [_setting(option, values, by_chain, chain.name) for option in shown]


def settings_rows(rows: Sequence[Setting]) -> dict[str, dict[str, str | None]]:
    """Return the settings by option, for JSON."""
    return {row.name: {"value": row.value, "origin": row.origin, "source": row.source} for row in rows}


def _setting(option: AnyOption, values: Values, by_chain: Mapping[str, str | None], chain: str) -> Setting:
    name = option.name
    if values.given(name):
        source = values.source(name)
        origin = "file" if " in file " in source else source.split()[0]
        return Setting(name, _masked(option, ",".join(values.texts(name))), origin, source)
    if name in by_chain:
        origin = "network" if values["network"] else "file"
        return Setting(name, by_chain[name], origin, chain if origin == "file" else f"{origin} {chain}")
    return Setting(name, option.default, "default", "default")


def _values_of_chain(values: Values, chain: ChosenChain) -> dict[str, str | None]:
    """By option, what the chain's configuration sets when the option is not given."""
    config = chain.config
    times = {fork: config.fork_times.get(fork) for fork in OVERRIDABLE} | {
        OPTIONAL_FORK: config.pectra_blob_schedule_time
    }
    result = {f"override.{fork}": None if time is None else str(time) for fork, time in times.items()}
    bootnodes = choose_bootnodes((), network=values["network"], rollup_config=values["rollup.config"])
    return {**result, "p2p.bootnodes": ",".join(bootnodes) or None}


def _masked(option: AnyOption, text: str) -> str:
    if option.secret:
        return MASK if text else ""
    return ",".join(map(masked_address, text.split(",")))
