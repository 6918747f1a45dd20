"""Proves `history run` on a chain that crosses four forks, with garbage of ten kinds between its batches.

A node derives it, and histories by several numbers of workers have the same tables, byte for byte, with the blocks of
that chain.

    python -m rollup_node.tools.bench.race.history_proof --l1-blocks 500 --workers 1 2 4"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as parquet

from rollup_node.tools.bench.race.course import LATER_FORKS, prepare
from rollup_node.tools.bench.race.course_files import CourseFiles, CourseSize
from rollup_node.tools.bench.race.history import PER_L1_BLOCK, history, run_command, served
from rollup_node.tools.bench.race.node_run import RaceError
from rollup_node.tools.bench.race.programs import rollup_node
from rollup_node.tools.bench.race.runner import run_once
from rollup_node.tools.history.tables import Table

NODE_SECONDS = 600.0


class ProofError(Exception):
    """What does not hold."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit with 0 if all holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--l1-blocks", type=int, default=500, help="of the chain, with six L2 blocks each")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], help="a history by each of these")
    parser.add_argument("--range-size", type=int, default=50)
    parser.add_argument("--garbage", type=int, default=3, help="transactions before and behind the batches of a block")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    blocks = int(args.l1_blocks * PER_L1_BLOCK)
    size = CourseSize(
        l1_blocks=args.l1_blocks,
        transactions=20,
        l2_blocks=blocks,
        sidecars=0,
        garbage=args.garbage,
        fork_blocks=blocks // (len(LATER_FORKS) + 1),
    )
    with tempfile.TemporaryDirectory(prefix="history-proof-") as temporary:
        try:
            _prove(Path(temporary), size, args.workers, args.range_size)
        except (ProofError, RaceError) as error:
            print(f"NOT PROVED: {error}")
            return 1
    print("proved")
    return 0


def _prove(folder: Path, size: CourseSize, workers: Sequence[int], range_size: int) -> None:
    facts = prepare(folder / "course", size)
    with closing(CourseFiles(folder / "course")) as course:
        result = run_once(course, rollup_node(()), 0.0, 0, NODE_SECONDS)
    print(f"a node derives the {size.l2_blocks} L2 blocks ({result.blocks_per_second:.0f} blocks/s)")
    first: dict[str, str] | None = None
    with served(folder / "course", size) as course_served:
        for count in workers:
            out = folder / f"by-{count}"
            run = history(course_served, out, range_size, count)
            run_command("history", "verify", "--out", str(out))
            hashes = _block_hashes(out)
            if hashes != facts.l2_hashes[1:]:
                raise ProofError(f"the history by {count} workers has other L2 blocks than the chain")
            tables = _tables(out)
            rows = sum(parquet.read_metadata(out / name).num_rows for name in tables)
            print(f"{count} workers: {len(tables)} files, {rows} rows, {run.seconds:.1f} s, verified")
            if first is not None and tables != first:
                differ = sorted(name for name in {*tables, *first} if tables.get(name) != first.get(name))
                raise ProofError(f"other tables by {count} workers than by {workers[0]}: {', '.join(differ[:5])}")
            first = tables


def _tables(out: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a table, by its path in the folder."""
    files = [path for table in Table for path in sorted((out / table.value).rglob("*.parquet"))]
    return {str(path.relative_to(out)): sha256(path.read_bytes()).hexdigest() for path in files}


def _block_hashes(out: Path) -> list[str]:
    """Return the hashes of all L2 blocks in the order of their ranges."""
    hashes: list[str] = []
    for path in sorted((out / Table.L2_BLOCKS.value).rglob("*.parquet"), key=lambda path: path.name):
        hashes += parquet.read_table(path, columns=["hash"]).column("hash").to_pylist()
    return hashes


if __name__ == "__main__":
    sys.exit(main())
