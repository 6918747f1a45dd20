"""What contradicts itself in the rows of a range: its tables repeat each other and its manifest."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rollup_node.tools.history.manifest import Block, ManifestRow, TableFile
from rollup_node.tools.history.recorder import MAX_CHANNELS
from rollup_node.tools.history.tables import Table, check_schema, partition, rows

UNREADABLE = (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError)
"""What a damaged file of rows, or one with other columns or types, raises."""


class Contradiction(Exception):
    """A row that cannot be right. The text says which."""


class _Piece(NamedTuple):
    number: int
    bytes: int


class _L2Block(NamedTuple):
    """A row of `l2_blocks`. Of the safe head before the range, `time` and `sequence` are None."""

    number: int
    hash: str | None
    parent: str | None
    time: int | None
    origin: Block
    sequence: int | None

    def check_follows(self, last: "_L2Block") -> None:
        """Raise Contradiction unless it is the next block after `last` in number, hash, time and L1 origin."""
        at = f"L2 block {self.number}"
        if self.number != last.number + 1:
            raise Contradiction(f"{at} follows {last.number}")
        if self.parent != last.hash:
            raise Contradiction(f"{at} has parent {self.parent}, block {last.number} is {last.hash}")
        if self.time is None or (last.time is not None and self.time <= last.time):
            raise Contradiction(f"{at} has time {self.time}, that before it {last.time}")
        is_same = self.origin == last.origin
        if not is_same and self.origin.number != last.origin.number + 1:
            raise Contradiction(f"{at} has {_shown(self.origin)} as L1 origin, that before it {_shown(last.origin)}")
        if not is_same:
            sequence: int | None = 0
        else:
            sequence = self.sequence if last.sequence is None else last.sequence + 1
        if self.sequence != sequence:
            raise Contradiction(f"{at} is number {self.sequence} of L1 origin {self.origin.number}, not {sequence}")


class RangeRows:
    """Reads each table of a range once, in an order in which each is compared with those before it.

    State: what the later ones are compared with."""

    def __init__(self, folder: Path, row: ManifestRow) -> None:
        self._folder, self._row = folder, row
        self._l1_blocks: dict[int, tuple[str, int]] = {row.start.l1.number: (row.start.l1.hash or "", 0)}
        self._transactions: dict[str, int] = {}
        self._pieces: dict[str, list[_Piece]] = defaultdict(list)
        self._channels: dict[str, set[str]] = defaultdict(set)
        self._heads: list[tuple[int, int, str | None]] = []

    def problems(self) -> Iterator[str]:
        """Yield the first contradiction of each table. Raises ModuleNotFoundError for Parquet without pyarrow."""
        checks: dict[Table, Callable[[], None]] = {
            Table.L1_INPUTS: self._check_inputs,
            Table.FRAMES: self._check_frames,
            Table.CHANNELS: self._check_channels,
            Table.BATCHES: self._check_batches,
            Table.L2_BLOCKS: self._check_l2_blocks,
            Table.DROPS: self._check_drops,
            Table.SAFE_HEADS: self._check_safe_heads,
        }
        for table, check in checks.items():
            try:
                check()
            except Contradiction as error:
                yield f"{table.value}: {error}"
            except ModuleNotFoundError:
                raise
            except UNREADABLE as error:
                yield f"{table.value}: its rows are unreadable: {error}"

    # --- tables of L1 ----------------------------------------------------------------------------------------------

    def _check_inputs(self) -> None:
        for number, index, transaction, is_batcher in self._indexed(
            Table.L1_INPUTS, "index", "transaction", "is_batcher"
        ):
            del index
            if is_batcher:
                self._transactions[transaction] = number

    def _check_frames(self) -> None:
        last = (-1, -1, -1)
        columns = ("item", "index", "transaction", "channel", "bytes")
        for number, item, index, transaction, channel, size in self._rows(Table.FRAMES, *columns):
            if (number, item, index) <= last or index != (last[2] + 1 if (number, item) == last[:2] else 0):
                raise Contradiction(f"L1 block {number}: frame {index} of item {item} follows {_frame(last)}")
            last = number, item, index
            if self._transactions.get(transaction) != number:
                raise Contradiction(f"L1 block {number}: l1_inputs has no transaction {transaction} of the batcher")
            self._pieces[channel].append(_Piece(number, size))

    def _check_channels(self) -> None:
        """Check that a channel has the frames that were read since it was opened, or was read last.

        Of one that was opened before the range, frames are missing here."""
        is_whole = len(self._pieces) <= MAX_CHANNELS
        columns = ("channel", "opened", "bytes", "frames", "transactions")
        for number, channel, opened, size, frames, transactions in self._rows(Table.CHANNELS, *columns):
            result = [piece for piece in self._pieces[channel] if piece.number <= number]
            del self._pieces[channel][: len(result)]
            self._channels[channel].update(transactions[-1:])
            if opened is None or opened < self._row.first or not is_whole:
                continue
            if len(result) != frames or result[0].number != opened or sum(piece.bytes for piece in result) < size:
                read = f"{len(result)} frames with {sum(piece.bytes for piece in result)} bytes"
                text = f"channel {channel} has {frames} frames with {size} bytes, the table frames {read}"
                raise Contradiction(f"L1 block {number}: {text}")

    def _check_batches(self) -> None:
        for number, _, channel in self._indexed(Table.BATCHES, "index", "channel"):
            if channel not in self._channels:
                raise Contradiction(f"L1 block {number}: the table channels has no {channel}")

    def _check_drops(self) -> None:
        for _ in self._indexed(Table.DROPS, "index"):
            pass

    # --- tables of L2 ----------------------------------------------------------------------------------------------

    def _check_l2_blocks(self) -> None:
        """Check that it is a chain of blocks from the safe head at the range's start to that at its end."""
        start, end = self._row.start, self._row.end
        last = _L2Block(start.safe.number, start.safe.hash, None, None, start.origin, None)
        columns = ("number", "hash", "parent_hash", "time", "origin_number", "origin_hash", "sequence_number")
        for number, *values, channel, transaction in self._rows(Table.L2_BLOCKS, *columns, "channel", "l1_transaction"):
            l2_number, l2_hash, parent, time, origin_number, origin_hash, sequence = values
            origin = Block(origin_number, origin_hash)
            block = _L2Block(l2_number, l2_hash, parent, time, origin, sequence)
            at = f"L2 block {block.number}"
            block.check_follows(last)
            self._check_l1(at, origin.number, origin_hash, None)
            if origin.number > number:
                raise Contradiction(f"{at} has L1 origin {origin.number}, but became safe at {number}")
            if block.hash is None and self._row.resume is None and block.number != end.safe.number:
                raise Contradiction(f"{at} has no hash")
            if channel in self._channels and transaction not in self._channels[channel]:
                raise Contradiction(f"{at}: {transaction} is not the last transaction of channel {channel}")
            last = block
            if self._heads and self._heads[-1][0] == number:
                self._heads.pop()
            self._heads.append((number, block.number, block.hash))
        if (last.number, last.hash, last.origin) != (end.safe.number, end.safe.hash, end.origin):
            safe = f"the range ends with {_shown(end.safe)} of L1 origin {_shown(end.origin)}"
            raise Contradiction(f"the last is {last.number} {last.hash} of L1 origin {_shown(last.origin)}, {safe}")

    def _check_safe_heads(self) -> None:
        known = iter(self._heads)
        for row in self._rows(Table.SAFE_HEADS, "l2_number", "l2_hash"):
            wanted = next(known, None)
            if wanted != row:
                text = "has none" if wanted is None else f"has {wanted[1]} {wanted[2]} after L1 block {wanted[0]}"
                raise Contradiction(f"L1 block {row[0]}: safe head {row[1]} {row[2]}; l2_blocks {text}")
        missing = next(known, None)
        if missing is not None:
            raise Contradiction(f"L1 block {missing[0]} is missing, which made L2 block {missing[1]} safe")

    # --- rows ------------------------------------------------------------------------------------------------------

    def _indexed(self, table: Table, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Rows whose second value is their place among those of their L1 block."""
        last = (-1, -1)
        for values in self._rows(table, *columns):
            wanted = (values[0], last[1] + 1 if values[0] == last[0] else 0)
            if values[:2] != wanted:
                raise Contradiction(f"L1 block {values[0]}: row {values[1]} stands in place of row {wanted[1]}")
            last = wanted
            yield values

    def _rows(self, table: Table, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Yield the number of the L1 block of each row, and the values of its columns, in the order of L1."""
        last = 0
        for file in (file for file in self._row.files if file.table == table.value):
            count = 0
            for number, block_hash, time, *values in self._read(
                table, file, ("l1_number", "l1_hash", "l1_time", *columns)
            ):
                count += 1
                if not max(last, self._row.first) <= number <= self._row.last:
                    raise Contradiction(f"L1 block {number} is out of place in L1 blocks {self._row.range}")
                last = number
                self._check_l1(f"L1 block {number}", number, block_hash, time)
                if not file.path.startswith(f"{partition(table, time)}/"):
                    raise Contradiction(f"L1 block {number} with time {time} stands in {file.path}")
                yield number, *values
            if count != file.rows:
                raise Contradiction(f"{file.path} has {count} rows, {file.rows} in its manifest")

    def _read(self, table: Table, file: TableFile, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
        path = self._folder / file.path
        if path.suffix == ".parquet":
            check_schema(table, path)
        return rows(path, columns)

    def _check_l1(self, at: str, number: int, block_hash: str, time: int | None) -> None:
        """Each L1 block has one hash and one time in all tables."""
        if number == self._row.end.l1.number:
            self._l1_blocks.setdefault(number, (self._row.end.l1.hash or "", 0))
        known = self._l1_blocks.get(number)
        if known is None:
            if time is not None:
                self._l1_blocks[number] = block_hash, time
            return
        if known[0] != block_hash or (time is not None and known[1] not in (0, time)):
            raise Contradiction(f"{at}: L1 block {number} is {block_hash} with time {time}, elsewhere {known[0]}")
        if time is not None:
            self._l1_blocks[number] = block_hash, time


def _frame(last: tuple[int, int, int]) -> str:
    return "none" if last[0] < 0 else f"frame {last[2]} of item {last[1]} of L1 block {last[0]}"


def _shown(block: Block) -> str:
    return f"{block.number} {block.hash}"
