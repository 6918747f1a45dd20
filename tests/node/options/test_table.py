"""The option table keeps together."""

import pytest

from rollup_node.node.options.kinds import Kind
from rollup_node.node.options.model import Option
from rollup_node.node.options.nearest import did_you_mean, nearest
from rollup_node.node.options.table import BOOLEAN_TWIN, OPTIONS, SECTIONS, VARIABLE_PREFIX
from rollup_node.stages.l1.receipts_methods import KINDS
from rollup_node.stages.protocol.forks.table import FORK_NAMES


def test_names_and_variables_are_unique() -> None:
    rows = [option for section in SECTIONS for option in section.options]
    names = [name for option in rows for name in option.names]
    variables = [variable for option in rows for variable in (option.variable, *(old for _, old in option.old_names))]
    assert len(set(names)) == len(names)
    assert len(set(variables)) == len(variables)
    assert all(variable.startswith(VARIABLE_PREFIX) and variable.isupper() for variable in variables)
    assert not any(name.endswith(".value") for name in names), "the options file uses this name"


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_a_row_is_whole(option: Option) -> None:
    assert option.help.endswith(".")
    assert isinstance(option.kind, Kind)
    if option.default is not None:
        for text in option.default.split(",") if option.kind.many else [option.default]:
            option.kind.read(text)
    for text in option.harmless:
        option.kind.read(text)


def test_the_doubled_variable_is_that_of_the_first_twin() -> None:
    assert [OPTIONS[name].variable for name in BOOLEAN_TWIN] == [
        "NODE_L1_BEACON",
        "NODE_L1_BEACON_FETCH_ALL_SIDECARS",
    ]


def test_every_fork_from_canyon_on_can_be_overridden() -> None:
    for fork in (*FORK_NAMES[2:], "pectrablobschedule"):
        assert OPTIONS[f"override.{fork}"].variable == f"NODE_OVERRIDE_{fork.upper()}"
        assert OPTIONS[f"override.{fork}"].default == "0"
    assert "override.regolith" not in OPTIONS


def test_every_kind_of_l1_provider_can_be_chosen() -> None:
    assert set(OPTIONS["l1.rpckind"].kind.allowed) == set(KINDS)


def test_the_nearest_names() -> None:
    assert nearest("OP-Seplia", ["op-sepolia", "op-mainnet", "base-mainnet"]) == ["op-sepolia"]
    assert did_you_mean("l1.becon", OPTIONS, prefix="--") == "; did you mean --l1.beacon?"
    assert did_you_mean("qqqq", OPTIONS) == ""
