"""docs/troubleshooting.md: each of the sixteen conditions has tests, codes that exist, and options that
exist."""

import ast
import functools
import re
from pathlib import Path

import pytest

from rollup_node.node.options.table import OPTIONS
from rollup_node.stages.messages.codes import Code
from rollup_node.tools.importers.marked_tests import NAMES, marked, marks
from rollup_node.tools.importers.troubleshooting import Sign, conditions
from tests.support.source_trees import tree_of

TESTS = Path(__file__).parents[2]
CONDITIONS = conditions()
LONGEST = 30
of_each_condition = pytest.mark.parametrize("name", CONDITIONS)
FLAGS_OF_COMMANDS = {"watch", "override.FORK"}


@functools.cache
def signs(name: str) -> list[Sign]:
    """Return the signs of a condition that tests see."""
    return CONDITIONS[name].seen_signs()


def test_all_conditions_are_there() -> None:
    assert list(CONDITIONS) == [f"C{number}" for number in range(1, 17)]


def test_markers_name_conditions_and_codes_of_the_table() -> None:
    of = {kind: {value for mark in marks() if mark.name == kind for value in mark.values} for kind in NAMES}
    assert of["condition"] <= set(CONDITIONS)
    assert of["sign"] == {sign.code for name in CONDITIONS for sign in signs(name)}


@of_each_condition
def test_each_condition_has_tests(name: str) -> None:
    shown = {test for sign in signs(name) for test in (*sign.lines, *sign.readyz, *sign.check)}
    assert len(shown | set(marked("condition", name))) >= 2


def source(test: str) -> str:
    """Return the lines of a test with those of its module's functions and constants that it names, and its
    parameters."""
    file, _, function = test.partition("::")
    text = (TESTS / file).read_text()
    nodes: dict[str, ast.stmt] = {}
    for node in tree_of(TESTS / file).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        nodes |= {target.id: node for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes[node.name] = node
    assert function in nodes, f"{test} is missing"
    result, open_ = set[str](), [function]
    while open_:
        name = open_.pop()
        result.add(name)
        used = {item.id for item in ast.walk(nodes[name]) if isinstance(item, ast.Name)}
        open_ += [item for item in used & set(nodes) if item not in result]
    lines = text.splitlines()
    spans = [(_first_line(nodes[name]), nodes[name].end_lineno) for name in sorted(result)]
    used_lines = (line for first, last in spans for line in lines[first - 1 : last])
    return "\n".join(line for line in used_lines if not line.startswith("@pytest.mark.sign("))


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def names(text: str, code: str) -> bool:
    """Whether a source names a code, as text or as a member of the table."""
    return code in text or re.search(rf"Code\.{code.replace('-', '_')}\b", text) is not None


@of_each_condition
def test_each_condition_has_a_sign_with_one_of_its_codes(name: str) -> None:
    assert signs(name) and set(CONDITIONS[name].signs) <= {sign.code for sign in signs(name)}


@of_each_condition
def test_the_line_has_the_code_and_the_remedy_within_half_a_minute(name: str) -> None:
    for sign in signs(name):
        assert sign.delay.number <= LONGEST, f"{sign.code} comes after {sign.delay.number} s"
        for test in sign.lines:
            text = source(test)
            assert names(text, sign.code) and "remedy" in text, f"{test} does not see the code and the remedy"


@of_each_condition
def test_each_sign_is_shown_in_readyz_or_in_check(name: str) -> None:
    for sign in signs(name):
        assert sign.readyz or sign.check, sign.code
        for test in sign.readyz:
            text = source(test)
            assert names(text, sign.code) and re.search("problem|reason|fault|report|unavailable", text), test
        for test in sign.check:
            assert test.startswith(("node/checks/", "tools/preflight/", "tools/commands/test_check.py::"))
            assert names(source(test), sign.delay.check_code or sign.code), test


@of_each_condition
def test_its_codes_and_options_exist(name: str) -> None:
    condition = CONDITIONS[name]
    assert condition.codes, "each condition has a code"
    assert set(condition.codes) <= {code.text for code in Code}
    flags = set(re.findall(r"--([a-zA-Z][a-zA-Z0-9.-]*[a-zA-Z0-9])", condition.shows + condition.do))
    options = {name for option in OPTIONS.values() for name in option.names}
    assert flags - options - FLAGS_OF_COMMANDS == set()


def test_codes_of_conditions_that_last_are_all_explained() -> None:
    shown = {code for condition in CONDITIONS.values() for code in condition.codes}
    assert {code.text for code in Code if not (code.is_finding or code.is_event)} <= shown
