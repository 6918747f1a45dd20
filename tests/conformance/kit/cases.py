"""Conformance cases by id: the case table, and decorators that turn functions into tests.

@case("frame_one_ok") def one_frame() -> None: ...

@table(frame_trunc_id=15, frame_trunc_num=17) def cut_off(size: int) -> None: ...

covered = CoveredCases(differs_d02=("frame_last_2",))

The conftest of this folder collects a node for each, whose name is the case's id. A function with `@case` takes
fixtures as usual; the parameters of one with `@table` are the row's values."""

import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., object])

FOLDER = Path(__file__).parents[1]
_MARK = "_conformance_cases"


class CoveredCases(dict[str, tuple[str, ...]]):
    """Cases by id that other tests cover: the names of other cases, or tests of other files such as
    `stages/x/test_y.py::test_z`, or `...::test_z[a-` for those whose parameters begin so."""


def case(id_: str) -> Callable[[Function], Function]:
    """Mark a function as the test of a case."""
    return lambda function: _marked(function, {id_: function})


def table(**rows: Any) -> Callable[[Function], Function]:
    """Mark a function as the tests of several cases, one for each row of arguments; a tuple is several arguments."""

    def mark(function: Function) -> Function:
        return _marked(function, {key: _bound(function, row) for key, row in rows.items()})

    return mark


def cases_of(value: object) -> dict[str, Callable[..., object]]:
    """Return the tests that a module's function is marked for, by case id."""
    result: dict[str, Callable[..., object]] = getattr(value, _MARK, {})
    return result


@cache
def ids_under_test() -> tuple[tuple[str, Path], ...]:
    """Return the case id and the file of every test; a case with two tests is listed twice."""
    result = []
    for path in sorted(FOLDER.glob("test_*.py")):
        module = importlib.import_module(f"tests.conformance.{path.stem}")
        for value in vars(module).values():
            result += [(key, path) for key in (value if isinstance(value, CoveredCases) else cases_of(value))]
    return tuple(result)


def file_and_test(name: str) -> tuple[Path, str]:
    """Return the file of a test that covers a case, and its name there."""
    path, _, test = name.rpartition("::")
    return FOLDER.parent / path if path else dict(ids_under_test())[name], test


def _marked(function: Function, cases: dict[str, Callable[..., object]]) -> Function:
    setattr(function, _MARK, {**cases_of(function), **cases})
    return function


def _bound(function: Callable[..., object], row: Any) -> Callable[[], object]:
    values = row if isinstance(row, tuple) else (row,)
    return lambda: function(*values)
