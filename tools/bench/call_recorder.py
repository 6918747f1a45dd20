"""Which native calls a piece of our code makes, so that they can be timed alone: the bound of what Python adds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Recorded = list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]


@contextmanager
def recording(*functions: Callable[..., Any]) -> Iterator[Recorded]:
    """Notes every call of `functions` made through our own modules' names, with its arguments."""
    calls: Recorded = []
    replaced: list[tuple[Any, str, Any]] = []
    for function in functions:
        wrapper = _noting(function, calls)
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


def _noting(function: Callable[..., Any], calls: Recorded) -> Callable[..., Any]:
    def noted(*arguments: Any, **named: Any) -> Any:
        calls.append((function, arguments, named))
        return function(*arguments, **named)

    return noted


def seconds_of(calls: Recorded) -> float:
    """How long the calls take by themselves."""
    started = time.perf_counter()
    for function, arguments, named in calls:
        function(*arguments, **named)
    return time.perf_counter() - started
