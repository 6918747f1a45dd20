"""Encodes batches into a compressed channel [RD2, RD3, ST1], the channel into frames [P4], and data into blobs
[BL1 to BL8]."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import brotlicffi

from rollup_node.stages.protocol import rlp

DERIVATION_VERSION = b"\x00"
BROTLI_VERSION = b"\x01"
CHANNEL_ID_BYTES = 16
FRAME_OVERHEAD = CHANNEL_ID_BYTES + 2 + 4 + 1
BLOB_BYTES = 131_072
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
        """The encoded frame [P4]."""
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
    """The compressed RLP strings of batches that begin with their type byte [RD2, RD3, ST1]."""
    stream = b"".join(rlp.encode(batch) for batch in batches)
    if compression is Compression.ZLIB:
        return zlib.compress(stream, 9)
    # zlib has no version byte of its own: its header's low bits tell it apart [RD2].
    return BROTLI_VERSION + bytes(brotlicffi.compress(stream, quality=9))


def frames(channel_id: bytes, body: bytes, max_frame_bytes: int) -> list[Frame]:
    """The channel split into frames of at most `max_frame_bytes` each, encoded."""
    step = max_frame_bytes - FRAME_OVERHEAD
    pieces = [body[at : at + step] for at in range(0, len(body), step)] or [b""]
    return [Frame(channel_id, number, piece, number == len(pieces) - 1) for number, piece in enumerate(pieces)]


def batcher_data(encoded: Sequence[Frame]) -> bytes:
    """The data of one batcher transaction or blob: the derivation version byte and whole frames [P2, P4]."""
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
