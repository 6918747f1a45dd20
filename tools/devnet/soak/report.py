"""The report of soaks: JSON lines of runs, actions and minutes, which add up to totals."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import msgspec

from rollup_node.tools.devnet.soak.lanes import ROLES, Kind

MAX_PROBLEMS = 100
MAX_RUNS = 10_000
TENTHS = 3000
"""Recovery times are counted in tenths of a second, those above 300 s with that."""


class ReportError(ValueError):
    """A file is no report; the text says where and why."""


class RunStarted(msgspec.Struct, tag="run", frozen=True):
    """The beginning of a run at Unix time `at`. `commit` is that of the checkout, `machine` names cores and memory."""

    run: str
    at: float
    seed: int
    nodes: int
    commit: str
    machine: str
    pause: float


class ActionDone(msgspec.Struct, tag="action", frozen=True):
    """An action on a node, or on L1, at `at` seconds of the run.

    `recovery` is in seconds from its end, None if there was none within the bound or the run ended before; `problem`
    is empty if all went well."""

    run: str
    at: float
    node: str
    kind: Kind
    target: str
    seconds: float
    amount: int
    recovery: float | None
    problem: str = ""


class Minute(msgspec.Struct, tag="minute", frozen=True):
    """A minute of a node (or of the tool itself).

    The medians of memory in MB of PSS, descriptors and shared memory segments, and the lines of log."""

    run: str
    at: float
    node: str
    memory: float
    descriptors: int
    segments: int
    processes: int
    lines: int


class NodeTrend(msgspec.Struct, frozen=True):
    """What a node used in the first and in the last quarter of a run, and its lines of log a minute."""

    memory: tuple[float, float] | None
    descriptors: tuple[float, float] | None
    segments: tuple[float, float] | None
    median_lines: float
    most_lines: int


class RunEnded(msgspec.Struct, tag="end", frozen=True):
    """The end of a run after `seconds`.

    `blocks` is how many safe blocks were compared over all nodes, `equal` whether their output roots are; `load` is
    the machine's median load."""

    run: str
    seconds: float
    blocks: int
    equal: bool
    load: float
    trends: dict[str, NodeTrend]
    problems: tuple[str, ...]


Line = RunStarted | ActionDone | Minute | RunEnded
_DECODER = msgspec.json.Decoder(Line)


@dataclass
class RunSums:
    """The sums of one run; `end` is None for one that did not come to its end."""

    start: RunStarted
    seconds: float = 0.0
    kills: int = 0
    actions: int = 0
    end: RunEnded | None = None

    @property
    def passed(self) -> bool:
        """Whether it ended without a problem."""
        return self.end is not None and self.end.equal and not self.end.problems


@dataclass
class Recoveries:
    """The recovery times of some actions: `tenths` counts those of so many tenths of a second."""

    tenths: Counter[int] = field(default_factory=Counter)
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        """Add a recovery."""
        tenths = round(seconds * 10)
        self.tenths[min(TENTHS, tenths)] += 1
        self.longest = max(self.longest, tenths / 10)

    def within(self, part: float) -> float | None:
        """Return the time in seconds within which this part of the actions recovered; None without any."""
        wanted, seen = part * self.tenths.total(), 0
        for tenth in sorted(self.tenths):
            seen += self.tenths[tenth]
            if seen >= wanted:
                return tenth / 10
        return None

    @property
    def text(self) -> str:
        """Median, 99 % and longest in seconds."""
        half, most = self.within(0.5), self.within(0.99)
        if half is None or most is None:
            return "- | - | -"
        return f"{half:.1f} | {most:.1f} | {self.longest:.1f}"


@dataclass
class Totals:
    """The sums of all runs.

    `kills` counts by role, `kinds` the other actions; `recoveries` are those of all actions, `by_action` of each
    kind, where kills count by role."""

    runs: dict[str, RunSums] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    recoveries: Recoveries = field(default_factory=Recoveries)
    by_action: dict[str, Recoveries] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, line: Line) -> None:
        """Add a line. Raises ReportError for one of a run that has not begun."""
        if isinstance(line, RunStarted):
            if len(self.runs) == MAX_RUNS:
                raise ReportError(f"more than {MAX_RUNS} runs")
            self.runs[line.run] = RunSums(line)
            return
        run = self.runs.get(line.run)
        if run is None:
            raise ReportError(f"run {line.run} has no beginning")
        if isinstance(line, RunEnded):
            run.seconds, run.end = line.seconds, line
            self._problems(line.problems)
            return
        run.seconds = max(run.seconds, line.at)
        if isinstance(line, ActionDone):
            self._action(run, line)

    def _action(self, run: RunSums, line: ActionDone) -> None:
        run.actions += 1
        name = line.kind.value
        if line.kind is Kind.KILL:
            run.kills += 1
            role = line.target if line.target in ROLES else "another"
            self.kills[role] += 1
            name = f"kill {role}"
        else:
            self.kinds[name] += 1
        by_action = self.by_action.setdefault(name, Recoveries())
        if line.recovery is not None:
            self.recoveries.add(line.recovery)
            by_action.add(line.recovery)

    def _problems(self, texts: Iterable[str]) -> None:
        self.problems += list(texts)[: MAX_PROBLEMS - len(self.problems)]

    @property
    def hours(self) -> float:
        """The hours of all runs."""
        return sum(run.seconds for run in self.runs.values()) / 3600


def encode(line: Line) -> bytes:
    """Return a line of the file with its end."""
    return msgspec.json.encode(line) + b"\n"


def add_up(lines: Iterable[bytes]) -> Totals:
    """Return the sums over the lines of a report; an incomplete last line, of a run that was killed, does not count.

    Raises ReportError."""
    totals = Totals()
    for number, text in enumerate(lines, start=1):
        if not text.endswith(b"\n"):
            break
        if not text.strip():
            continue
        try:
            totals.add(_DECODER.decode(text))
        except (msgspec.DecodeError, ReportError) as error:
            raise ReportError(f"line {number}: {error}") from None
    return totals


def table(totals: Totals) -> Iterator[str]:
    """Yield the totals as lines of Markdown."""
    yield from _sums(totals)
    yield ""
    yield from _actions(totals)
    yield ""
    yield from _runs(totals)
    yield ""
    yield from _uses(totals)
    if totals.problems:
        yield ""
        yield from (f"* {problem}" for problem in totals.problems)


def _sums(totals: Totals) -> Iterator[str]:
    all_actions = totals.kills.total() + totals.kinds.total()
    yield "| | |"
    yield "|---|---|"
    yield f"| Time | {totals.hours:.2f} hours in {len(totals.runs)} runs |"
    yield f"| Kills | {totals.kills.total()} |"
    yield f"| Other actions | {totals.kinds.total()} |"
    yield f"| Without recovery | {all_actions - totals.recoveries.tenths.total()} |"
    blocks = sum(run.end.blocks for run in totals.runs.values() if run.end is not None)
    yield f"| Safe blocks compared | {blocks} |"


def _actions(totals: Totals) -> Iterator[str]:
    yield "| Action | Count | Recovery: median | 99 % within | Longest |"
    yield "|---|---|---|---|---|"
    counts = {f"kill {role}": count for role, count in totals.kills.items()} | dict(totals.kinds)
    for name, item in sorted(totals.by_action.items()):
        yield f"| {name} | {counts[name]} | {item.text} |"
    yield f"| all | {sum(counts.values())} | {totals.recoveries.text} |"


def _runs(totals: Totals) -> Iterator[str]:
    yield "| Run | Commit | Seed | Nodes | Minutes | Kills | Actions | Safe blocks | Result | Load | Machine |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for name, run in totals.runs.items():
        start, end = run.start, run.end
        blocks, load = ("-", "-") if end is None else (str(end.blocks), f"{end.load:.1f}")
        cells: list[Any] = [name, start.commit, start.seed, start.nodes, f"{run.seconds / 60:.0f}"]
        cells += [run.kills, run.actions, blocks, _result(run), load, start.machine]
        yield f"| {' | '.join(map(str, cells))} |"


def _result(run: RunSums) -> str:
    if run.end is None:
        return "did not end"
    if not run.end.equal:
        return "output roots differ"
    return "equal roots" + (f", {len(run.end.problems)} problems" if run.end.problems else "")


def _uses(totals: Totals) -> Iterator[str]:
    yield "| Run | Node | Memory, first and last quarter | Descriptors | Shared memory segments | Lines a minute |"
    yield "|---|---|---|---|---|---|"
    for name, run in totals.runs.items():
        for node, trend in run.end.trends.items() if run.end is not None else ():
            lines = f"{trend.median_lines:.0f}, at most {trend.most_lines}"
            yield (
                f"| {name} | {node} | {_pair(trend.memory, ' MB')} | {_pair(trend.descriptors)} "
                f"| {_pair(trend.segments)} | {lines} |"
            )


def _pair(values: tuple[float, float] | None, unit: str = "") -> str:
    return "-" if values is None else f"{values[0]:.0f} and {values[1]:.0f}{unit}"


MAX_VALUES = 256
WARM_UP = 0.1
"""The part of the values at the beginning that does not count."""

LEAST_VALUES = 8
"""With fewer values after the warm-up there is no trend."""


@dataclass(frozen=True)
class Quarters:
    """The medians of the first and of the last quarter of the values after the warm-up."""

    first: float
    last: float

    def grows(self, part: float, least: float) -> bool:
        """Whether the last is above the first by more than `part` of it and `least`."""
        return self.last > self.first * (1 + part) + least


class Trend:
    """The values of a figure, evenly spread over the run: of more than MAX_VALUES every second one is kept."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._every = 1
        self._met = 0

    def add(self, value: float) -> None:
        """Add the value of one more equal span of time."""
        if self._met % self._every == 0:
            self._values.append(value)
        self._met += 1
        if len(self._values) > MAX_VALUES:
            self._values = self._values[::2]
            self._every *= 2

    @property
    def values(self) -> Sequence[float]:
        """Those kept, oldest first."""
        return self._values

    def quarters(self) -> Quarters | None:
        """Return the medians that are compared; None with too few values."""
        counted = self._values[int(len(self._values) * WARM_UP) :]
        if len(counted) < LEAST_VALUES:
            return None
        quarter = len(counted) // 4
        return Quarters(median(counted[:quarter]), median(counted[-quarter:]))


class PageError(ValueError):
    """A page has no place for a table; the text is one line for the user."""


def marks(name: str) -> tuple[str, str]:
    """Return the lines around the table of this name."""
    return f"<!-- {name}: begin (generated) -->", f"<!-- {name}: end -->"


def with_table(page: str, name: str, lines: Sequence[str]) -> str:
    """Return a page with the table between its two marks. Raises PageError for a page without them."""
    first, last = marks(name)
    head, begin, rest = page.partition(first)
    _, end, tail = rest.partition(last)
    if not begin or not end:
        raise PageError(f"--page: it has no lines {first} and {last}")
    return "\n".join((head + begin, *lines, end + tail))
