"""What a gossiped message is known by: its id, over the decompressed content where there is one (node-behaviour 13.3).

op-node hashes the topic too, the specifications and kona do not; ids meet only in IHAVE, IWANT and IDONTWANT.
"""

from enum import Enum
from hashlib import sha256
from typing import NamedTuple

from rollup_node.stages.p2p.encoding.snappy import SnappyFailure
from rollup_node.stages.p2p.identity.peer_id import PeerId

MessageId = bytes
ID_SIZE = 20
_INVALID_SNAPPY, _VALID_SNAPPY = bytes(4), b"\x01\0\0\0"


class ValidationResult(Enum):
    """What to do with a message: pass it on, drop it, or drop it and hold it against the sender."""

    ACCEPT = "accept"
    IGNORE = "ignore"
    REJECT = "reject"


class MessageIdScheme(Enum):
    """Whose way of making ids."""

    OP_NODE = "op-node"
    SPECIFICATION = "specification"


class UnvalidatedMessage(NamedTuple):
    """A message that waits for a verdict under its id; `content` is it decompressed, or why that failed."""

    id: MessageId
    topic: str
    peer: PeerId
    content: bytes | SnappyFailure


def message_id(rule: MessageIdScheme, topic: str, data: bytes, content: bytes | SnappyFailure) -> MessageId:
    """The id of a message whose `data` decompresses to `content`."""
    domain, hashed = (_INVALID_SNAPPY, data) if isinstance(content, SnappyFailure) else (_VALID_SNAPPY, content)
    if rule is MessageIdScheme.SPECIFICATION:
        return sha256(domain + hashed).digest()[:ID_SIZE]
    name = topic.encode()
    return sha256(b"".join((domain, len(name).to_bytes(8, "little"), name, hashed))).digest()[:ID_SIZE]
