"""Requests of derivation to the blobs process (`blobs.contents`): blobs, and the inputs of Alt-DA commitments."""

import msgspec

from rollup_node.stages.messages.base import Message
from rollup_node.stages.protocol.commitments import Commitment
from rollup_node.stages.protocol.types import BlobRef, Hash, L1BlockRef


class BlobsRequest(Message, frozen=True, tag="BlobsRequest"):
    """Asks for the blobs of some inbox transactions of one L1 block, in the order given.

    `urgent` when derivation waits for them, `may_wait` while it needs them so much later that they are better
    verified together with others."""

    block: L1BlockRef
    blobs: tuple[BlobRef, ...]
    urgent: bool
    may_wait: bool = False


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


class InputRequest(Message, frozen=True, tag="InputRequest"):
    """Asks for the input of an Alt-DA commitment.

    One that is not `urgent` is fetched ahead of need, and only a request that is gets an answer. `start` is the
    number of derivation's start, `number` that of the request among those of the client's life."""

    commitment: Commitment
    urgent: bool
    start: int = 0
    number: int = 0


class InputResponse(Message, frozen=True, tag="InputResponse"):
    """The input of a commitment, which matches it where that is checked [ADA3]."""

    commitment: Commitment
    data: bytes


class InputTooLarge(Message, frozen=True, tag="InputTooLarge"):
    """The input of a keccak commitment is too large to be used, of `size` bytes at least [AD7]."""

    commitment: Commitment
    size: int


class InputUnavailable(Message, frozen=True, tag="InputUnavailable"):
    """A fetch of the input has just failed; derivation repeats its request.

    `not_found` when the DA server answered so [ADA1]. `number` is that of the client's last request before the fetch
    began, 0 if there was none."""

    commitment: Commitment
    not_found: bool
    error: str
    number: int = 0
