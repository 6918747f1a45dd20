"""docs/troubleshooting.md: each of the fifteen conditions has tests that exist, codes that exist, and options that
exist."""

import ast
import re
from pathlib import Path

import pytest

from rollup_node.node.options.table import OPTIONS
from rollup_node.stages.messages.codes import Code
from rollup_node.tools.importers.troubleshooting import PAGE, conditions, main, page

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
        names = {getattr(node, "name", "") for node in ast.parse((TESTS / file).read_text()).body}
        assert function.startswith("test_") and function in names, f"{test} is missing"


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
