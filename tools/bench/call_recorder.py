"""Records the native calls that a piece of code makes, to time them alone: the floor under what Python can reach."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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
