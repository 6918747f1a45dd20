"""SSZ roots, branches and domains [LCP2]."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1.light_client.ssz import (
    ZERO_ROOT,
    branch_root,
    depth,
    hash_pair,
    is_valid_branch,
)
from rollup_node.tools.devnet.l1.signed_headers import prove

NODES = st.binary(min_size=32, max_size=32)


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
