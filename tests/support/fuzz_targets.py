"""Checks of fuzz targets: their valid inputs are valid."""

from collections.abc import Mapping
from random import Random

from rollup_node.tools.fuzz.targets.target import FuzzTarget

DRAWN = 12


def assert_seeds_are_accepted(targets: Mapping[str, FuzzTarget], draws: int = DRAWN) -> None:
    """Of the inputs that a target generates, one at least is accepted, and none fails."""
    chance = Random(5)
    for name, target in targets.items():
        accepted = 0
        for _ in range(draws):
            try:
                target.run(target.seed(chance))
                accepted += 1
            except target.errors:
                continue
        assert accepted, name
