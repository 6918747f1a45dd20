"""Suggestions for misspelt names."""

from rollup_node.node.options.nearest import did_you_mean, nearest
from rollup_node.node.options.table import OPTIONS


def test_the_nearest_names() -> None:
    assert nearest("OP-Seplia", ["op-sepolia", "op-mainnet", "base-mainnet"]) == ["op-sepolia"]
    assert did_you_mean("l1.becon", OPTIONS, prefix="--") == "; did you mean --l1.beacon?"
    assert did_you_mean("qqqq", OPTIONS) == ""
