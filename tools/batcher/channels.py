"""Channels: the rules for one, and which batches go into which.

With their compression [RD2, RD3, ST1], frames [P4] and blobs [BL1 to BL8]."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import brotli

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.types import Hash

DERIVATION_VERSION = b"\x00"
BROTLI_VERSION = b"\x01"
CHANNEL_ID_BYTES = 16
FRAME_OVERHEAD = CHANNEL_ID_BYTES + 2 + 4 + 1
MAX_BLOB_DATA = 130_044
ROUND_BYTES = 127
ROUNDS = 1024


class Compression(Enum):
    """The compression of a channel."""

    ZLIB = "zlib"
    BROTLI = "brotli"


@dataclass(frozen=True)
class Frame:
    """A frame of a channel [P4]."""

    channel_id: bytes
    number: int
    data: bytes
    is_last: bool

    def encode(self) -> bytes:
        """Return the encoded frame [P4]."""
        return b"".join(
            (
                self.channel_id,
                self.number.to_bytes(2, "big"),
                len(self.data).to_bytes(4, "big"),
                self.data,
                bytes((self.is_last,)),
            )
        )


def channel_body(batches: Iterable[bytes], compression: Compression) -> bytes:
    """Return the compressed RLP strings of batches that begin with their type byte [RD2, RD3, ST1]."""
    stream = b"".join(rlp.encode(batch) for batch in batches)
    if compression is Compression.ZLIB:
        return zlib.compress(stream, 9)
    # zlib has no version byte of its own: its header's low bits tell it apart [RD2].
    return BROTLI_VERSION + bytes(brotli.compress(stream, quality=9))


def frames(channel_id: bytes, body: bytes, max_frame_bytes: int) -> list[Frame]:
    """Return the channel split into frames of at most `max_frame_bytes` each, encoded."""
    step = max_frame_bytes - FRAME_OVERHEAD
    pieces = [body[at : at + step] for at in range(0, len(body), step)] or [b""]
    return [Frame(channel_id, number, piece, number == len(pieces) - 1) for number, piece in enumerate(pieces)]


def batcher_data(encoded: Sequence[Frame]) -> bytes:
    """Return the data of one batcher transaction or blob: the derivation version byte and whole frames [P2, P4]."""
    return DERIVATION_VERSION + b"".join(frame.encode() for frame in encoded)


def encode_blob(data: bytes) -> bytes:
    """At most 130,044 bytes as one blob: 1024 rounds of 127 bytes in four field elements each [BL1 to BL7].

    Raises ValueError for longer data."""
    if len(data) > MAX_BLOB_DATA:
        raise ValueError(f"a blob holds {MAX_BLOB_DATA} bytes, not {len(data)}")
    stream = (b"\x00" + len(data).to_bytes(3, "big") + data).ljust(ROUNDS * ROUND_BYTES, b"\0")
    return b"".join(_encode_round(stream[at : at + ROUND_BYTES]) for at in range(0, len(stream), ROUND_BYTES))


def _encode_round(chunk: bytes) -> bytes:
    """Four field elements: 31 bytes follow the first of each, whose low six bits hold the other three bytes [BL5]."""
    x, y, z = chunk[31], chunk[63], chunk[95]
    tops = (x & 0x3F, (y & 0x0F) | ((x & 0xC0) >> 2), z & 0x3F, ((z & 0xC0) >> 2) | ((y & 0xF0) >> 4))
    bodies = (chunk[0:31], chunk[32:63], chunk[64:95], chunk[96:127])
    return b"".join(bytes((top,)) + body for top, body in zip(tops, bodies, strict=True))


class ChannelConfig(NamedTuple):
    """How a channel is encoded and posted: span or singular batches, blobs or calldata, and its compression."""

    spans: bool
    blobs: bool
    compression: Compression


def supported_config(wanted: ChannelConfig, schedule: ForkSchedule, l1_time: int, origin_time: int) -> ChannelConfig:
    """Return the wanted configuration with each part replaced by its older form until its fork is active.

    `l1_time` is the L1 head's time in seconds: the block that includes the channel is later, and the older forms stay
    valid after a fork. `origin_time` is the time of the L1 origin of the channel's first L2 block."""
    rules = schedule.l1(l1_time)
    return ChannelConfig(
        spans=wanted.spans and schedule.epoch(origin_time).span_batches,
        blobs=wanted.blobs and rules.blobs_as_data,
        compression=wanted.compression if rules.brotli else Compression.ZLIB,
    )


SAFE_TIMEOUT = 8
"""L1 blocks within which a submitted channel becomes safe."""
MAX_BLOCKS_PER_CHANNEL = 120


@dataclass(frozen=True)
class SubmittedChannel:
    """A channel on its way to safety: its last L2 block, its L1 transactions, and the L1 head when it was sent."""

    last: int
    last_hash: Hash
    transactions: tuple[Hash, ...]
    sent_at: int


@dataclass
class ChannelManager:
    """`next_block` is the first L2 block that is not submitted yet, None until the safe head is known."""

    next_block: int | None = None
    last_hash: Hash | None = None
    submitted: list[SubmittedChannel] = field(default_factory=list)
    restarts: int = 0
    last_sent_at: int = -1

    def update_safe_head(self, number: int, block_hash: Hash) -> None:
        """Drop the channels that are safe, and start after the safe head where nothing later is submitted."""
        self.submitted = [channel for channel in self.submitted if channel.last > number]
        if self.next_block is None or self.next_block <= number:
            self.next_block, self.last_hash = number + 1, block_hash

    def restart(self) -> None:
        """Drop everything submitted; the next `update_safe_head` says where to start."""
        self.next_block, self.last_hash = None, None
        self.last_sent_at = -1
        self.submitted.clear()
        self.restarts += 1

    def timed_out(self, l1_head: int) -> bool:
        """Whether a submitted channel is not safe after `SAFE_TIMEOUT` L1 blocks; the caller restarts."""
        return any(l1_head > channel.sent_at + SAFE_TIMEOUT for channel in self.submitted)

    def next_blocks(self, unsafe_number: int, l1_head: int) -> range:
        """Return the numbers of the L2 blocks for the next channel, empty where one was sent at this L1 head."""
        if self.next_block is None or l1_head == self.last_sent_at:
            return range(0)
        return range(self.next_block, min(unsafe_number, self.next_block + MAX_BLOCKS_PER_CHANNEL - 1) + 1)

    def extends(self, parent_hash: Hash) -> bool:
        """Whether a block with this parent follows what is submitted; if not, the unsafe chain was reorged."""
        return self.last_hash is None or self.last_hash == parent_hash

    def add(self, channel: SubmittedChannel) -> None:
        """Record a channel that was sent."""
        self.submitted.append(channel)
        self.last_sent_at = channel.sent_at
        self.next_block, self.last_hash = channel.last + 1, channel.last_hash
