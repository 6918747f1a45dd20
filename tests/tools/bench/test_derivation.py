"""The benchmark of derivation measures what it says, on a small chain."""

from random import Random

import pytest

from rollup_node.tools.bench.derivation import (
    DerivationRun,
    building_seconds,
    memory_growth,
    native_seconds,
    resident,
)
from rollup_node.tools.bench.synthetic_chain import SyntheticChain, make
from rollup_node.tools.fuzz.targets import seeds


@pytest.fixture(scope="module")
def chain() -> SyntheticChain:
    chance = Random(5)
    return make(40, [seeds.transaction(chance) for _ in range(60)])


def test_times_of_the_parts(chain: SyntheticChain) -> None:
    run = DerivationRun(chain)
    full, sequential = run.seconds(decoding=True), run.seconds(decoding=False)
    assert 0 < sequential < full
    assert building_seconds(chain, run.attributes) > 0
    assert native_seconds(chain, run.attributes) > 0
    assert len(run.attributes) == 40


def test_memory_growth_derives_the_whole_chain(chain: SyntheticChain) -> None:
    assert -50 < memory_growth(chain) < 50
    assert resident() > 1 << 20
