"""What the deriver gives out: attributes, or what it needs to go on. A need is repeated until it is met."""

from enum import Enum

import msgspec

from rollup_node.stages.derivation.reasons.reasons import Reason
from rollup_node.stages.derivation.tasks import DecodeChannel
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import BlobRef, L1BlockRef, L2BlockRef


class NeedL1Block(msgspec.Struct, frozen=True):
    """The canonical L1 block of that number: everything before it is used up."""

    number: int


class NeedBlobs(msgspec.Struct, frozen=True):
    """The contents of the blobs the batcher's transactions in `block` carry, in this order."""

    block: L1BlockRef
    blobs: tuple[BlobRef, ...]


class NeedDecoded(msgspec.Struct, frozen=True):
    """The result of a task; `key` is a digest of the channel's content and the rules by which it is read."""

    key: bytes
    task: DecodeChannel


class NeedL2Blocks(msgspec.Struct, frozen=True):
    """Blocks `first` to `last` of the safe L2 chain."""

    first: int
    last: int


class NeedReset(msgspec.Struct, frozen=True):
    """What was built on is gone; nothing goes on before a reset."""

    reason: Reason


class AwaitSafeHead(msgspec.Struct, frozen=True):
    """The last attributes are not confirmed yet, or there was no start."""


class Attributes(msgspec.Struct, frozen=True):
    """Attributes for the block after `parent`, read at L1 block `derived_from`; `concluding` if no further block of the
    same batch follows (derivation-rules AQ6)."""

    parent: L2BlockRef
    attributes: PayloadAttributes
    derived_from: L1BlockRef
    concluding: bool


Need = NeedBlobs | NeedDecoded | NeedL2Blocks


class Flow(Enum):
    """Nothing to give out: call again at once, or there is no more data in the L1 blocks read so far."""

    MORE = "more"
    OUT_OF_DATA = "out of data"
