"""The figures of runs, and the table that is made of them."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SLOW_MS = 50.0
"""An input that takes longer is counted and kept."""


@dataclass
class Figures:
    """A run of a target.

    Inputs, seconds, how often each outcome came, the slowest input in milliseconds of CPU time, the peak memory of the
    process in MB, a text for each distinct failure, and how many inputs took more than SLOW_MS."""

    target: str
    inputs: int = 0
    seconds: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict)
    slowest_ms: float = 0.0
    peak_mb: int = 0
    findings: list[str] = field(default_factory=list)
    slow: int = 0


def summed(runs: Sequence[Figures]) -> list[Figures]:
    """One entry for each target, in the order in which they first ran."""
    found: dict[str, Figures] = defaultdict(lambda: Figures(""))
    for run in runs:
        total = found[run.target]
        total.target = run.target
        total.inputs += run.inputs
        total.seconds += run.seconds
        total.outcomes = dict(Counter(total.outcomes) + Counter(run.outcomes))
        total.slowest_ms = max(total.slowest_ms, run.slowest_ms)
        total.slow += run.slow
        total.peak_mb = max(total.peak_mb, run.peak_mb)
        total.findings += run.findings
    return list(found.values())


def markdown_table(runs: Sequence[Figures], senders: Mapping[str, str]) -> str:
    """Return a row for each target, with who may send such bytes, and their sum."""
    lines = [
        "| Target | Sender | Inputs | Inputs a second | Outcomes | Slowest, ms | Over 50 ms | Failures |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = summed(runs)
    for row in rows:
        lines.append(
            f"| {row.target} | {senders.get(row.target, '')} | {row.inputs:,} | {_rate(row.inputs, row.seconds)} |"
            f" {len(row.outcomes)} | {row.slowest_ms:.1f} | {row.slow} | {len(row.findings)} |"
        )
    inputs, seconds = sum(row.inputs for row in rows), sum(row.seconds for row in rows)
    slow, failures = sum(row.slow for row in rows), sum(len(row.findings) for row in rows)
    lines.append(f"| all {len(rows)} | | {inputs:,} | {_rate(inputs, seconds)} | | | {slow} | {failures} |")
    return "\n".join(lines)


def _rate(inputs: int, seconds: float) -> str:
    return f"{inputs / seconds:,.0f}" if seconds else "0"
