"""Outputs of the deriver: attributes, or the input that it needs next. A need is repeated until it is met."""

from enum import Enum

import msgspec

from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.derivation.tasks import DecodeChannel
from rollup_node.stages.protocol.commitments import Commitment
from rollup_node.stages.protocol.types import BlobRef, L1BlockRef


class NeedL1Block(msgspec.Struct, frozen=True):
    """The canonical L1 block of this number: all blocks before it are exhausted [T1]."""

    number: int


class NeedBlobs(msgspec.Struct, frozen=True):
    """The contents of the blobs of the batcher's transactions in `block`, in this order [O5]."""

    block: L1BlockRef
    blobs: tuple[BlobRef, ...]


class NeedInput(msgspec.Struct, frozen=True):
    """The input of an Alt-DA commitment of `block` [AD6]."""

    block: L1BlockRef
    commitment: Commitment


class NeedChallenges(msgspec.Struct, frozen=True):
    """The canonical L1 block of this number for its challenges, ahead of the one being read [AD6]."""

    number: int


class NeedDecoded(msgspec.Struct, frozen=True):
    """The result of a decoding task; `key` is a digest of the channel's bytes and of the rules that it is read by."""

    key: bytes
    task: DecodeChannel


class NeedL2Blocks(msgspec.Struct, frozen=True):
    """Blocks `first` to `last`, both included, of the safe L2 chain."""

    first: int
    last: int


class NeedReset(msgspec.Struct, frozen=True):
    """Derivation cannot continue before a reset [PS2]."""

    reason: Reason


class AwaitSafeHead(msgspec.Struct, frozen=True):
    """Nothing to do until a reset or confirmed attributes [AQ5]; for good before a foreign fork [LFT3]."""


NeedData = NeedBlobs | NeedInput | NeedChallenges
"""What is needed for the next data item."""

Need = NeedData | NeedDecoded | NeedL2Blocks


class Flow(Enum):
    """No output: step again at once, or the L1 blocks read so far are exhausted (EOF in op-node)."""

    MORE = "more"
    OUT_OF_DATA = "out of data"
