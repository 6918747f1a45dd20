"""Finds the tests that name by a marker what they show.

The marker, as `@pytest.mark.fault("F5")`, is beside the test, or in `pytestmark` for all tests of a file. They are read
from the source text: a generator imports no tests.

| marker | its arguments |
|---|---|
| `option` | options whose effect the test sees; `by` is what gives them, unless it is their name or their field |
| `fault` | faults of tests/fault_cases.toml that the node survives; `"F21..F39"` are all of them |
| `condition` | conditions of tests/troubleshooting.toml that the test provokes |
| `sign` | codes that it sees in a `line` of the log with the remedy, in `readyz`, in `check` |"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).resolve().parents[2] / "tests"
NAMES = ("option", "fault", "condition", "sign")
_USE = re.compile(rf"\bpytest\.mark\.({'|'.join(NAMES)})\(")


class Mark(NamedTuple):
    """A marker of a test: `test` is `file::test` below tests/, or only the file."""

    name: str
    values: tuple[str, ...]
    options: dict[str, Any]
    test: str


@cache
def marks(tests: Path = TESTS) -> tuple[Mark, ...]:
    """Return all markers, ordered by the path of the file and the place in it."""
    files = sorted(path for path in tests.rglob("test_*.py") if _USE.search(path.read_text()))
    return tuple(mark for path in files for mark in _marks_of(path, path.relative_to(tests).as_posix()))


def marked(name: str, value: str, **options: Any) -> list[str]:
    """Return the tests with a marker of this name that has this value and these options."""
    return [
        mark.test
        for mark in marks()
        if mark.name == name and value in mark.values and options.items() <= mark.options.items()
    ]


def _marks_of(path: Path, file: str) -> Iterator[Mark]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                yield from _mark(decorator, f"{file}::{node.name}")
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            for part in node.value.elts if isinstance(node.value, ast.List) else [node.value]:
                yield from _mark(part, file)


def _mark(node: ast.expr, test: str) -> Iterator[Mark]:
    if isinstance(node, ast.Call) and _USE.match(f"{ast.unparse(node.func)}("):
        values = [value for argument in node.args for value in _expanded(str(ast.literal_eval(argument)))]
        options = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords if keyword.arg}
        yield Mark(ast.unparse(node.func).rpartition(".")[2], tuple(values), options, test)


def _expanded(value: str) -> list[str]:
    """`F2..F4` as F2, F3, F4."""
    first, dots, last = value.partition("..")
    return [f"F{number}" for number in range(int(first[1:]), int(last[1:]) + 1)] if dots else [value]
