"""SSZ roots, branches and domains [LCP2]."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1.light_client.ssz import (
    ZERO_ROOT,
    branch_root,
    byte_list_root,
    bytes_root,
    compute_domain,
    compute_signing_root,
    depth,
    hash_pair,
    is_empty_branch,
    is_valid_branch,
    merkle_root,
    uint64_root,
)
from rollup_node.tools.devnet.l1.signed_headers import prove

NODES = st.binary(min_size=32, max_size=32)


def test_roots_of_basic_values() -> None:
    assert uint64_root(5) == b"\5" + bytes(31)
    assert bytes_root(b"\1" * 32) == b"\1" * 32
    assert bytes_root(b"\1" * 48) == sha256(b"\1" * 48 + bytes(16)).digest()
    assert byte_list_root(b"ab") == sha256(b"ab" + bytes(30) + b"\2" + bytes(31)).digest()


@given(st.lists(NODES, min_size=1, max_size=20))
def test_a_root_is_that_of_the_chunks_filled_up_with_zeros(chunks: list[bytes]) -> None:
    size = 1 << (len(chunks) - 1).bit_length()
    nodes = chunks + [ZERO_ROOT] * (size - len(chunks))
    while len(nodes) > 1:
        nodes = [hash_pair(*nodes[index : index + 2]) for index in range(0, len(nodes), 2)]
    assert merkle_root(chunks) == nodes[0]


@given(st.sampled_from((54, 86, 105, 169, 412, 735, 812, 2856, 2945)), NODES, st.integers(0, 4))
def test_a_branch_proves_its_leaf_at_its_index_alone(index: int, leaf: bytes, zeros: int) -> None:
    """Zeros in front are those of a longer branch of a later fork; fewer nodes than the index has prove nothing."""
    root, branches = prove({index: leaf})
    branch = branches[index]
    assert len(branch) == depth(index) and branch_root(leaf, branch, index) == root
    assert is_valid_branch(leaf, (ZERO_ROOT,) * zeros + branch, index, root)
    assert not is_valid_branch(leaf, branch[1:], index, root)
    assert not is_valid_branch(leaf, (b"\1" * 32, *branch), index, root)
    assert not is_valid_branch(leaf, branch, index, hash_pair(root, root))
    if leaf != ZERO_ROOT:
        assert not is_valid_branch(leaf, branch, index ^ 1, root)


def test_an_empty_branch_is_one_of_zeros() -> None:
    assert is_empty_branch(()) and is_empty_branch((ZERO_ROOT,) * 6)
    assert not is_empty_branch((ZERO_ROOT, b"\1" * 32))


@pytest.mark.parametrize(("version", "root"), [(b"\5\0\0\0", b"\x4b" * 32), (b"\6\0\0\0", b"\x4b" * 32)])
def test_a_domain_binds_type_version_and_network(version: bytes, root: bytes) -> None:
    domain = compute_domain(b"\7\0\0\0", version, root)
    assert domain == b"\7\0\0\0" + sha256(version + bytes(28) + root).digest()[:28]
    assert compute_signing_root(b"\1" * 32, domain) == sha256(b"\1" * 32 + domain).digest()
