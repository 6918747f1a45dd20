"""The table of the scenarios' results."""

import msgspec
import pytest

from rollup_node.tools.faults.results import ResultsError, ScenarioResult, ScenarioRun, parse_run, results_table

GOOD = ScenarioResult("l1-reset", ("F5", "F6"), True, 1.5, 180.0)
BAD = ScenarioResult("l1-reset", ("F5", "F6"), False, None, 190.0)
SLOW = ScenarioResult("kill-l1", ("F56",), True, 4.0, 170.0)


def run(*scenarios: ScenarioResult, equal: bool | None = True) -> ScenarioRun:
    return ScenarioRun(7, equal, "0123456789", "2 cores", 2.25, 31.4, scenarios)


def test_runs_and_scenarios_add_up() -> None:
    lines = list(results_table([run(GOOD, SLOW), run(BAD, equal=False)]))
    assert lines[2] == "| 1 | 0123456789 | 7 | 31 | 2 | 0 | equal | 2.2 | 2 cores |"
    assert lines[3].startswith("| 2 | 0123456789 | 7 | 31 | 1 | 1 | DIFFER |")
    assert "| 0 | not compared |" in list(results_table([run(GOOD, equal=None)]))[2]
    assert lines[7:] == [
        "| kill-l1 | F56 | 1 of 1 | 4.0 s | 4.0 s | 170 MB |",
        "| l1-reset | F5 F6 | 1 of 2 | 1.5 s | 1.5 s | 190 MB |",
    ]
    assert "| l1-reset | F5 F6 | 0 of 1 | - | - | 190 MB |" in list(results_table([run(BAD)]))


def test_a_line_of_json() -> None:
    found = run(GOOD)
    text = msgspec.json.encode(found)
    assert parse_run(text) == found and found.failed == 0 and run(GOOD, BAD).failed == 1
    assert parse_run(text.replace(b'"passed"', b'"lines":3,"passed"')) == found
    for wrong in (b"", b"[]", text[:-5], text.replace(b"7", b'"x"', 1)):
        with pytest.raises(ResultsError, match="not the output of"):
            parse_run(wrong)
