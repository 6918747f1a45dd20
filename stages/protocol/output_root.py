"""Output roots, which proposers post on L1, and super roots over the outputs of several chains [HSH18, HSH21]."""

from collections.abc import Iterable

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import ZERO_HASH, Hash


def output_preimage(state_root: Hash, storage_root: Hash, block_hash: Hash) -> bytes:
    """Return the 128 bytes of a version 0 output; `storage_root` is the one of L2ToL1MessagePasser."""
    return ZERO_HASH + state_root + storage_root + block_hash


def output_root(state_root: Hash, storage_root: Hash, block_hash: Hash) -> Hash:
    """Return the version 0 output root of an L2 block; `storage_root` is the one of L2ToL1MessagePasser."""
    return keccak256(output_preimage(state_root, storage_root, block_hash))


def super_preimage(timestamp: int, outputs: Iterable[tuple[int, Hash]]) -> bytes:
    """Return a version 1 super root's preimage; `timestamp` in seconds, (chain id, output root) pairs in any order."""
    chains = b"".join(chain_id.to_bytes(32, "big") + output for chain_id, output in sorted(outputs))
    return b"\x01" + timestamp.to_bytes(8, "big") + chains


def super_root(timestamp: int, outputs: Iterable[tuple[int, Hash]]) -> Hash:
    """Return the version 1 super root; arguments as of `super_preimage`."""
    return keccak256(super_preimage(timestamp, outputs))
