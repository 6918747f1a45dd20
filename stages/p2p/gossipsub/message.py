"""Message ids, and what validation can decide about a message [GSP5]."""

from enum import Enum
from hashlib import sha256
from typing import NamedTuple

from rollup_node.stages.p2p.encoding.snappy import SnappyFailure
from rollup_node.stages.p2p.identity.peer_id import PeerId

MessageId = bytes
ID_SIZE = 20
_INVALID_SNAPPY, _VALID_SNAPPY = bytes(4), b"\x01\0\0\0"


class ValidationResult(Enum):
    """The validation result of gossipsub v1.1: forward the message, drop it, or drop it and penalize the sender."""

    ACCEPT = "accept"
    IGNORE = "ignore"
    REJECT = "reject"


class MessageIdScheme(Enum):
    """How message ids are computed: op-node hashes the topic too, the specification and kona do not.

    Ids meet only in IHAVE, IWANT and IDONTWANT, so that the other scheme costs duplicate traffic alone."""

    OP_NODE = "op-node"
    SPECIFICATION = "specification"


class UnvalidatedMessage(NamedTuple):
    """A message that awaits its validation result; `content` is its data decompressed, or why that failed."""

    id: MessageId
    topic: str
    peer: PeerId
    content: bytes | SnappyFailure


def message_id(scheme: MessageIdScheme, topic: str, data: bytes, content: bytes | SnappyFailure) -> MessageId:
    """Return the id of a message whose `data` decompresses to `content`."""
    domain, hashed = (_INVALID_SNAPPY, data) if isinstance(content, SnappyFailure) else (_VALID_SNAPPY, content)
    if scheme is MessageIdScheme.SPECIFICATION:
        return sha256(domain + hashed).digest()[:ID_SIZE]
    name = topic.encode()
    return sha256(b"".join((domain, len(name).to_bytes(8, "little"), name, hashed))).digest()[:ID_SIZE]
