"""Mutations are repeatable and change the bytes."""

from random import Random

from rollup_node.tools.fuzz.mutations import MUTATIONS, flipped, mutated, truncated

DATA = bytes(range(200))


def test_the_same_seed_gives_the_same_mutations() -> None:
    assert mutated(Random(1), DATA, [DATA]) == mutated(Random(1), DATA, [DATA])


def test_every_mutation_changes_something() -> None:
    for mutation in MUTATIONS:
        found = set()
        for seed in range(20):
            data = bytearray(DATA)
            mutation(Random(seed), data, [bytes(50), DATA[::-1]])
            found.add(bytes(data))
        assert len(found - {DATA}) > 3
        mutation(Random(1), bytearray(), [])


def test_bit_flips_and_truncation() -> None:
    assert sum((a ^ b).bit_count() for a, b in zip(DATA, flipped(Random(2), DATA, 1), strict=True)) == 1
    assert DATA.startswith(truncated(Random(3), DATA))
