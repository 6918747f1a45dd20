"""An engine's refusal of a field says which fork it has that we lack, or the other way round."""

import pytest

from rollup_node.stages.protocol.forks.attribute_fields import disputed_fork
from rollup_node.stages.protocol.forks.rules import L2Rules

NONE, ALL = L2Rules(), L2Rules(withdrawals=True, beacon_root=True, eip1559_params=True, min_base_fee=True)


@pytest.mark.parametrize(
    "text, rules, fork",
    [
        ("minBaseFee is missing", NONE, "jovian"),
        ("eip1559Params is required since Holocene", NONE, "holocene"),
        ("missing beacon root", NONE, "ecotone"),
        ("withdrawals must not be nil", NONE, "canyon"),
        ("minBaseFee given before its fork", ALL, "jovian"),
        ("got eip1559Params prior to Holocene", ALL, "holocene"),
        ("unexpected beacon root", ALL, "ecotone"),
        ("withdrawals not supported", ALL, "canyon"),
        ("minBaseFee is missing", ALL, None),
        ("holocene params cannot have a 0 denominator: eip1559Params", ALL, None),
        ("minBaseFee not supported", NONE, None),
        ("transaction 3 is invalid", NONE, None),
        ("gasLimit parameter is required", ALL, None),
    ],
)
def test_the_fork(text: str, rules: L2Rules, fork: str | None) -> None:
    assert disputed_fork(text, rules) == fork
