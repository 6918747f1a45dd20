"""Snappy with bounds: the lengths that compressed data declares are checked before anything is decompressed.

Gossip uses the block format [GSP2], responses of payload_by_number the framed one [SYN3].
Source: https://github.com/google/snappy/blob/main/format_description.txt and framing_format.txt beside it"""

from enum import Enum

import cramjam

from rollup_node.stages.p2p.encoding import varint

MAX_BYTES = 10 * (1 << 20)
"""Limit of a message, before and after decompression [GSP3, SYN5]."""

_MAX_RATIO = 22
_STREAM_IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED, _UNCOMPRESSED, _FIRST_SKIPPABLE = 0x00, 0x01, 0x80
_CHECKSUM_BYTES = 4
_MAX_CHUNK_BYTES = 1 << 16
_MAX_CHUNKS = 8192


class SnappyFailure(Enum):
    """The reason why data cannot be decompressed."""

    NO_LENGTH = "the declared length cannot be read"
    TOO_LARGE = "larger than 10 MiB"
    BAD_DATA = "the compressed data is corrupt"


def compress(data: bytes) -> bytes:
    """Compress to the block format."""
    return bytes(cramjam.snappy.compress_raw(data))


def declared_length(data: bytes | memoryview) -> int | None:
    """Return the length that data in block format declares; None when it is unreadable or not below 2^32."""
    try:
        # Go's decoder accepts a non-minimal varint, so peers forward such messages and they must not count against
        # them.
        protobuf = varint.decode_protobuf(data)
    except varint.VarintError:
        return None
    return None if protobuf is None or protobuf[0] >= 1 << 32 else protobuf[0]


def decompress(data: bytes) -> bytes | SnappyFailure:
    """Decompress data in block format to at most MAX_BYTES bytes; the length it declares is checked before."""
    length = declared_length(data)
    if length is None:
        return SnappyFailure.NO_LENGTH
    if length > MAX_BYTES:
        return SnappyFailure.TOO_LARGE
    if length > _MAX_RATIO * len(data):
        return SnappyFailure.BAD_DATA
    try:
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError:
        return SnappyFailure.BAD_DATA


def compress_framed(data: bytes) -> bytes:
    """Compress to the framed format."""
    return bytes(cramjam.snappy.compress(data))


def decompress_framed(data: bytes) -> bytes | SnappyFailure:
    """Decompress a whole stream in framed format to at most MAX_BYTES bytes."""
    length = _framed_length(data)
    if isinstance(length, SnappyFailure):
        return length
    try:
        return bytes(cramjam.snappy.decompress(data))
    except cramjam.DecompressionError:
        return SnappyFailure.BAD_DATA


def _framed_length(data: bytes) -> int | SnappyFailure:
    """Return the sum of the lengths that all chunks declare; 0 for an empty stream."""
    if data and not data.startswith(_STREAM_IDENTIFIER):
        return SnappyFailure.BAD_DATA
    total = offset = chunks = 0
    while offset < len(data):
        chunks += 1
        size = int.from_bytes(data[offset + 1 : offset + 4], "little")
        body = memoryview(data)[offset + 4 : offset + 4 + size]
        if chunks > _MAX_CHUNKS or len(data) - offset < 4 or len(body) < size:
            return SnappyFailure.BAD_DATA
        length = _chunk_length(data[offset], body)
        if length is None:
            return SnappyFailure.BAD_DATA
        total += length
        if total > MAX_BYTES:
            return SnappyFailure.TOO_LARGE
        offset += 4 + size
    return total


def _chunk_length(kind: int, body: memoryview) -> int | None:
    """Return the uncompressed length of a chunk; None when it is malformed."""
    if kind in (_COMPRESSED, _UNCOMPRESSED):
        if len(body) < _CHECKSUM_BYTES:
            return None
        length = len(body) - _CHECKSUM_BYTES if kind == _UNCOMPRESSED else declared_length(body[_CHECKSUM_BYTES:])
        return None if length is None or length > _MAX_CHUNK_BYTES else length
    if kind == _STREAM_IDENTIFIER[0]:
        return 0 if bytes(body) == _STREAM_IDENTIFIER[4:] else None
    return 0 if kind >= _FIRST_SKIPPABLE else None
