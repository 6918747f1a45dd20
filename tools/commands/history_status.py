"""`rollup-node history status`, `verify`, `report` and `safedb`: what a folder holds, from its files alone."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple

from rollup_node.node.options.errors import shown
from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.chain import ChosenChain, choose_chain
from rollup_node.node.system.exit_codes import PROGRAM, SetupError
from rollup_node.stages.engine.calls.safe_head_entries import SafeHeadEntry
from rollup_node.stages.engine.process.safe_heads import MAX_NUMBER, OPTION, WHAT, SafeHeadStore
from rollup_node.stages.io.files.sqlite_file import StoreError, transaction
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.history.folder import HistoryFolder, RunFile, history_folder
from rollup_node.tools.history.manifest import Block, rollup_digest
from rollup_node.tools.history.report import ReportValues, history_digest, history_problems, report_page
from rollup_node.tools.history.runner import INSTALL, rate
from rollup_node.tools.history.start_stage import caveats, open_seams, problems, progress
from rollup_node.tools.history.tables import Table, rows, table_files

SAFEDB_DESCRIPTION = """Adds the safe heads of a history to the database of safe heads of a node that does not run,
before those that it has. The history is verified first. A node with --safedb.path FILE then answers
optimism_safeHeadAtL1Block for the L1 blocks of the history."""

EPILOG = """--safedb.path and the options that choose the chain are those of the node: --network, or --rollup.config
with --rollup.l1-chain-config."""


_FIRST = "select l1_number, l1_hash, l2_number, l2_hash from safe_heads order by l1_number limit 1"


class PastSafeHeads(NamedTuple):
    """Where safe heads that were derived elsewhere begin and end.

    `before` is the safe head before the first of them, with the L1 block that had been derived then, `last` the number
    of the last L1 block that was derived [SDB16]."""

    before: SafeHeadEntry
    last: int


class PastStore(SafeHeadStore):
    """The database of a node that does not run, to which a past is added."""

    def add_past(self, past: PastSafeHeads, entries: Iterable[SafeHeadEntry], genesis: BlockId) -> int:
        """Add entries below those of the file, which they must reach; returns how many. Raises StoreError [SDB16]."""
        with self._errors(), transaction(self._connection):
            first = self._find(_FIRST)
            self._check_reaches(past, first)
            end = MAX_NUMBER if first is None else first.l1_block.number
            added, same = 0, first is None or first.l1_block.number == past.last + 1
            for entry in chain((past.before,), entries):
                if entry.l1_block.number >= end:
                    same = same or entry == first
                    break
                l1_block, safe_head = entry.l1_block, entry.safe_head
                values = l1_block.number, l1_block.hash, safe_head.number, safe_head.hash
                self._connection.execute("insert into safe_heads values (?, ?, ?, ?)", values)
                added += 1
            if not same:
                text = f"its first safe head, at L1 block {end}, is not that of the history: name another file"
                raise StoreError(f"{WHAT} {self._path}: {text} ({OPTION})")
            self._connection.execute("delete from gaps where l1_until = 0")
            if past.before.safe_head != genesis:
                # It is not known since when the L2 blocks before were safe.
                self._connection.execute("insert into gaps values (0, 0, 1, ?)", (past.before.safe_head.number,))
        return added

    def _check_reaches(self, past: PastSafeHeads, first: SafeHeadEntry | None) -> None:
        text, number = "", None if first is None else first.l1_block.number
        if number is not None and number <= past.before.l1_block.number:
            text = f"it has safe heads from L1 block {number} on, before which the history does not begin"
        elif number is not None and number > past.last + 1:
            text = f"its safe heads begin at L1 block {number}: derive the history up to the one before"
        if text:
            raise StoreError(f"{WHAT} {self._path}: {text} ({OPTION})")


def safedb(arguments: Sequence[str]) -> int:
    """Run the command; 0 when the safe heads are in the file."""
    parser = FlagParser("history safedb", SAFEDB_DESCRIPTION, EPILOG)
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the folder of the history")
    flags, rest = parser.parse_known_args(list(arguments))
    values = parse_options([*rest, "--l1.beacon.ignore"], os.environ, parser.flags).values
    path = values["safedb.path"]
    if not path:
        raise SetupError("name the node's database: --safedb.path FILE")
    if not values["network"] and not values["rollup.config"]:
        raise SetupError("name the chain: either --network NAME or --rollup.config FILE")
    chosen = choose_chain(values)
    folder = history_folder(flags.out)
    run = folder.existing()
    past = _past(folder, run, chosen)
    try:
        with closing(PastStore(path, chosen.config, check=True)) as store:
            added = store.add_past(past, _entries(folder), chosen.config.genesis.l2)
    except StoreError as error:
        raise SetupError(str(error)) from None
    print(f"{added} safe heads of L1 blocks {past.before.l1_block.number} to {past.last} are in {shown(path)} now")
    return 0


def _past(folder: HistoryFolder, run: RunFile, chosen: ChosenChain) -> PastSafeHeads:
    """Return what the history holds. Raises SetupError where it cannot be imported."""
    where = shown(str(folder.path))
    if run.config.rollup != rollup_digest(chosen.config):
        raise SetupError(f"--out: {where} holds a history of another chain or rollup config, {run.chain}")
    if run.config.source == "none":
        raise SetupError(f"--out: the history in {where} was made without an L2 source, and has no hashes of L2 blocks")
    problem = next(history_problems(folder, run), None)
    if problem is not None:
        raise SetupError(f"--out: the history in {where} is not proved: {problem}: see history verify")
    ranges = run.plan
    manifests = folder.manifests()
    start = manifests[ranges[0].name].start
    return PastSafeHeads(SafeHeadEntry(_block(start.l1), _block(start.safe)), ranges[-1].last)


def _entries(folder: HistoryFolder) -> Iterator[SafeHeadEntry]:
    """Yield the rows of `safe_heads`."""
    for path in table_files(folder.path, Table.SAFE_HEADS):
        for l1_number, l1_hash, l2_number, l2_hash in rows(path, ("l1_number", "l1_hash", "l2_number", "l2_hash")):
            yield SafeHeadEntry(_block(Block(l1_number, l1_hash)), _block(Block(l2_number, l2_hash)))


def _block(block: Block) -> BlockId:
    """Return a block by its hash in bytes. Raises SetupError without a whole hash."""
    text = block.hash or ""
    try:
        value = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        value = b""
    if len(value) != 32:
        raise SetupError(f"block {block.number} has no hash in the history: {text[:80]!r}")
    return BlockId(block.number, value)


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
