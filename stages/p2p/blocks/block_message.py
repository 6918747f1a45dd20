"""The gossip message of a block: signature, from version 3 on parent beacon root, SSZ payload, as a snappy block.

Each version has its topic; publishing picks it by the block's timestamp [GSP1, GSP2]."""

from rollup_node.stages.p2p.blocks import ssz
from rollup_node.stages.p2p.blocks.ssz import DecodedPayload, SszError
from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.secp256k1 import SIGNATURE_SIZE

VERSIONS = (1, 2, 3, 4)
MIN_BYTES = SIGNATURE_SIZE + 1
"""The shortest decompressed message: a signature and one more byte [GSP3]."""
_FIRST_WITH_BEACON_ROOT = 3
_ROOT_SIZE = 32


def block_topic(chain_id: int, version: int) -> str:
    """Return the topic of a version (1 to 4) of the block encoding."""
    return f"/optimism/{chain_id}/{version - 1}/blocks"


def block_topics(chain_id: int) -> dict[str, int]:
    """All block topics of a chain with their versions, oldest first."""
    return {block_topic(chain_id, version): version for version in VERSIONS}


def version_at(config: RollupConfig, timestamp: int) -> int:
    return config.schedule().l2(timestamp).block_topic_version


def has_beacon_root(version: int) -> bool:
    """Whether the parent beacon root precedes the SSZ payload in that version."""
    return version >= _FIRST_WITH_BEACON_ROOT


def encode_signed_part(payload: ExecutionPayload, version: int) -> bytes:
    """Encode the bytes that are signed. Raises SszError when the payload lacks a field of the version."""
    encoded = ssz.encode(payload, version)
    if not has_beacon_root(version):
        return encoded
    if payload.parent_beacon_root is None:
        raise SszError("the payload has no parent beacon root")
    return payload.parent_beacon_root + encoded


def encode_message(signature: bytes, signed_part: bytes) -> bytes:
    return snappy.compress(signature + signed_part)


def split_signature(content: bytes) -> tuple[bytes, bytes]:
    """Split a decompressed message of at least MIN_BYTES into the signature and the bytes it signs."""
    return content[:SIGNATURE_SIZE], content[SIGNATURE_SIZE:]


def decode_signed_part(signed_part: bytes, version: int) -> DecodedPayload:
    """Decode the block in the bytes that are signed. Raises SszError when they are malformed."""
    if not has_beacon_root(version):
        return ssz.decode(signed_part, version)
    if len(signed_part) < _ROOT_SIZE:
        raise SszError(f"{len(signed_part)} bytes, fewer than a beacon root")
    return ssz.decode(signed_part[_ROOT_SIZE:], version, signed_part[:_ROOT_SIZE])
