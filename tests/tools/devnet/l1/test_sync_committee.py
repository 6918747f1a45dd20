"""Sync committees that sign, and branches of trees that have a few leaves."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1.light_client.ssz import ZERO_ROOT, hash_pair, is_valid_branch
from rollup_node.stages.l1.light_client.store import fast_aggregate_verify, public_keys
from rollup_node.tools.devnet.l1.sync_committee import CommitteeKeys, prove

MESSAGE = sha256(b"message").digest()


@given(st.dictionaries(st.integers(16, 31), st.binary(min_size=32, max_size=32), min_size=1))
def test_every_leaf_is_proven(leaves: dict[int, bytes]) -> None:
    root, branches = prove(leaves)
    assert branches.keys() == leaves.keys()
    for index, leaf in leaves.items():
        assert is_valid_branch(leaf, branches[index], index, root)
        other = bytes(32) if any(leaf) else b"\x01" * 32
        assert not is_valid_branch(other, branches[index], index, root)


def test_leaves_of_different_depths() -> None:
    root, branches = prove({4: b"\x04" * 32, 11: b"\x0b" * 32})
    five = hash_pair(ZERO_ROOT, b"\x0b" * 32)
    assert root == hash_pair(hash_pair(b"\x04" * 32, five), ZERO_ROOT)
    assert branches == {4: (five, ZERO_ROOT), 11: (ZERO_ROOT, b"\x04" * 32, ZERO_ROOT)}


@pytest.mark.parametrize("size", [4, 32])
def test_who_has_signed(size: int) -> None:
    keys = CommitteeKeys(b"seed", size)
    assert len(set(keys.committee.pubkeys)) == size and keys.committee == CommitteeKeys(b"seed", size).committee
    points = public_keys(keys.committee.pubkeys)
    assert sum(points[1:], points[0]) == public_keys([keys.committee.aggregate_pubkey])[0]
    for bits in (None, [place % 3 == 0 for place in range(size)], [place == 1 for place in range(size)]):
        aggregate = keys.sign(MESSAGE, bits)
        signers = [point for point, bit in zip(points, aggregate.bits, strict=True) if bit]
        assert len(signers) == aggregate.participants == (size if bits is None else sum(bits))
        assert fast_aggregate_verify(signers, MESSAGE, aggregate.signature)
        assert not fast_aggregate_verify(signers, sha256(MESSAGE).digest(), aggregate.signature)
    others = public_keys(CommitteeKeys(b"other", size).committee.pubkeys)
    assert not fast_aggregate_verify(others, MESSAGE, keys.sign(MESSAGE).signature)
