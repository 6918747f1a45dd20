"""Targets of discv5 and of NAT gateways."""

from rollup_node.tools.fuzz.targets.discovery import TARGETS
from tests.support.fuzz_targets import assert_seeds_are_accepted


def test_valid_inputs_are_accepted() -> None:
    assert_seeds_are_accepted(TARGETS)
