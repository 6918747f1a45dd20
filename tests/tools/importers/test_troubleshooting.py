"""docs/troubleshooting.md: each of the fifteen conditions has tests that exist, codes that exist, and options that
exist."""

import ast
import re
from pathlib import Path

import pytest

from rollup_node.node.options.table import OPTIONS
from rollup_node.stages.messages.codes import Code
from rollup_node.tools.importers.troubleshooting import PAGE, Sign, conditions, main, page
from tests.support.source_trees import tree_of

TESTS = Path(__file__).parents[2]
CONDITIONS = conditions()
FLAGS_OF_COMMANDS = {"watch", "override.FORK"}


def test_the_document_is_current() -> None:
    assert PAGE.read_text() == page(), "run python -m rollup_node.tools.importers.troubleshooting"


def test_all_conditions_are_there() -> None:
    assert list(CONDITIONS) == [f"C{number}" for number in range(1, 16)]


@pytest.mark.parametrize("name", CONDITIONS)
def test_its_tests_exist(name: str) -> None:
    assert len(CONDITIONS[name].tests) >= 2
    for test in CONDITIONS[name].tests:
        file, _, function = test.partition("::")
        names = {getattr(node, "name", "") for node in tree_of(TESTS / file).body}
        assert function.startswith("test_") and function in names, f"{test} is missing"


LONGEST = 30
SIGNS = [(name, sign) for name, condition in CONDITIONS.items() for sign in condition.signs]


def source(test: str) -> str:
    """The lines of a test with those of its module's functions and constants that it names, and its parameters."""
    file, _, function = test.partition("::")
    text = (TESTS / file).read_text()
    nodes: dict[str, ast.stmt] = {}
    for node in tree_of(TESTS / file).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        nodes |= {each.id: node for each in targets if isinstance(each, ast.Name)}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes[node.name] = node
    assert function in nodes, f"{test} is missing"
    found, open_ = set[str](), [function]
    while open_:
        name = open_.pop()
        found.add(name)
        used = {each.id for each in ast.walk(nodes[name]) if isinstance(each, ast.Name)}
        open_ += [each for each in used & set(nodes) if each not in found]
    lines = text.splitlines()
    spans = [(_first_line(nodes[name]), nodes[name].end_lineno) for name in sorted(found)]
    return "\n".join("\n".join(lines[first - 1 : last]) for first, last in spans)


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def names(text: str, code: str) -> bool:
    """Whether a source names a code, as text or as a member of the table."""
    return code in text or re.search(rf"Code\.{code.replace('-', '_')}\b", text) is not None


def test_each_condition_has_a_sign_with_one_of_its_codes() -> None:
    for name, condition in CONDITIONS.items():
        assert condition.signs, name
        assert {sign.code for sign in condition.signs} <= set(condition.codes), name


@pytest.mark.parametrize(("name", "sign"), SIGNS, ids=[f"{name} {sign.code}" for name, sign in SIGNS])
def test_its_line_has_the_code_and_the_remedy_within_half_a_minute(name: str, sign: Sign) -> None:
    assert sign.delay <= LONGEST, f"{sign.code} comes after {sign.delay} s"
    text = source(sign.line)
    assert names(text, sign.code) and "remedy" in text, f"{sign.line} does not see the code and the remedy"


@pytest.mark.parametrize(("name", "sign"), SIGNS, ids=[f"{name} {sign.code}" for name, sign in SIGNS])
def test_it_is_shown_in_readyz_or_in_check(name: str, sign: Sign) -> None:
    assert sign.readyz or sign.check
    if sign.readyz:
        text = source(sign.readyz)
        assert names(text, sign.code) and re.search("problem|reason|fault|report|unavailable", text), sign.readyz
    if sign.check:
        assert sign.check.startswith(("node/checks/", "tools/preflight/", "tools/commands/test_check.py::"))
        assert names(source(sign.check), sign.check_code or sign.code), sign.check


@pytest.mark.parametrize("name", CONDITIONS)
def test_its_codes_and_options_exist(name: str) -> None:
    condition = CONDITIONS[name]
    assert condition.codes, "each condition has a code"
    assert set(condition.codes) <= {code.text for code in Code}
    flags = set(re.findall(r"--([a-zA-Z][a-zA-Z0-9.-]*[a-zA-Z0-9])", condition.shows + condition.do))
    options = {each for option in OPTIONS.values() for each in option.names}
    assert flags - options - FLAGS_OF_COMMANDS == set()


def test_codes_of_conditions_that_last_are_all_explained() -> None:
    shown = {code for condition in CONDITIONS.values() for code in condition.codes}
    assert {code.text for code in Code if not (code.is_finding or code.is_event)} <= shown


def test_the_command_writes_the_file(tmp_path: Path) -> None:
    out = tmp_path / "page.md"
    assert main(["--out", str(out)]) == 0
    assert out.read_text() == page()
