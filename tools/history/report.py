"""The report of a history: a page of HTML with charts as inline SVG, which needs no other file and no network."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.history.folder import HistoryFolder, RunFile
from rollup_node.tools.history.manifest import L1Range, ManifestRow, digest_of
from rollup_node.tools.history.row_checks import RangeRows
from rollup_node.tools.history.runner import INSTALL
from rollup_node.tools.history.start_stage import problems, progress
from rollup_node.tools.history.tables import Table, day_of

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
