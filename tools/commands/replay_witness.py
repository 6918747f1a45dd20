"""`rollup-node replay --witness`: derives the blocks of a witness from its preimages alone."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rollup_node.node.options.errors import shown
from rollup_node.node.system.exit_codes import PROGRAM, SetupError
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.commands.output_file import CommandOutput, open_output
from rollup_node.tools.inspect.replay import REPLAYED
from rollup_node.tools.inspect.row_formats import RowFormatter, write_all
from rollup_node.tools.witness.preimages import WitnessError
from rollup_node.tools.witness.reader import WitnessReader, derive_witness

DESCRIPTION = """Derives the range of a witness from its preimages alone, each checked against its key; no endpoint is
asked. The blocks are compared with the headers in the witness."""


def main(arguments: Sequence[str]) -> int:
    """Derive the range of a witness from its store alone; 0 when no block differs."""
    parser = FlagParser("replay --witness FOLDER", DESCRIPTION)
    parser.add_argument("--witness", required=True, metavar="FOLDER", help="a folder that `witness` wrote")
    parser.add_output()
    flags = parser.parse_all(arguments)
    with open_output(flags) as out:
        return out.end(_derive_witness(Path(flags.witness), out))


def _derive_witness(folder: Path, out: CommandOutput) -> int:
    rows, number = RowFormatter(out.form, REPLAYED), 0
    differences: tuple[str, ...] = ()
    try:
        witness = WitnessReader(folder)
        for comparison in derive_witness(witness):
            _write(out, rows.row(comparison.values))
            differences, number = comparison.differences, comparison.safe_head.number
    except WitnessError as error:
        raise SetupError(f"--witness {shown(str(folder))}: {error}") from None
    for line in differences[:1]:
        print(f"{PROGRAM}: block {number} differs from the witness in {line}", file=sys.stderr)
    for line in differences[1:]:
        print(f"{PROGRAM}:   {line}", file=sys.stderr)
    if differences:
        return 1
    manifest = witness.manifest
    text = f"L2 blocks {manifest.safe_head.number + 1} to {manifest.last} follow from L1 block {manifest.l1_head.hash}"
    print(f"{PROGRAM}: {text} and L2 block {manifest.safe_head.hash}", file=sys.stderr)
    return 0


def _write(out: CommandOutput, text: str) -> None:
    if out.file is None:
        sys.stdout.write(text)
        return
    try:
        write_all(out.file.descriptor, text.encode())
    except OSError as error:
        raise SetupError(f"cannot write the results: {error.strerror}") from None
