"""Whether a scenario went as it has to."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import msgspec

from rollup_node.tools.faults.scenario import Scenario

MAX_MEMORY_MB = 500.0


@dataclass
class Observation:
    """What was seen of the node in a scenario.

    `texts` are the new lines of its log and the reasons of `/readyz`, `earlier` the lines of the minute before, in
    which a condition that comes back is not logged again [LOG19], `lines` the number of the new lines, `ended` the
    roles whose process is another one than before, `memory_mb` the proportional memory of its processes, `cores`
    their CPU seconds a second. `recovered_after` is in seconds, None if it did not recover; `applied` counts
    requests that met a fault; `problems` are the events that could not happen."""

    texts: list[str] = field(default_factory=list)
    earlier: list[str] = field(default_factory=list)
    lines: int = 0
    ended: tuple[str, ...] = ()
    memory_mb: float = 0.0
    cores: float = 0.0
    applied: int = 0
    recovered_after: float | None = None
    difference: str | None = None
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """The result of a scenario; `problems` are empty if it passed. `named` is the text that named the fault."""

    scenario: Scenario
    problems: tuple[str, ...]
    named: str
    seen: Observation

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def evaluate(scenario: Scenario, seen: Observation) -> Verdict:
    """Return the verdict on what was seen."""
    texts = (*seen.texts, *seen.earlier) if scenario.names else ()
    named = next((text for text in texts if re.search(scenario.names, text)), "")
    return Verdict(scenario, tuple(_problems(scenario, seen, named)), named, seen)


def _problems(scenario: Scenario, seen: Observation, named: str) -> list[str]:
    problems = [*seen.problems]
    if scenario.faults and not seen.applied:
        problems.append("no request met a fault")
    if seen.recovered_after is None:
        problems.append(f"the verifier did not recover within {scenario.recovers:g} s")
    if seen.difference is not None:
        problems.append(seen.difference)
    if scenario.names and not named:
        problems.append(f"neither log nor /readyz matched {scenario.names!r}")
    if ended := [role for role in seen.ended if not {role, "all"} & {*scenario.dies}]:
        problems.append(f"processes ended: {', '.join(ended)}")
    if seen.memory_mb > MAX_MEMORY_MB:
        problems.append(f"{seen.memory_mb:.0f} MB of memory, more than {MAX_MEMORY_MB:.0f}")
    if seen.cores > scenario.max_cores:
        problems.append(f"{seen.cores:.2f} cores of CPU, more than {scenario.max_cores:g}")
    if seen.lines > scenario.max_lines:
        problems.append(f"{seen.lines} lines of log, more than {scenario.max_lines}")
    return problems


def table(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each verdict, with what is wrong below, and a summary."""
    rows = []
    for verdict in verdicts:
        seen = verdict.seen
        after = "-" if seen.recovered_after is None else f"{seen.recovered_after:.1f} s"
        result = "ok" if verdict.passed else "FAILED"
        figures = (
            f"{after:>7} {seen.memory_mb:4.0f} MB {seen.cores:4.2f} cores {seen.lines:4} lines {seen.applied:5} met"
        )
        rows.append(f"{result:6} {verdict.scenario.name:44} {figures}  {_shown(verdict.named)}".rstrip())
        rows += [f"       {problem}" for problem in verdict.problems]
    failed = sum(not verdict.passed for verdict in verdicts)
    rows.append(f"{len(verdicts)} scenarios, {failed} failed{_trend(verdicts)}")
    return rows


def _trend(verdicts: Sequence[Verdict]) -> str:
    """Return the median memory of the first and of the last quarter of a long run."""
    quarter = len(verdicts) // 4
    if quarter < 5:
        return ""
    first, last = (median(item.seen.memory_mb for item in part) for part in (verdicts[:quarter], verdicts[-quarter:]))
    return f"; memory {first:.0f} MB in the first quarter, {last:.0f} MB in the last"


def _shown(text: str) -> str:
    """Return a line of log without its time, shortened."""
    return re.sub(r"^t=\S+ ", "", text)[:120]


def summary(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON."""
    seen = verdict.seen
    return {
        "name": verdict.scenario.name,
        "cases": list(verdict.scenario.cases),
        "passed": verdict.passed,
        "problems": list(verdict.problems),
        "named": verdict.named,
        "recovered_after_s": None if seen.recovered_after is None else round(seen.recovered_after, 1),
        "memory_mb": round(seen.memory_mb),
        "cores": round(seen.cores, 2),
        "lines": seen.lines,
        "requests_met": seen.applied,
    }


class ResultsError(ValueError):
    """A file has no results; the text says where and why."""


class ScenarioResult(msgspec.Struct, frozen=True):
    """One scenario of a run; times in seconds, memory in MB."""

    name: str
    cases: tuple[str, ...]
    passed: bool
    recovered_after_s: float | None
    memory_mb: float


class ScenarioRun(msgspec.Struct, frozen=True):
    """One run.

    `equal` says whether all nodes have the same output roots at its end, None where they were not compared; `load`
    is the machine's mean load over its last 15 minutes."""

    seed: int
    equal: bool | None
    commit: str
    machine: str
    load: float
    minutes: float
    scenarios: tuple[ScenarioResult, ...]

    @property
    def failed(self) -> int:
        """How many scenarios failed."""
        return sum(not scenario.passed for scenario in self.scenarios)


_DECODER = msgspec.json.Decoder(ScenarioRun)


def parse_run(line: bytes) -> ScenarioRun:
    """Return a run from its line of JSON. Raises ResultsError."""
    try:
        return _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise ResultsError(f"not the output of `tools/chaos run --json`: {error}") from None


def roots_text(are_equal: bool | None) -> str:
    """Whether the output roots of all nodes are equal, in words."""
    return "not compared" if are_equal is None else "equal" if are_equal else "DIFFER"


def results_table(runs: Sequence[ScenarioRun]) -> Iterator[str]:
    """Yield the runs, and their scenarios by name, as lines of Markdown."""
    yield "| Run | Commit | Seed | Minutes | Scenarios | Failed | Output roots | Load | Machine |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for number, run in enumerate(runs, start=1):
        cells = [number, run.commit, run.seed, f"{run.minutes:.0f}", len(run.scenarios), run.failed]
        cells.append(roots_text(run.equal))
        yield f"| {' | '.join(map(str, cells))} | {run.load:.1f} | {run.machine} |"
    yield ""
    yield "| Scenario | Cases | Passed | Recovery: median | Longest | Memory at most |"
    yield "|---|---|---|---|---|---|"
    by_name: dict[str, list[ScenarioResult]] = {}
    for run in runs:
        for scenario in run.scenarios:
            by_name.setdefault(scenario.name, []).append(scenario)
    for name, result in sorted(by_name.items()):
        times = [item.recovered_after_s for item in result if item.recovered_after_s is not None]
        recovery = f"{median(times):.1f} s | {max(times):.1f} s" if times else "- | -"
        passed = f"{sum(item.passed for item in result)} of {len(result)}"
        memory = max(item.memory_mb for item in result)
        yield f"| {name} | {' '.join(result[-1].cases)} | {passed} | {recovery} | {memory:.0f} MB |"
