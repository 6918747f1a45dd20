"""Targets of what operators give."""

from rollup_node.tools.fuzz.targets.configuration import TARGETS
from tests.support.fuzz_targets import assert_seeds_are_accepted


def test_valid_inputs_are_accepted() -> None:
    assert_seeds_are_accepted(TARGETS)
