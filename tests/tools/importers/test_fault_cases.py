"""docs/evidence/faults.md: each of the 61 faults has tests."""

from pathlib import Path

from rollup_node.tools.faults.scenario import parse_scenarios
from rollup_node.tools.importers.fault_cases import PAGE, SCENARIOS, cases, main, page, scenarios_of
from rollup_node.tools.importers.marked_tests import marks

CASES = cases()


def test_the_document_is_current() -> None:
    assert PAGE.read_text() == page(), "run python -m rollup_node.tools.importers.fault_cases"


def test_all_cases_are_there() -> None:
    assert list(CASES) == [f"F{number}" for number in range(1, 62)]


def test_each_case_has_tests() -> None:
    assert {name for mark in marks() if mark.name == "fault" for name in mark.values} == set(CASES)


def test_scenarios_name_cases_that_exist() -> None:
    scenarios = parse_scenarios(SCENARIOS.read_text())
    assert {case for scenario in scenarios for case in scenario.cases} <= set(CASES)
    assert "reorg-1" in scenarios_of("F9", scenarios)


def test_the_command_writes_the_file(tmp_path: Path) -> None:
    out = tmp_path / "page.md"
    assert main(["--out", str(out)]) == 0
    assert out.read_text() == page()
