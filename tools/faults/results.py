"""The results of several runs of scenarios, as `tools/chaos run --json` prints them, and their table."""

from collections.abc import Iterator, Sequence
from statistics import median

import msgspec


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
        return sum(not each.passed for each in self.scenarios)


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
        for each in run.scenarios:
            by_name.setdefault(each.name, []).append(each)
    for name, found in sorted(by_name.items()):
        times = [each.recovered_after_s for each in found if each.recovered_after_s is not None]
        recovery = f"{median(times):.1f} s | {max(times):.1f} s" if times else "- | -"
        passed = f"{sum(each.passed for each in found)} of {len(found)}"
        memory = max(each.memory_mb for each in found)
        yield f"| {name} | {' '.join(found[-1].cases)} | {passed} | {recovery} | {memory:.0f} MB |"
