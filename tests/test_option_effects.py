"""Every option has a test that sees its effect: the table of tests/option_effects.toml, checked on the source text."""

import ast
import functools
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollup_node.node.options.table import OPTIONS
from tests.support.source_trees import tree_of

ROOT = Path(__file__).parent.parent
NO_EFFECT = "No effect."
"""Options with this help need no entry: tests/node/options/test_rules.py sees the warning of each."""

EFFECTS = tomllib.loads((ROOT / "tests" / "option_effects.toml").read_text())


def _function(path: Path, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    functions = (node for node in tree_of(path).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return next((each for each in functions if each.name == name), None)


def _given_names(node: ast.AST) -> Iterator[str]:
    """What source text gives values to: keyword arguments, dictionary keys, and flags in strings; arguments of tests
    that are parametrized count as well."""
    for part in ast.walk(node):
        if isinstance(part, ast.keyword):
            yield part.arg or ""
        elif isinstance(part, ast.arg):
            yield part.arg
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value.removeprefix("--").partition("=")[0]


def _helpers(path: Path) -> list[ast.stmt]:
    """The statements of a test file that are no tests."""
    return [node for node in tree_of(path).body if not getattr(node, "name", "").startswith("test_")]


@functools.cache
def _readers() -> dict[Path, str]:
    """The product's files but for the option table and the definitions of configurations."""
    files = [path for top in ("stages", "node") for path in (ROOT / top).rglob("*.py")]
    return {path: path.read_text() for path in files if path.name != "config.py" and path.parent.name != "options"}


@functools.cache
def _attributes(path: Path) -> frozenset[str]:
    """The attributes that a file reads."""
    return frozenset(node.attr for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute))


def _is_read(field: str) -> bool:
    """Whether the product reads an attribute. A file is parsed where its text has it."""
    return any(f".{field}" in text and field in _attributes(path) for path, text in _readers().items())


def test_every_option_is_in_the_table() -> None:
    expected = {name for name, option in OPTIONS.items() if option.help != NO_EFFECT}
    assert set(EFFECTS) == expected


@pytest.mark.parametrize("name", EFFECTS)
def test_the_test_of_an_option_gives_it(name: str) -> None:
    test, given = EFFECTS[name]
    file, _, function = test.partition("::")
    path = ROOT / "tests" / file
    assert path.is_file(), f"{file} is missing"
    found = _function(path, function)
    assert found is not None, f"{test} is missing"
    names = {each for node in (found, *_helpers(path)) for each in _given_names(node)}
    prefixes = {each for each in names if each.endswith(".")}
    assert given in names or any(given.startswith(prefix) for prefix in prefixes), f"{test} does not give {given}"


@pytest.mark.parametrize("name", EFFECTS)
def test_what_gives_an_option_is_its_name_or_stems_from_its_field(name: str) -> None:
    option, given = OPTIONS[name], EFFECTS[name][1]
    if given in option.names:
        return
    field = option.config_field
    assert field is not None, "an option that sets no field is given by its name"
    assert _is_read(field[1]), f"nothing reads {field[1]}"
