"""The verdict on a scenario."""

from typing import Any

import pytest

from rollup_node.tools.faults.scenario import Action, Fault, Role, Scenario
from rollup_node.tools.faults.verdict import Observation, evaluate, summary, table

SCENARIO = Scenario("l1-lost", (Fault(Role.L1, Action.RESET),), names="L1 .* lost", dies=("l1",), recovers=30.0)


def seen(**changes: Any) -> Observation:
    values: dict[str, Any] = {"texts": ["other", "t=5 L1 is lost"], "applied": 4, "recovered_after": 1.5, "lines": 7}
    return Observation(**{**values, **changes})


def test_a_scenario_that_passed() -> None:
    verdict = evaluate(SCENARIO, seen(ended=("l1",), cores=0.3, memory_mb=200.0))
    assert verdict.passed and verdict.named == "t=5 L1 is lost"
    row, total = table([verdict])
    assert row.startswith("ok     l1-lost ") and "1.5 s  200 MB 0.30 cores    7 lines     4 met  L1 is lost" in row
    assert total == "1 scenarios, 0 failed"
    assert summary(verdict)["passed"] is True and summary(verdict)["recovered_after_s"] == 1.5


def test_a_condition_that_was_logged_in_the_minute_before_is_named() -> None:
    verdict = evaluate(SCENARIO, seen(texts=["nothing"], earlier=["t=4 L1 is lost"], ended=("l1",)))
    assert verdict.passed and verdict.named == "t=4 L1 is lost"
    assert evaluate(SCENARIO, seen(texts=["t=9 L1 is lost"], earlier=["t=4 L1 is lost"])).named == "t=9 L1 is lost"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"applied": 0}, "no request met a fault"),
        ({"problems": ["there is no disk"]}, "there is no disk"),
        ({"recovered_after": None}, "the verifier did not recover within 30 s"),
        ({"difference": "the output roots differ"}, "the output roots differ"),
        ({"texts": ["nothing"]}, "neither log nor /readyz matched 'L1 .* lost'"),
        ({"ended": ("l1", "rpc")}, "processes ended: rpc"),
        ({"memory_mb": 600.0}, "600 MB of memory, more than 500"),
        ({"cores": 1.0}, "1.00 cores of CPU, more than 0.4"),
        ({"lines": 201}, "201 lines of log, more than 200"),
    ],
)
def test_what_can_be_wrong(changes: dict[str, Any], problem: str) -> None:
    verdict = evaluate(SCENARIO, seen(**changes))
    assert verdict.problems == (problem,) and not verdict.passed
    assert table([verdict])[0].startswith("FAILED") and table([verdict])[1].strip() == problem
    assert table([verdict])[-1] == "1 scenarios, 1 failed"
