"""Every option has a test that sees its effect, marked by `@pytest.mark.option`; checked on the source text."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from rollup_node.node.options.table import OPTIONS
from rollup_node.tools.importers.marked_tests import Mark, marks
from tests.support.source_trees import tree_of

ROOT = Path(__file__).parent.parent
NO_EFFECT = "No effect."
"""Options with this help need no entry: tests/node/options/test_rules.py sees the warning of each."""


def _effects() -> list[tuple[str, Mark]]:
    """Return the options with the marks of their tests."""
    return [(name, mark) for mark in marks() if mark.name == "option" for name in mark.values]


def _function(path: Path, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    functions = (node for node in tree_of(path).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return next((function for function in functions if function.name == name), None)


def _given_names(node: ast.AST) -> Iterator[str]:
    """Yield what source text gives values to: keyword arguments, dictionary keys, and flags in strings.

    Arguments of tests that are parametrized count as well."""
    for part in ast.walk(node):
        if isinstance(part, ast.keyword):
            yield part.arg or ""
        elif isinstance(part, ast.arg):
            yield part.arg
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value.removeprefix("--").partition("=")[0]


def _helpers(path: Path) -> list[ast.stmt]:
    """Return the statements of a test file that are no tests."""
    return [node for node in tree_of(path).body if not getattr(node, "name", "").startswith("test_")]


@functools.cache
def _readers() -> dict[Path, str]:
    """Return the product's files but for the option table and the definitions of configurations."""
    files = [path for top in ("stages", "node") for path in (ROOT / top).rglob("*.py")]
    return {path: path.read_text() for path in files if path.name != "config.py" and path.parent.name != "options"}


@functools.cache
def _attributes(path: Path) -> frozenset[str]:
    """Return the attributes that a file reads."""
    return frozenset(node.attr for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute))


def _is_read(field: str) -> bool:
    """Whether the product reads an attribute. A file is parsed where its text has it."""
    return any(f".{field}" in text and field in _attributes(path) for path, text in _readers().items())


def test_every_option_has_a_test() -> None:
    expected = {name for name, option in OPTIONS.items() if option.help != NO_EFFECT}
    assert {name for name, _ in _effects()} == expected


def _givers(name: str, mark: Mark) -> set[str]:
    """Return what gives an option: what its test says, else its names and its field."""
    option = OPTIONS[name]
    field = option.config_field
    return {mark.options["by"]} if "by" in mark.options else {*option.names, *(field[1:] if field else ())}


def test_the_test_of_an_option_gives_it() -> None:
    for name, mark in _effects():
        file, _, function = mark.test.partition("::")
        path = ROOT / "tests" / file
        test = _function(path, function)
        assert test is not None, mark.test
        nodes = (*test.body, test.args, *_arguments(test), *_helpers(path))
        names = {item for node in nodes for item in _given_names(node)}
        prefixes, givers = tuple(item for item in names if item.endswith(".")), _givers(name, mark)
        assert givers & names or any(giver.startswith(prefixes) for giver in givers), (
            f"{mark.test} does not give {givers}"
        )


def _arguments(test: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    """Return the decorators of a test but for what marks options."""
    return [item for item in test.decorator_list if not ast.unparse(item).startswith("pytest.mark.option(")]


def test_what_gives_an_option_is_its_name_or_stems_from_its_field() -> None:
    for name, mark in _effects():
        option = OPTIONS[name]
        if _givers(name, mark) <= set(option.names):
            continue
        field = option.config_field
        assert field is not None, f"{name} sets no field: its names give it"
        assert _is_read(field[1]), f"nothing reads {field[1]}"
