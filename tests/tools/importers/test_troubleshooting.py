"""docs/troubleshooting.md: each of the sixteen conditions has tests, codes that exist, and options that
exist."""

import ast
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
SIGNS = [(name, sign) for name, condition in CONDITIONS.items() for sign in condition.seen_signs()]
LONGEST = 30
of_each_sign = pytest.mark.parametrize(("name", "sign"), SIGNS, ids=[f"{name} {sign.code}" for name, sign in SIGNS])
FLAGS_OF_COMMANDS = {"watch", "override.FORK"}


def test_all_conditions_are_there() -> None:
    assert list(CONDITIONS) == [f"C{number}" for number in range(1, 17)]


def test_markers_name_conditions_and_codes_of_the_table() -> None:
    of = {kind: {value for mark in marks() if mark.name == kind for value in mark.values} for kind in NAMES}
    assert of["condition"] <= set(CONDITIONS)
    assert of["sign"] == {sign.code for _, sign in SIGNS}


@pytest.mark.parametrize("name", CONDITIONS)
def test_each_condition_has_tests(name: str) -> None:
    signs = (sign for of, sign in SIGNS if of == name)
    shown = {test for sign in signs for test in (*sign.lines, *sign.readyz, *sign.check)}
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


def test_each_condition_has_a_sign_with_one_of_its_codes() -> None:
    assert {name for name, _ in SIGNS} == set(CONDITIONS)
    for name, condition in CONDITIONS.items():
        assert set(condition.signs) <= {sign.code for of, sign in SIGNS if of == name}, name


@of_each_sign
def test_its_line_has_the_code_and_the_remedy_within_half_a_minute(name: str, sign: Sign) -> None:
    assert sign.delay.number <= LONGEST, f"{sign.code} comes after {sign.delay.number} s"
    for test in sign.lines:
        text = source(test)
        assert names(text, sign.code) and "remedy" in text, f"{test} does not see the code and the remedy"


@of_each_sign
def test_it_is_shown_in_readyz_or_in_check(name: str, sign: Sign) -> None:
    assert sign.readyz or sign.check
    for test in sign.readyz:
        text = source(test)
        assert names(text, sign.code) and re.search("problem|reason|fault|report|unavailable", text), test
    for test in sign.check:
        assert test.startswith(("node/checks/", "tools/preflight/", "tools/commands/test_check.py::"))
        assert names(source(test), sign.delay.check_code or sign.code), test


@pytest.mark.parametrize("name", CONDITIONS)
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
