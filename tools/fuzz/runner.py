"""Runs one target over many inputs, and notes what they end in."""

import gc
import signal
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from resource import RUSAGE_SELF, getrusage
from types import FrameType

from rollup_node.tools.fuzz.mutations import mutated
from rollup_node.tools.fuzz.targets.target import FuzzTarget

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
    result: dict[str, Figures] = defaultdict(lambda: Figures(""))
    for run in runs:
        total = result[run.target]
        total.target = run.target
        total.inputs += run.inputs
        total.seconds += run.seconds
        total.outcomes = dict(Counter(total.outcomes) + Counter(run.outcomes))
        total.slowest_ms = max(total.slowest_ms, run.slowest_ms)
        total.slow += run.slow
        total.peak_mb = max(total.peak_mb, run.peak_mb)
        total.findings += run.findings
    return list(result.values())


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


GENERATED = 40
"""Valid inputs that are generated besides those of the corpus."""
NEW_VALID = 0.12
"""The share of inputs that are new valid ones with one change."""
MAX_POOL = 400
"""Inputs that are mutated: an input with an outcome that no other had joins them."""
MAX_INPUT_SECONDS = 5.0
"""Seconds of CPU time of one input."""
MAX_INPUT_MEMORY = 200_000
"""KB by which one input may raise the peak memory of the process."""
FAILED = "FAILED"
MAX_SLOW_KEPT = 9


class TooSlowError(Exception):
    """An input takes more than MAX_INPUT_SECONDS."""


class TooMuchMemoryError(Exception):
    """An input raises the peak memory by more than MAX_INPUT_MEMORY."""


class Runner:
    """Feeds inputs to one target. Each distinct failing input, and slow ones, are written to `failures`."""

    def __init__(self, name: str, target: FuzzTarget, failures: Path) -> None:
        self.figures = Figures(name)
        self._target, self._failures = target, failures
        self._failed: set[str] = set()
        self._peak = getrusage(RUSAGE_SELF).ru_maxrss

    def run(self, corpus: Sequence[bytes], seed: int, seconds: float | None, inputs: int | None) -> Figures:
        """Run valid inputs, then mutated ones, until `seconds` or `inputs` are over.

        The same seed and corpus give the same inputs. Raises OSError when a failing input cannot be written."""
        chance, target = Random(f"{self.figures.target}/{seed}"), self._target
        pool = [*corpus, *(target.seed(chance) for _ in range(GENERATED))]
        first, began = len(pool), time.monotonic()
        previous = signal.signal(signal.SIGVTALRM, _too_slow)
        # A collection of all objects of the program would count as the time of an input. They stay frozen: others may
        # have frozen some before.
        gc.freeze()
        try:
            while inputs is None or self.figures.inputs < inputs:
                number = self.figures.inputs
                if seconds is not None and not number & 63 and time.monotonic() - began >= seconds:
                    break
                data = pool[number] if number < first else self._mutated(chance, pool)
                if self.run_input(data) and number >= first and len(pool) < MAX_POOL:
                    pool.append(data)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, previous)
        self.figures.seconds += time.monotonic() - began
        self.figures.peak_mb = self._peak // 1024
        return self.figures

    def run_input(self, data: bytes) -> bool:
        """Run one input; whether its outcome is new. Raises OSError when a failing input cannot be written."""
        figures = self.figures
        figures.inputs += 1
        began = time.thread_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, MAX_INPUT_SECONDS)
        try:
            outcome = outcome_of(self._target, data)
            self._check_memory()
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            outcome = f"{FAILED}: {type(error).__name__} in {_place(error)}"
            self._note_failure(outcome, error, data)
        took = 1000 * (time.thread_time() - began)
        if took > SLOW_MS and not outcome.startswith(FAILED):
            took = min(took, self._again(data))
            if took > SLOW_MS:
                figures.slow += 1
                self._keep(f"slow-{figures.slow}" if figures.slow <= MAX_SLOW_KEPT else "slow", data)
        figures.slowest_ms = max(figures.slowest_ms, took)
        figures.outcomes[outcome] = seen = figures.outcomes.get(outcome, 0) + 1
        return seen == 1

    def _mutated(self, chance: Random, pool: Sequence[bytes]) -> bytes:
        """Return an input of the pool, changed, or a new valid one with a single change, which mostly is understood."""
        target = self._target
        if chance.random() < NEW_VALID:
            return mutated(chance, target.seed(chance), pool, target.tokens, most=1)
        return mutated(chance, chance.choice(pool), pool, target.tokens)

    def _again(self, data: bytes) -> float:
        """Milliseconds of CPU time of a second run, without what the first input of a target sets up."""
        began = time.thread_time()
        outcome_of(self._target, data)
        return 1000 * (time.thread_time() - began)

    def _keep(self, name: str, data: bytes) -> Path:
        path = self._failures / f"{self.figures.target}-{name}.bin"
        self._failures.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def _check_memory(self) -> None:
        peak = getrusage(RUSAGE_SELF).ru_maxrss
        grown, self._peak = peak - self._peak, peak
        if grown > MAX_INPUT_MEMORY:
            raise TooMuchMemoryError(f"{grown} KB")

    def _note_failure(self, outcome: str, error: BaseException, data: bytes) -> None:
        if outcome in self._failed:
            return
        self._failed.add(outcome)
        path = self._keep(str(len(self._failed)), data)
        last = "".join(traceback.format_exception(error)[-3:])
        self.figures.findings.append(f"{self.figures.target}: input {self.figures.inputs}, written to {path}: {last}")


def outcome_of(target: FuzzTarget, data: bytes) -> str:
    """How an input ends: what the target returns, or its documented error. Raises any other exception, a failure."""
    try:
        return str(target.run(data))
    except target.errors as error:
        return f"{type(error).__name__} in {_place(error)}"


def replayed(target: FuzzTarget, data: bytes) -> tuple[str, str]:
    """How an input ends, and the traceback of a failure, empty where it is none."""
    try:
        return outcome_of(target, data), ""
    except Exception as error:
        return f"{FAILED}: {type(error).__name__} in {_place(error)}", traceback.format_exc()


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlowError(f"more than {MAX_INPUT_SECONDS:g} s of CPU time")


def _place(error: BaseException) -> str:
    """Return the function and line where an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "nowhere" if trace is None else f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}"
