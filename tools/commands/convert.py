"""`rollup-node config convert`: an options file from the options of op-node, kona-node or op-supernode [CMD17]."""

import os
import sys
from collections.abc import Sequence

from rollup_node.node.options.errors import WrongOptions
from rollup_node.node.system.exit_codes import PROGRAM
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.tools.commands.flags import FlagParser, chain_id
from rollup_node.tools.convert import kona_node, op_node, op_supernode
from rollup_node.tools.convert.conversion import MASK, Conversion, masked_address, toml_lines
from rollup_node.tools.convert.sources import PROGRAMS, Source, read_sources

DESCRIPTION = f"""Writes a file for --config from what starts another rollup node: its command line, its file of
variables (NAME=value), or its compose file. What has no counterpart is named on standard error and at the top of the
file. What the other node would refuse is refused, with its line. Secrets are not copied; a file is named as it is. On a
terminal the keys in addresses are shown as {MASK}."""

SUPERNODE = "op-supernode"


def main(arguments: Sequence[str]) -> int:
    """Print the options file. Raises SetupError, with the line, for what the other node or this one would refuse."""
    parser = FlagParser("config convert", DESCRIPTION)
    parser.add_argument("files", nargs="+", metavar="FILE", help="op-node.env, op-node.sh, compose.yaml, ...")
    parser.add_argument("--from", dest="program", choices=PROGRAMS, help="the other node, if the files do not say")
    parser.add_argument("--service", metavar="NAME", help="the service of a compose file, if several run a node")
    parser.add_argument(
        "--chain", type=chain_id, metavar="ID", help="a node of this chain of an op-supernode, in place of a supernode"
    )
    flags = parser.parse_all(arguments)
    source = read_sources(flags.files, flags.service, os.environ)
    program = flags.program or source.program or PROGRAMS[0]
    on_terminal = sys.stdout.isatty()
    if program == SUPERNODE and flags.chain is None:
        conversion, lines = op_supernode.convert_all(source, on_terminal)
    else:
        conversion = _convert(source, program, flags.chain)
        lines = list(toml_lines(conversion.options(), on_terminal))
    notes = list(conversion.notes)
    if any(masked_address(part) != part for line in lines for part in line.split('"')):
        shown = f"shown as {MASK} on a terminal" if on_terminal else "keep the file readable by the node's user alone"
        notes.append(f"addresses may hold keys: {shown}")
    command = PROGRAM if program != SUPERNODE or flags.chain else f"{PROGRAM} supernode"
    print(f"# Options of {command}, from {', '.join(map(escaped_line, flags.files))} ({program}).")
    for note in notes:
        print(f"# {escaped_line(note)}")
        print(f"{PROGRAM}: note: {escaped_line(note)}", file=sys.stderr)
    for line in lines:
        if line.startswith("#"):
            print(f"{PROGRAM}: note: {line[2:]}", file=sys.stderr)
        print(line)
    return 0


def _convert(source: Source, program: str, chain: int | None) -> Conversion:
    if program == SUPERNODE:
        return op_supernode.convert(source, str(chain))
    if chain is not None:
        raise WrongOptions([f"--chain is for {SUPERNODE}, and these are the options of {program}"])
    return kona_node.convert(source) if program == "kona-node" else op_node.convert(source)
