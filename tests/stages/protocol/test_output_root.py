"""Output roots and super roots."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.output_root import output_preimage, output_root, super_preimage, super_root

WORDS = st.binary(min_size=32, max_size=32)


def test_the_output_root_of_version_0() -> None:
    """[HSH18]"""
    state, storage, block = (bytes([item]) * 32 for item in (1, 2, 3))
    assert output_preimage(state, storage, block) == bytes(32) + state + storage + block
    assert output_root(state, storage, block) == keccak256(bytes(32) + state + storage + block)


@given(st.integers(0, 2**64 - 1), st.dictionaries(st.integers(0, 2**64), WORDS, min_size=1, max_size=4))
def test_super_roots_do_not_depend_on_the_order(timestamp: int, outputs: dict[int, bytes]) -> None:
    """[HSH21]"""
    pairs = sorted(outputs.items())
    assert super_root(timestamp, pairs) == super_root(timestamp, reversed(pairs))
    preimage = super_preimage(timestamp, pairs)
    assert (preimage[0], int.from_bytes(preimage[1:9], "big")) == (1, timestamp)
    chains = [preimage[at : at + 64] for at in range(9, len(preimage), 64)]
    assert [(int.from_bytes(chain[:32], "big"), chain[32:]) for chain in chains] == pairs
