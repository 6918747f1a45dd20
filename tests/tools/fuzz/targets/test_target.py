"""Generators of inputs."""

from random import Random

from rollup_node.tools.fuzz.targets.target import one_of


def test_one_of_draws_all_inputs() -> None:
    draw = one_of([b"a", b"b"])
    assert {draw(Random(seed)) for seed in range(20)} == {b"a", b"b"}
