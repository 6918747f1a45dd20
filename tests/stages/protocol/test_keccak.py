"""Keccak-256: known digests, and both libraries agree."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import keccak


def test_known_digests() -> None:
    assert keccak.keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak.keccak256(b"abc").hex() == "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"


@given(st.binary(max_size=600))
def test_the_fallback_gives_the_same(data: bytes) -> None:
    halves = keccak.hasher_of_pycryptodome(data[:300])
    halves.update(data[300:])
    assert halves.digest() == keccak.hasher_of_pycryptodome(data).digest() == keccak.keccak256(data)
