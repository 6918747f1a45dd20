"""The report of a history: a page of HTML with charts as inline SVG, which needs no other file and no network."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.history.folder import HistoryFolder, RunFile
from rollup_node.tools.history.manifest import Block, L1Range, ManifestRow, TableFile, digest_of
from rollup_node.tools.history.runner import INSTALL
from rollup_node.tools.history.start_stage import problems, progress
from rollup_node.tools.history.tables import Table, check_schema, day_of, partition, rows
from rollup_node.tools.inspect.channel_sources import MAX_CHANNELS

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


WIDTH, HEIGHT, LEFT, BOTTOM = 860, 160, 60, 18
MAX_RULES = 40
MAX_GAPS = 100
STYLE = """body{font:14px system-ui,sans-serif;max-width:900px;margin:2em auto;color:#222}h2{font-size:1.1em}
rect{fill:#36c}text{font:11px system-ui,sans-serif;fill:#444}td,th{padding:.1em .8em;text-align:left}"""


class DayValues:
    """What is summed up of one UTC day of L1."""

    def __init__(self) -> None:
        self.blocks = self.bytes = self.batches = self.delay = self.longest = 0


class ReportValues:
    """Sums up rows; memory is bounded by days and rules, whatever the rows."""

    def __init__(self) -> None:
        self.days: dict[str, DayValues] = defaultdict(DayValues)
        self.drops: Counter[tuple[str, str, str]] = Counter()

    def add_blocks(self, value: Iterable[tuple[Any, ...]]) -> None:
        """Rows of `l2_blocks`: l1_time, time, bytes. The delay is from the block's time to that of its L1 block."""
        for l1_time, time, size in value:
            day = self.days[day_of(l1_time)]
            delay = max(0, l1_time - time)
            day.blocks += 1
            day.bytes += size
            day.delay += delay
            day.longest = max(day.longest, delay)

    def add_batches(self, value: Iterable[tuple[Any, ...]]) -> None:
        """Rows of `batches`: l1_time."""
        for (l1_time,) in value:
            self.days[day_of(l1_time)].batches += 1

    def add_drops(self, value: Iterable[tuple[Any, ...]]) -> None:
        """Rows of `drops`: rule, effect, reason."""
        self.drops.update((str(rule), str(effect), str(reason)) for rule, effect, reason in value)


def report_page(title: str, values: ReportValues, gaps: Sequence[str]) -> str:
    """Return the page. `gaps` are lines about what is missing."""
    days = dict(sorted(values.days.items()))
    per_block = {name: day.bytes / day.blocks for name, day in days.items() if day.blocks}
    delay = {name: day.delay / day.blocks for name, day in days.items() if day.blocks}
    longest = {name: float(day.longest) for name, day in days.items() if day.blocks}
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>",
        f"<h1>{escape(title)}</h1><p>{sum(day.blocks for day in days.values())} L2 blocks, "
        f"{sum(day.batches for day in days.values())} batches, {values.drops.total()} drops "
        f"on {len(days)} days of L1</p>",
        _chart("Bytes of transactions per L2 block", per_block),
        _chart("Batches per day", {name: float(day.batches) for name, day in days.items()}),
        _chart("Inclusion delay in seconds, mean of the day", delay),
        _chart("Inclusion delay in seconds, longest of the day", longest),
        "<h2>Drops by rule</h2>",
        _table(("rule", "effect", "reason", "drops"), _drop_rows(values.drops)),
        "<h2>Gaps</h2>",
        _list(gaps),
        "</html>\n",
    ]
    return "\n".join(parts)


def _chart(title: str, bars: Mapping[str, float]) -> str:
    """Return a bar chart of one value a day."""
    if not bars:
        return f"<h2>{escape(title)}</h2><p>none</p>"
    most = max(bars.values()) or 1.0
    step = (WIDTH - LEFT) / len(bars)
    shapes = []
    for index, (name, value) in enumerate(bars.items()):
        height = (HEIGHT - BOTTOM - 10) * value / most
        x, y = LEFT + index * step, HEIGHT - BOTTOM - height
        shapes.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(0.5, step * 0.85):.2f}" height="{height:.2f}">'
            f"<title>{escape(name)}: {value:,.1f}</title></rect>"
        )
    names = list(bars)
    labels = f'<text x="0" y="12">{most:,.0f}</text><text x="0" y="{HEIGHT - BOTTOM}">0</text>'
    labels += f'<text x="{LEFT}" y="{HEIGHT - 4}">{escape(names[0])}</text>'
    if len(names) > 1:
        labels += f'<text x="{WIDTH}" y="{HEIGHT - 4}" text-anchor="end">{escape(names[-1])}</text>'
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(shapes)}{labels}</svg>'
    return f"<h2>{escape(title)}</h2>{svg}"


def _drop_rows(drops: Counter[tuple[str, str, str]]) -> list[tuple[str, ...]]:
    ordered = sorted(drops.items(), key=lambda item: (-item[1], item[0]))
    result: list[tuple[str, ...]] = [(*key, str(count)) for key, count in ordered[:MAX_RULES]]
    rest = sum(count for _, count in ordered[MAX_RULES:])
    return [*result, ("others", "", "", str(rest))] if rest else result


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in body]
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    return f"<table><tr>{heads}</tr>{''.join(lines)}</table>" if lines else "<p>none</p>"


def _list(lines: Sequence[str]) -> str:
    if not lines:
        return "<p>none</p>"
    more = [f"and {len(lines) - MAX_GAPS} more"] if len(lines) > MAX_GAPS else []
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in [*lines[:MAX_GAPS], *more])}</ul>"


def history_problems(folder: HistoryFolder, run: RunFile) -> Iterator[str]:
    """Everything that keeps the files from being one gapless history of the plan, a line each.

    Raises SetupError for Parquet without pyarrow."""
    rows, damaged = folder.readable_manifests()
    yield from damaged
    yield from _strangers(rows, run)
    yield from problems(run.plan, rows, run.config.digest)
    for row in progress(run.plan, rows, run.config.digest).done.values():
        for text in (*folder.file_problems(row), *_row_problems(folder, row)):
            yield f"L1 blocks {row.range}: {text}"
    yield from folder.files_of_no_range(set(rows))


def history_digest(rows: Mapping[L1Range, ManifestRow]) -> str:
    """SHA-256 of the states and files of all ranges, in hex.

    That of the tables, whenever and wherever they were written."""
    ordered = sorted(rows.items())
    return digest_of([(item.first, item.last, row.start, row.end, sorted(row.files, key=str)) for item, row in ordered])


def _strangers(rows: Mapping[str, ManifestRow], run: RunFile) -> Iterator[str]:
    """Manifests that are not of this run's ranges."""
    plan = {item.name: item for item in run.plan}
    for name, row in rows.items():
        path = f"manifest/{name}.json"
        if row.range.name != name:
            yield f"{path}: it is that of L1 blocks {row.range}"
        elif name not in plan:
            yield f"{path}: the run has no range of L1 blocks {row.range}"
        elif row.config != run.config.digest:
            yield f"{path}: it is of another run"
        elif row.range != plan[name]:
            yield f"{path}: it ends at L1 block {row.last}, its range at {plan[name].last}"


def _row_problems(folder: HistoryFolder, row: ManifestRow) -> Iterator[str]:
    listed: set[str] = set()
    for file in row.files:
        table, _, rest = file.path.partition("/")
        is_placed = table == file.table and table in set(Table) and rest.startswith("day=")
        if not is_placed or rest.count("/") != 1 or f"/{row.range.name}." not in rest or file.path in listed:
            yield f"its manifest has {file.path} as a file of {file.table}"
            return
        listed.add(file.path)
    try:
        yield from RangeRows(folder.path, row).problems()
    except ModuleNotFoundError as error:
        raise SetupError(f"the rows of Parquet files need the package {error.name}: {INSTALL}") from None
