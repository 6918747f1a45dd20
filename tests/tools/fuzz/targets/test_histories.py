"""Targets of histories."""

import pytest

from rollup_node.tools.fuzz.targets.histories import TARGETS
from tests.support.fuzz_targets import assert_seeds_are_accepted


def test_valid_inputs_are_accepted() -> None:
    pytest.importorskip("pyarrow")
    assert_seeds_are_accepted(TARGETS)
