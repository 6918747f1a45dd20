"""Shared by all benchmarks: repetition after a warm-up, medians with bounds and floors, a line about the machine."""

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """A measured quantity with the values of all runs; its median must not exceed `bound` nor fall below `floor`."""

    name: str
    unit: str
    runs: tuple[float, ...]
    bound: float | None = None
    floor: float | None = None

    @property
    def median(self) -> float:
        """The median of the runs."""
        return statistics.median(self.runs)

    @property
    def is_missed(self) -> bool:
        """Whether the median exceeds the bound or falls below the floor."""
        above = self.bound is not None and self.median > self.bound
        return above or (self.floor is not None and self.median < self.floor)


def machine() -> str:
    """One line with CPU, kernel, Python version and load."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} x {model}, Linux {platform.release()}, Python {platform.python_version()}, load {load:.1f}"
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def repeat(runs: int, warm_up: int, measure: Callable[[], float]) -> tuple[float, ...]:
    """Return the values of `runs` measurements after `warm_up` that are discarded."""
    for _ in range(warm_up):
        measure()
    return tuple(measure() for _ in range(runs))


def show(title: str, figures: Sequence[Figure]) -> int:
    """Print the figures; 1 when a median exceeds its bound or falls below its floor."""
    print(title)
    print(f"  {machine()}")
    failed = 0
    for figure in figures:
        failed |= figure.is_missed
        checks = ""
        for name, limit, sign in (("bound", figure.bound, 1), ("floor", figure.floor, -1)):
            if limit is not None:
                good = sign * figure.median <= sign * limit
                checks += f"  {name} {limit:g}: {'held' if good else 'MISSED'}"
        low, high = min(figure.runs), max(figure.runs)
        print(
            f"  {figure.name:<44} {figure.median:10.3f} {figure.unit:<6} "
            f"({low:.3f} to {high:.3f}, {len(figure.runs)} runs){checks}"
        )
    sys.stdout.flush()
    return failed


Recorded = list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]


@contextmanager
def recording(*functions: Callable[..., Any]) -> Iterator[Recorded]:
    """Record every call of `functions` through a name in one of our modules, with its arguments.

    Native functions have no hook, so each module's name for one is replaced by a wrapper while the context lasts."""
    calls: Recorded = []
    replaced: list[tuple[Any, str, Any]] = []
    for function in functions:
        wrapper = _wrapper(function, calls)
        for name, module in list(sys.modules.items()):
            if not name.startswith("rollup_node."):
                continue
            for attribute, value in list(vars(module).items()):
                if value is function:
                    replaced.append((module, attribute, value))
                    setattr(module, attribute, wrapper)
    try:
        yield calls
    finally:
        for module, attribute, value in replaced:
            setattr(module, attribute, value)


def _wrapper(function: Callable[..., Any], calls: Recorded) -> Callable[..., Any]:
    def recorded(*arguments: Any, **named: Any) -> Any:
        calls.append((function, arguments, named))
        return function(*arguments, **named)

    return recorded


def seconds_of(calls: Recorded) -> float:
    """Wall-clock seconds of the recorded calls alone."""
    started = time.perf_counter()
    for function, arguments, named in calls:
        function(*arguments, **named)
    return time.perf_counter() - started
