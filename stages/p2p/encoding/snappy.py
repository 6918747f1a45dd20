"""Snappy with bounds: what a peer sends is measured by its declared lengths before a byte of it is decompressed.
Gossip uses the block format, responses of the sync protocol the framed one (node-behaviour 13.3, 13.6)."""

from enum import Enum

import cramjam

from rollup_node.stages.p2p.encoding import varint

MAX_BYTES = 10 * (1 << 20)
"""Limit of a message, both before and after decompression."""

_MAX_RATIO = 22
_STREAM_IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED, _UNCOMPRESSED, _FIRST_SKIPPABLE = 0x00, 0x01, 0x80
_CHECKSUM_BYTES = 4
_MAX_CHUNK_BYTES = 1 << 16
_MAX_CHUNKS = 8192


class SnappyFailure(Enum):
    """Why bytes are not a message in snappy."""

    NO_LENGTH = "the declared length cannot be read"
    TOO_LARGE = "larger than 10 MiB"
    BAD_DATA = "the compressed data is corrupt"


def compress(data: bytes) -> bytes:
    """Block format."""
    return bytes(cramjam.snappy.compress_raw(data))


def declared_length(data: bytes | memoryview) -> int | None:
    """The length that a message in block format declares; None if it declares none of 32 bits. It may be padded: other
    nodes read that and pass it on."""
    try:
        found = varint.decode_protobuf(data)
    except varint.VarintError:
        return None
    return None if found is None or found[0] >= 1 << 32 else found[0]


def decompress(data: bytes, most: int = MAX_BYTES) -> bytes | SnappyFailure:
    """A message in block format. One that claims more than snappy can make of its bytes is corrupt without a try."""
    length = declared_length(data)
    if length is None:
        return SnappyFailure.NO_LENGTH
    if length > most:
        return SnappyFailure.TOO_LARGE
    if length > _MAX_RATIO * len(data):
        return SnappyFailure.BAD_DATA
    try:
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError:
        return SnappyFailure.BAD_DATA


def compress_framed(data: bytes) -> bytes:
    """Framed format."""
    return bytes(cramjam.snappy.compress(data))


def decompress_framed(data: bytes, most: int = MAX_BYTES) -> bytes | SnappyFailure:
    """A whole stream in framed format, of no more than `most` bytes decompressed."""
    length = _framed_length(data, most)
    if isinstance(length, SnappyFailure):
        return length
    try:
        return bytes(cramjam.snappy.decompress(data))
    except cramjam.DecompressionError:
        return SnappyFailure.BAD_DATA


def _framed_length(data: bytes, most: int) -> int | SnappyFailure:
    """What all chunks declare together. An empty stream is one of nothing."""
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
        if total > most:
            return SnappyFailure.TOO_LARGE
        offset += 4 + size
    return total


def _chunk_length(kind: int, body: memoryview) -> int | None:
    """The bytes that a chunk decompresses to; None for one that cannot be read."""
    if kind in (_COMPRESSED, _UNCOMPRESSED):
        if len(body) < _CHECKSUM_BYTES:
            return None
        length = len(body) - _CHECKSUM_BYTES if kind == _UNCOMPRESSED else declared_length(body[_CHECKSUM_BYTES:])
        return None if length is None or length > _MAX_CHUNK_BYTES else length
    if kind == _STREAM_IDENTIFIER[0]:
        return 0 if bytes(body) == _STREAM_IDENTIFIER[4:] else None
    return 0 if kind >= _FIRST_SKIPPABLE else None
