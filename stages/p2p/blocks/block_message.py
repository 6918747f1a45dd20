"""A block on its way through gossip: signature, parent beacon root from version 3 on, SSZ, all in snappy's block
format. Each version has its topic; publishing picks by the block's timestamp (node-behaviour 13.3)."""

from typing import NamedTuple

from rollup_node.stages.p2p.blocks import ssz
from rollup_node.stages.p2p.blocks.signing import SIGNATURE_SIZE
from rollup_node.stages.p2p.blocks.ssz import DecodedPayload, SszError
from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload

VERSIONS = (1, 2, 3, 4)
MIN_BYTES = SIGNATURE_SIZE + 1
_FIRST_WITH_BEACON_ROOT = 3
_ROOT_SIZE = 32


class SignedBlock(NamedTuple):
    """A message taken apart but not yet read."""

    signature: bytes
    signed_part: bytes


def block_topic(chain_id: int, version: int) -> str:
    """The topic of blocks of a version (1 to 4)."""
    return f"/optimism/{chain_id}/{version - 1}/blocks"


def block_topics(chain_id: int) -> dict[str, int]:
    """All topics of a chain with their versions, oldest first."""
    return {block_topic(chain_id, version): version for version in VERSIONS}


def version_at(config: RollupConfig, timestamp: int) -> int:
    """The version in which a block of that time is published."""
    return config.schedule().l2(timestamp).block_topic_version


def has_beacon_root(version: int) -> bool:
    """Whether the parent beacon root stands before the SSZ of that version."""
    return version >= _FIRST_WITH_BEACON_ROOT


def encode_signed_part(payload: ExecutionPayload, version: int) -> bytes:
    """What stands after the signature; SszError for a payload that does not fit the version."""
    encoded = ssz.encode(payload, version)
    if not has_beacon_root(version):
        return encoded
    if payload.parent_beacon_root is None:
        raise SszError("the payload has no parent beacon root")
    return payload.parent_beacon_root + encoded


def encode_message(signature: bytes, part: bytes) -> bytes:
    """The message as it is published."""
    return snappy.compress(signature + part)


def split_signature(content: bytes) -> SignedBlock:
    """Splits a decompressed message of at least 66 bytes."""
    return SignedBlock(content[:SIGNATURE_SIZE], content[SIGNATURE_SIZE:])


def decode_signed_part(part: bytes, version: int) -> DecodedPayload:
    """The block in what was signed; SszError for malformed bytes."""
    if not has_beacon_root(version):
        return ssz.decode(part, version)
    if len(part) < _ROOT_SIZE:
        raise SszError(f"{len(part)} bytes, fewer than a beacon root")
    return ssz.decode(part[_ROOT_SIZE:], version, part[:_ROOT_SIZE])
