"""The local network's sync committees and sparse trees."""

from rollup_node.stages.l1.light_client.bls import fast_aggregate_verify, public_keys
from rollup_node.stages.l1.light_client.ssz import ZERO_ROOT, branch_root, hash_pair
from rollup_node.tools.devnet.l1.sync_committee import CommitteeKeys, prove


def test_a_sparse_tree_has_one_root_for_all_its_leaves() -> None:
    leaves = {86: b"\1" * 32, 87: b"\2" * 32, 169: b"\3" * 32}
    root, branches = prove(leaves)
    assert all(branch_root(leaf, branches[index], index) == root for index, leaf in leaves.items())
    assert prove({2: b"\1" * 32})[0] == hash_pair(b"\1" * 32, ZERO_ROOT)


def test_keys_follow_from_the_seed_and_sign_as_one() -> None:
    keys = CommitteeKeys(b"a", 4)
    assert keys.committee == CommitteeKeys(b"a", 4).committee != CommitteeKeys(b"b", 4).committee
    aggregate = keys.sign(b"\5" * 32, (True, True, False, False))
    points = public_keys(keys.committee.pubkeys)
    assert fast_aggregate_verify(points[:2], b"\5" * 32, aggregate.signature)
    assert not fast_aggregate_verify(points, b"\5" * 32, aggregate.signature)
