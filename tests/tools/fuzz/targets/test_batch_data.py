"""Targets of what derivation reads."""

from rollup_node.tools.fuzz.targets.batch_data import TARGETS
from tests.support.fuzz_targets import assert_seeds_are_accepted


def test_valid_inputs_are_accepted() -> None:
    assert_seeds_are_accepted(TARGETS)
