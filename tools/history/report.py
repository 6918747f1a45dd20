"""The report of a history: a page of HTML with charts as inline SVG, which needs no other file and no network."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from rollup_node.tools.history.tables import day_of

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

    def add_blocks(self, found: Iterable[tuple[Any, ...]]) -> None:
        """Rows of `l2_blocks`: l1_time, time, bytes. The delay is from the block's time to that of its L1 block."""
        for l1_time, time, size in found:
            day = self.days[day_of(l1_time)]
            delay = max(0, l1_time - time)
            day.blocks += 1
            day.bytes += size
            day.delay += delay
            day.longest = max(day.longest, delay)

    def add_batches(self, found: Iterable[tuple[Any, ...]]) -> None:
        """Rows of `batches`: l1_time."""
        for (l1_time,) in found:
            self.days[day_of(l1_time)].batches += 1

    def add_drops(self, found: Iterable[tuple[Any, ...]]) -> None:
        """Rows of `drops`: rule, effect, reason."""
        self.drops.update((str(rule), str(effect), str(reason)) for rule, effect, reason in found)


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
    found: list[tuple[str, ...]] = [(*key, str(count)) for key, count in ordered[:MAX_RULES]]
    rest = sum(count for _, count in ordered[MAX_RULES:])
    return [*found, ("others", "", "", str(rest))] if rest else found


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in body]
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    return f"<table><tr>{heads}</tr>{''.join(lines)}</table>" if lines else "<p>none</p>"


def _list(lines: Sequence[str]) -> str:
    if not lines:
        return "<p>none</p>"
    more = [f"and {len(lines) - MAX_GAPS} more"] if len(lines) > MAX_GAPS else []
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in [*lines[:MAX_GAPS], *more])}</ul>"
