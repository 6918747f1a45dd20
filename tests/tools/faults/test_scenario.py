"""Scenarios of faults in TOML."""

from pathlib import Path

import pytest

from rollup_node.tools.faults.scenario import Action, Role, ScenarioError, parse_scenarios, select

OURS = Path(__file__).parents[3] / "tools" / "faults" / "scenarios.toml"


def test_our_scenarios() -> None:
    scenarios = parse_scenarios(OURS.read_text())
    assert len(scenarios) >= 150
    faults = [fault for scenario in scenarios for fault in scenario.faults]
    assert {fault.on for fault in faults} == set(Role)
    assert {fault.do for fault in faults} >= set(Action) - {Action.EDIT}
    cases = {case for scenario in scenarios for case in scenario.cases}
    assert {f"F{number}" for number in range(1, 21)} - cases <= {"F8", "F17"}


def test_lists_stand_for_one_scenario_each() -> None:
    text = """
    [[scenario]]
    name = "{on}-{do}-{status}"
    faults = [{ on = ["l1", "beacon"], do = ["status"], status = [429, 500] }, { on = "l1", do = "hang" }]
    """
    scenarios = parse_scenarios(text)
    names = [f"{role}-status-{status}" for role in ("l1", "beacon") for status in (429, 500)]
    assert [item.name for item in scenarios] == names
    (first, second) = scenarios[-1].faults
    assert (first.on, first.status, second.on) == (Role.BEACON, 500, Role.L1)
    assert select(scenarios, ["l1", "beacon-status-5"]) == (*scenarios[:2], scenarios[3])
    assert select(scenarios, []) == scenarios


FAULT = 'faults = [{ on = "l1", do = "hang" }]'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "missing required field `scenario`"),
        ("[[scenario]]\nname = 5", "Expected `str`, got `int` - at `$.name`"),
        ('[[scenario]]\nname = "a"', "there must be a fault or an event"),
        (f'[[scenario]]\nname = "A b"\n{FAULT}', "lower-case letters"),
        (f'[[scenario]]\nname = "a"\nseconds = 0\n{FAULT}', "above 0 and at most 120"),
        (f'[[scenario]]\nname = "a"\nnames = "("\n{FAULT}', r"scenario 1 \(a\): missing \)"),
        (f'[[scenario]]\nname = "a"\n{FAULT}\n' * 2, "two scenarios have the name a"),
        ('[[scenario]]\nname = "a"\nfaults = [{ on = "l3", do = "hang" }]', "Invalid enum value 'l3'"),
        ('[[scenario]]\nname = "a"\nfaults = [{ on = "l1", do = "hang", chance = 0.0 }]', "`chance` above 0"),
        ('[[scenario]]\nname = "a"\nfaults = [{ on = "beacon", do = "lag" }]', "`lag` is a fault of l1"),
        ('[[scenario]]\nname = "a"\nfaults = [{ on = "l1", do = "hang", when = 1 }]', "unknown field `when`"),
        (f'[[scenario]]\nname = "a"\nmax_cores = 1.1\n{FAULT}', "`max_cores` must be above 0 and at most 1"),
        ('[[scenario]]\nname = "a"\nevents = [{ reorg = 65 }]', "`reorg` must be at most 64 blocks"),
        ('[[scenario]]\nname = "a"\nevents = [{ kill = "l1", across = true }]', "`across` belongs to a `reorg`"),
        ('[[scenario]]\nname = "a"\nevents = [{ restart = "l1" }]', "`restart` must be engine or node"),
        ('[[scenario]]\nname = "a"\nevents = [{ clock = 86401 }]', "`clock` must be at most 86400 seconds"),
        ("[[scenario]]\nname = ", "no file of scenarios: "),
    ],
)
def test_what_is_wrong_with_a_file(text: str, error: str) -> None:
    with pytest.raises(ScenarioError, match=error.replace("$", r"\$")):
        parse_scenarios(text)
