"""SSZ roots of what a light client reads, Merkle branches by generalized index, and signing domains [LCP2]."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

Root = bytes
"""32 bytes."""

ZERO_ROOT: Root = bytes(32)
DOMAIN_SYNC_COMMITTEE = bytes.fromhex("07000000")


def hash_pair(left: Root, right: Root) -> Root:
    """Return the root of two nodes."""
    return sha256(left + right).digest()


def merkle_root(chunks: Sequence[Root]) -> Root:
    """Return the root of chunks of 32 bytes, filled up with zero chunks to the next power of two."""
    nodes, zero = list(chunks) or [ZERO_ROOT], ZERO_ROOT
    while len(nodes) > 1:
        if len(nodes) % 2:
            nodes.append(zero)
        nodes = [hash_pair(nodes[index], nodes[index + 1]) for index in range(0, len(nodes), 2)]
        zero = hash_pair(zero, zero)
    return nodes[0]


def uint64_root(value: int) -> Root:
    """Return the root of a uint64."""
    return value.to_bytes(32, "little")


def bytes_root(data: bytes) -> Root:
    """Return the root of a vector of bytes."""
    padded = data.ljust(-len(data) // 32 * -32, b"\0")
    return merkle_root([padded[start : start + 32] for start in range(0, len(padded), 32)])


def byte_list_root(data: bytes) -> Root:
    """Return the root of a list of at most 32 bytes."""
    return hash_pair(data.ljust(32, b"\0"), uint64_root(len(data)))


def depth(generalized_index: int) -> int:
    """Return how many levels a node lies below the root."""
    return generalized_index.bit_length() - 1


def branch_root(leaf: Root, branch: Iterable[Root], generalized_index: int) -> Root:
    """Return the root that a leaf has with the siblings on the way up from its generalized index."""
    node = leaf
    for sibling in branch:
        node = hash_pair(sibling, node) if generalized_index % 2 else hash_pair(node, sibling)
        generalized_index //= 2
    return node


def is_valid_branch(leaf: Root, branch: Sequence[Root], generalized_index: int, root: Root) -> bool:
    """Whether a branch proves a leaf; zeros before it make one of an older fork as long as those of a newer."""
    extra = len(branch) - depth(generalized_index)
    if extra < 0 or any(node != ZERO_ROOT for node in branch[:extra]):
        return False
    return branch_root(leaf, branch[extra:], generalized_index) == root


def is_empty_branch(branch: Sequence[Root]) -> bool:
    """Whether a branch is all zeros, which stands for no branch."""
    return all(node == ZERO_ROOT for node in branch)


def compute_domain(domain_type: bytes, fork_version: bytes, genesis_validators_root: Root) -> bytes:
    """Return the 32 bytes that bind a signature to its purpose (4 bytes), fork version (4 bytes) and network."""
    fork_data_root = hash_pair(fork_version.ljust(32, b"\0"), genesis_validators_root)
    return domain_type + fork_data_root[:28]


def compute_signing_root(object_root: Root, domain: bytes) -> Root:
    """Return what a signature of an object signs."""
    return hash_pair(object_root, domain)
