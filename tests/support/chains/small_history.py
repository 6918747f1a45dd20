"""A finished history of three ranges with rows in all tables, which link as those of a derived chain do: L1 block N
makes L2 blocks 2N - 1 and 2N safe, whose L1 origin is N - 3."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rollup_node.tools.history.folder import HistoryFolder, RunFile, file_entry
from rollup_node.tools.history.manifest import (
    Block,
    L1Range,
    ManifestRow,
    RunConfig,
    State,
    TableFile,
    with_checksum,
)
from rollup_node.tools.history.tables import Table, partition, write_parquet

FIRST, LAST, SIZE = 100, 129, 10
TIME = 1_724_803_000
"""Of L1 block 0; the UTC day ends with L1 block 116."""

Rows = list[dict[str, Any]]
Change = Callable[[Table, Rows], Rows]


def run_file(form: str = "jsonl", rollup: str = "aa") -> RunFile:
    """Return the run that the history is of."""
    return RunFile(RunConfig("v1", 1, rollup, FIRST, SIZE, 50, form, "engine", False), "local", LAST)


def l1_hash(number: int) -> str:
    """Return the hash of an L1 block."""
    return f"0x{number:064x}"


def l2_hash(number: int) -> str:
    """Return the hash of an L2 block."""
    return f"0x2{number:063x}"


def state_after(number: int) -> State:
    """Return the state after an L1 block."""
    safe, origin = Block(2 * number, l2_hash(2 * number)), Block(number - 3, l1_hash(number - 3))
    return State(Block(number, l1_hash(number)), safe, origin, "5c", ())


def manifest_row(first: int, last: int, config: str = "c0" * 32) -> ManifestRow:
    """Return the manifest of a range with two L2 blocks for each of L1, and one file that does not exist."""
    blocks = 2 * (last - first + 1)
    file = TableFile(f"l2_blocks/day=2024-01-01/range-{first:012d}.jsonl", "l2_blocks", blocks, 10, "00" * 32)
    return ManifestRow(config, "v1", first, last, state_after(first - 1), state_after(last), blocks, (file,), 1.0)


def rows_of(table: Table, number: int) -> Rows:
    """Return the rows of a table at an L1 block."""
    transaction, channel = f"0x7{number:063x}", f"0xc{number:031x}"
    l1 = {"l1_number": number, "l1_hash": l1_hash(number), "l1_time": TIME + 12 * number}
    match table:
        case Table.L1_INPUTS:
            common = {"type": 2, "sender": "0x05", "bytes": 90, "blobs": []}
            rows: Rows = [
                {"index": index, "transaction": f"{transaction[:-1]}{index}" if index else transaction}
                | {"is_batcher": not index, **common}
                for index in range(3)
            ]
        case Table.FRAMES:
            common = {"transaction": transaction, "blob": None, "channel": channel, "bytes": 40}
            places = [(0, 0), (0, 1), (1, 0)]
            rows = [
                {**common, "item": item, "index": index, "number": at, "is_last": at == 2}
                for at, (item, index) in enumerate(places)
            ]
        case Table.CHANNELS:
            rows = [{"channel": channel, "opened": number, "bytes": 120, "frames": 3, "transactions": [transaction]}]
        case Table.BATCHES:
            rows = [
                {"channel": channel, "index": index, "kind": "singular", "first_block": 2 * number - 1 + index}
                | {"first_time": TIME + 12 * number - 6 + 6 * index, "blocks": 1, "transactions": 1, "parent": "0x"}
                for index in range(2)
            ]
        case Table.L2_BLOCKS:
            rows = [
                {"number": item, "hash": l2_hash(item), "parent_hash": l2_hash(item - 1), "time": TIME + 6 * item}
                | {"origin_number": number - 3, "origin_hash": l1_hash(number - 3), "sequence_number": at}
                | {"transactions": 2, "bytes": 300, "channel": channel, "l1_transaction": transaction}
                for at, item in enumerate((2 * number - 1, 2 * number))
            ]
        case Table.DROPS:
            common = {"effect": "ignored", "rule": "F1", "reason": "sender_not_batcher", "text": "x", "values": "{}"}
            rows = [{"index": index, **common} for index in range(3)]
        case Table.SAFE_HEADS:
            rows = [{"l2_number": 2 * number, "l2_hash": l2_hash(2 * number)}]
    return [l1 | row for row in rows]


def _unchanged(table: Table, rows: Rows) -> Rows:
    return rows


def publish_range(
    folder: HistoryFolder, first: int, change: Change = _unchanged, form: str = "jsonl", rollup: str = "aa"
) -> ManifestRow:
    """Write the files and the manifest of a range, of rows that are changed before.

    A change gets those of a whole table."""
    wanted = L1Range(first, first + SIZE - 1)
    partial, entries = folder.partial(wanted), []
    files: dict[str, Path] = {}
    for table in Table:
        rows = change(table, [row for number in range(first, wanted.last + 1) for row in rows_of(table, number)])
        days: dict[str, Rows] = {}
        for row in rows:
            days.setdefault(partition(table, row["l1_time"]), []).append(row)
        for day, of_day in days.items():
            path = f"{day}/{wanted.name}.{form}"
            source = partial / f"{len(files)}"
            source.write_text("".join(json.dumps(row) + "\n" for row in of_day))
            if form == "parquet":
                target = source.with_suffix(".parquet")
                write_parquet(table, source, target)
                source = target
            files[path] = source
            entries.append(file_entry(source, path, table.value, len(of_day)))
    complete = manifest_row(first, wanted.last, run_file(form, rollup).config.digest)
    complete = msgspec.structs.replace(complete, files=tuple(entries))
    folder.publish(complete, files)
    return complete


def small_history(path: Path, form: str = "jsonl", rollup: str = "aa") -> HistoryFolder:
    """Return a folder with the whole history."""
    folder = HistoryFolder(path)
    folder.open(run_file(form, rollup))
    for first in range(FIRST, LAST, SIZE):
        publish_range(folder, first, form=form, rollup=rollup)
    return folder


def forged(folder: HistoryFolder, row: ManifestRow, **changes: Any) -> None:
    """Write a manifest anew, with its checksum, under the name of the range that it had."""
    data = with_checksum(msgspec.structs.replace(row, **changes))
    (folder.path / "manifest" / f"{row.range.name}.json").write_bytes(data)


def files_of(folder: HistoryFolder) -> Iterator[Path]:
    """All files of the history but the lock."""
    return (path for path in sorted(folder.path.rglob("*")) if path.is_file() and path.name != ".lock")
