"""`rollup-node history status`, `verify` and `report`: what a folder holds, from its files alone."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rollup_node.node.options.errors import shown
from rollup_node.node.system.exit_codes import PROGRAM, SetupError
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.history.folder import HistoryFolder, RunFile, history_folder
from rollup_node.tools.history.report import ReportValues, history_digest, history_problems, report_page
from rollup_node.tools.history.run import rate
from rollup_node.tools.history.runner import INSTALL
from rollup_node.tools.history.start_stage import caveats, open_seams, problems, progress
from rollup_node.tools.history.tables import Table, rows, table_files

STATUS = """Shows what is done and what is missing of a history, from its manifests alone."""
VERIFY = """Proves from the files of a history alone that nothing is missing, that all seams between ranges close by
hash, that each file is the one of its manifest, that blocks link by hash and that the tables agree with each other. It
says what stays trusted."""
TRUSTED_SOURCE = """trusted: that the L2 source executed its blocks rightly (their hashes are its own; their contents
were derived here)"""
TRUSTED = """trusted: that L1's headers are those of the canonical chain (their transactions and receipts were checked
against them unless --l1.trustrpc was given), the state before the first range, and that nobody has rewritten tables and
manifests, which a comparison with the SHA-256 of another run shows"""
MOST = 50
"""Lines of problems and of missing ranges that are printed."""


def status(arguments: Sequence[str]) -> int:
    """Run `history status`; 0 for any history."""
    folder, run, _ = _folder("status", STATUS, arguments)
    rows, damaged = folder.readable_manifests()
    done, missing = progress(run.plan, rows, run.config.digest)
    blocks, of = sum(item.blocks for item in done), sum(item.blocks for item in run.plan)
    print(f"{run.chain}: L1 blocks {run.config.first} to {run.last}, {len(done)} of {len(run.plan)} ranges done")
    print(f"L1 blocks {blocks} of {of}, L2 blocks {sum(row.l2_blocks for row in done.values())}")
    for line in caveats(run.config):
        print(line)
    if folder.is_locked():
        print("a run is under way")
    speed = rate(done)
    if speed:
        print(f"{speed:.1f} L1 blocks/s a worker")
    for seam in open_seams(done.values()):
        print(f"open seam {seam}: run again")
    _print_some(damaged)
    _print_some([f"missing: L1 blocks {item}" for item in missing])
    return 0


def verify(arguments: Sequence[str]) -> int:
    """Run `history verify`; 0 where all is proved."""
    folder, run, _ = _folder("verify", VERIFY, arguments)
    result = list(history_problems(folder, run))
    _print_some(result)
    done = progress(run.plan, folder.manifests(), run.config.digest).done
    text = f"{len(done)} of {len(run.plan)} ranges, L1 blocks {run.config.first} to {run.last}"
    print(f"{PROGRAM}: {'proved' if not result else 'NOT proved'}: {text}", file=sys.stderr)
    if not result:
        print(f"SHA-256 of all tables: {history_digest(done)}")
    for line in caveats(run.config) or (TRUSTED_SOURCE,):
        print(" ".join(line.split()))
    print(" ".join(TRUSTED.split()))
    return 1 if result else 0


def _folder(name: str, description: str, arguments: Sequence[str]) -> tuple[HistoryFolder, RunFile, argparse.Namespace]:
    parser = FlagParser(f"history {name}", description)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the folder of the history")
    flags = parser.parse_all(arguments)
    folder = history_folder(flags.out)
    return folder, folder.existing(), flags


def _print_some(lines: Sequence[str]) -> None:
    for line in lines[:MOST]:
        print(line)
    if len(lines) > MOST:
        print(f"and {len(lines) - MOST} more")


DESCRIPTION = """Writes one HTML page about a history: bytes per L2 block, batches per day, inclusion delay, drops by
rule, and gaps. The page needs no other file and no network."""


def report(arguments: Sequence[str]) -> int:
    """Run the command; 0 when the page is written."""
    parser = FlagParser("history report", DESCRIPTION)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the folder of the history")
    parser.add_argument("--html", required=True, metavar="FILE", help="the page; a file that exists is not replaced")
    flags = parser.parse_all(arguments)
    folder = history_folder(flags.out)
    run = folder.existing()
    values = ReportValues()
    _add(folder, Table.L2_BLOCKS, ("l1_time", "time", "bytes"), values.add_blocks)
    _add(folder, Table.BATCHES, ("l1_time",), values.add_batches)
    _add(folder, Table.DROPS, ("rule", "effect", "reason"), values.add_drops)
    title = f"{run.chain}: L1 blocks {run.config.first} to {run.last}"
    page = report_page(title, values, problems(run.plan, folder.manifests(), run.config.digest))
    try:
        with open(flags.html, "x", encoding="utf-8") as file:
            file.write(page)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SetupError(f"--html: cannot write {shown(flags.html)}: {reason}") from None
    return 0


def _add(
    folder: HistoryFolder, table: Table, columns: tuple[str, ...], add: Callable[[Iterable[tuple[Any, ...]]], None]
) -> None:
    for path in table_files(folder.path, table):
        try:
            add(rows(path, columns))
        except ModuleNotFoundError as error:
            raise SetupError(f"Parquet files need the package {error.name}: {INSTALL}") from None
        except (OSError, ValueError, TypeError, OverflowError) as error:
            raise SetupError(f"{shown(str(path))} is unreadable: {error}") from None
