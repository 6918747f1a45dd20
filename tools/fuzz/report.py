"""The figures of runs, and the table that is made of them."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Figures:
    """A run of a target: inputs, seconds, how often each outcome came, the slowest input in milliseconds of CPU time,
    the peak memory of the process in MB, and a text for each distinct failure."""

    target: str
    inputs: int = 0
    seconds: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict)
    slowest_ms: float = 0.0
    peak_mb: int = 0
    findings: list[str] = field(default_factory=list)


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
        total.peak_mb = max(total.peak_mb, run.peak_mb)
        total.findings += run.findings
    return list(found.values())


def markdown_table(runs: Sequence[Figures]) -> str:
    """A row for each target, and their sum."""
    lines = [
        "| Target | Inputs | Seconds | Inputs a second | Outcomes | Slowest, ms | Failures |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = summed(runs)
    for row in rows:
        rate = row.inputs / row.seconds if row.seconds else 0
        lines.append(
            f"| {row.target} | {row.inputs:,} | {row.seconds:.0f} | {rate:,.0f} | {len(row.outcomes)} |"
            f" {row.slowest_ms:.1f} | {len(row.findings)} |"
        )
    inputs, seconds = sum(row.inputs for row in rows), sum(row.seconds for row in rows)
    failures = sum(len(row.findings) for row in rows)
    lines.append(f"| all | {inputs:,} | {seconds:.0f} | {inputs / seconds if seconds else 0:,.0f} | | | {failures} |")
    return "\n".join(lines)
