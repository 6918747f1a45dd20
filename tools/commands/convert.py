"""`rollup-node config convert`: an options file from the options of op-node, kona-node or op-supernode [CMD17]."""

import os
import sys
from collections.abc import Sequence

from rollup_node.node.options.errors import WrongOptions
from rollup_node.node.system.exit_codes import PROGRAM
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.tools.commands.flags import FlagParser, chain_id
from rollup_node.tools.convert import kona_node, op_node, op_supernode
from rollup_node.tools.convert.conversion import Conversion
from rollup_node.tools.convert.masks import MASK, masked_address
from rollup_node.tools.convert.options_file import toml_lines
from rollup_node.tools.convert.sources import PROGRAMS, Source, read_sources

DESCRIPTION = f"""Writes a file for --config from what starts another rollup node: its command line, its file of
variables (NAME=value), or its compose file. What has no counterpart is named on standard error and at the top of the
file. What the other node would refuse is refused, with its line. Secrets are not copied; a file is named as it is. On a
terminal the keys in addresses are shown as {MASK}."""


def main(arguments: Sequence[str]) -> int:
    """Print the options file. Raises SetupError, with the line, for what the other node or this one would refuse."""
    parser = FlagParser("config convert", DESCRIPTION)
    parser.add_argument("files", nargs="+", metavar="FILE", help="op-node.env, op-node.sh, compose.yaml, ...")
    parser.add_argument("--from", dest="program", choices=PROGRAMS, help="the other node, if the files do not say")
    parser.add_argument("--service", metavar="NAME", help="the service of a compose file, if several run a node")
    parser.add_argument("--chain", type=chain_id, metavar="ID", help="the chain of an op-supernode, if it has several")
    flags = parser.parse_all(arguments)
    source = read_sources(flags.files, flags.service, os.environ)
    conversion = _convert(source, flags.program or source.program or PROGRAMS[0], flags.chain)
    values = conversion.values()
    on_terminal = sys.stdout.isatty()
    notes = list(conversion.notes)
    addresses = [name for name in values.names_given() if any(masked_address(t) != t for t in values.items(name))]
    if addresses:
        shown = f"shown as {MASK} on a terminal" if on_terminal else "keep the file readable by the node's user alone"
        notes.append(f"the addresses of {', '.join(addresses)} may hold keys: {shown}")
    print(f"# Options of {PROGRAM}, from {', '.join(map(escaped_line, flags.files))} ({conversion.program}).")
    for note in notes:
        print(f"# {escaped_line(note)}")
        print(f"{PROGRAM}: note: {escaped_line(note)}", file=sys.stderr)
    for line in toml_lines(values, on_terminal):
        if line.startswith("#"):
            print(f"{PROGRAM}: note: {line[2:]}", file=sys.stderr)
        print(line)
    return 0


def _convert(source: Source, program: str, chain: int | None) -> Conversion:
    if program == "op-supernode":
        return op_supernode.convert(source, None if chain is None else str(chain))
    if chain is not None:
        raise WrongOptions([f"--chain is for op-supernode, and these are the options of {program}"])
    return kona_node.convert(source) if program == "kona-node" else op_node.convert(source)
