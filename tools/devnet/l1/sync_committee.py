"""A sync committee that signs, and Merkle proofs of a tree that has only the leaves which a light client reads."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from py_arkworks_bls12381 import G1Point, G2Point, Scalar

from rollup_node.stages.l1.light_client.containers import Branch, SyncAggregate, SyncCommittee
from rollup_node.stages.l1.light_client.ssz import ZERO_ROOT, Root, hash_pair
from rollup_node.stages.l1.light_client.store import DST


def prove(leaves: Mapping[int, Root]) -> tuple[Root, dict[int, Branch]]:
    """Return the root of a tree with these nodes by generalized index, zeros elsewhere, and the branch of each."""
    nodes = dict(leaves)
    for level in range(max(leaves).bit_length() - 1, 0, -1):
        for index in [index for index in nodes if index.bit_length() - 1 == level]:
            left = index & ~1
            nodes[index // 2] = hash_pair(nodes.get(left, ZERO_ROOT), nodes.get(left + 1, ZERO_ROOT))
    return nodes[1], {leaf: _branch(nodes, leaf) for leaf in leaves}


def _branch(nodes: Mapping[int, Root], index: int) -> Branch:
    result = []
    while index > 1:
        result.append(nodes.get(index ^ 1, ZERO_ROOT))
        index //= 2
    return tuple(result)


class CommitteeKeys:
    """The secret keys of a sync committee of `size` members, made from a seed: for local networks and tests alone."""

    def __init__(self, seed: bytes, size: int) -> None:
        digests = [sha256(seed + index.to_bytes(4, "big")).digest() for index in range(size)]
        self._secrets = [int.from_bytes(digest, "big") >> 2 for digest in digests]
        points = [G1Point() * _scalar(secret) for secret in self._secrets]
        keys = tuple(bytes(point.to_compressed_bytes()) for point in points)
        self.committee = SyncCommittee(keys, bytes(sum(points[1:], points[0]).to_compressed_bytes()))

    def sign(self, signing_root: Root, bits: Sequence[bool] | None = None) -> SyncAggregate:
        """Return the aggregate of the members with a bit, of all without `bits`; their one key is the sum of theirs."""
        chosen = tuple(bits) if bits is not None else (True,) * len(self._secrets)
        secret = sum(item for item, bit in zip(self._secrets, chosen, strict=True) if bit)
        signature = G2Point.hash_to_curve(signing_root, DST) * _scalar(secret)
        return SyncAggregate(chosen, bytes(signature.to_compressed_bytes()))


def _scalar(secret: int) -> Scalar:
    order = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
    return Scalar.from_be_bytes((secret % order).to_bytes(32, "big"))
