"""Damage is repeatable and does something."""

from random import Random

from rollup_node.tools.fuzz.mutations import MUTATIONS, flipped, mutated, truncated

DATA = bytes(range(200))


def test_the_same_source_gives_the_same_damage() -> None:
    assert mutated(Random(1), DATA, [DATA]) == mutated(Random(1), DATA, [DATA])


def test_every_kind_of_damage_changes_something() -> None:
    for mutation in MUTATIONS:
        found = set()
        for seed in range(20):
            data = bytearray(DATA)
            mutation(Random(seed), data, [bytes(50), DATA[::-1]])
            found.add(bytes(data))
        assert len(found - {DATA}) > 3
        mutation(Random(1), bytearray(), [])


def test_flips_and_cuts() -> None:
    assert sum((a ^ b).bit_count() for a, b in zip(DATA, flipped(Random(2), DATA, 1), strict=True)) == 1
    assert DATA.startswith(truncated(Random(3), DATA))
