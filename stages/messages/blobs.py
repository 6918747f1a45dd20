"""Requests of derivation to the blobs process (`blobs.contents`)."""

import msgspec

from rollup_node.stages.messages.base import Message
from rollup_node.stages.protocol.types import BlobRef, Hash, L1BlockRef


class BlobsRequest(Message, frozen=True, tag="BlobsRequest"):
    """Asks for the blobs of some inbox transactions of one L1 block, in the order given; `urgent` when derivation waits
    for them."""

    block: L1BlockRef
    blobs: tuple[BlobRef, ...]
    urgent: bool


class BlobContent(msgspec.Struct, frozen=True, array_like=True):
    """A decoded blob whose versioned hash matches: its data, or the blob-encoding rule that rejects it [BL1-BL9]."""

    hash: Hash
    data: bytes | None
    refused: str | None


class BlobsResponse(Message, frozen=True, tag="BlobsResponse"):
    """The contents in the order requested."""

    block_hash: Hash
    contents: tuple[BlobContent, ...]


class BlobsUnavailable(Message, frozen=True, tag="BlobsUnavailable"):
    """The blobs are unavailable for now; derivation repeats its request. `not_found` when all endpoints answered so."""

    block_hash: Hash
    not_found: bool
    error: str
