"""Bodies that are compressed once: a response is put together from them in gzip without compressing anything."""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

LEVEL = 5
"""Of compression: near that of geth (6) and of proxies before it (1 to 6)."""
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_MAX_STORED = 0xFFFF


class Prepared(NamedTuple):
    """A body, and the same as deflated blocks that end at a byte and may stand anywhere in a stream."""

    plain: bytes
    deflated: bytes


def deflated(body: bytes) -> bytes:
    """Return a body as deflated blocks, of which none is the last of a stream."""
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush(zlib.Z_FULL_FLUSH)


def gzipped(parts: Sequence[bytes | Prepared]) -> list[bytes]:
    """Return the parts one after another as one gzip stream, of which those that are not prepared are stored."""
    stream, crc, size = [_HEADER], 0, 0
    for part in parts:
        plain = part.plain if isinstance(part, Prepared) else part
        crc, size = zlib.crc32(plain, crc), size + len(plain)
        stream += [part.deflated] if isinstance(part, Prepared) else _stored(part)
    stream.append(b"\x01\x00\x00\xff\xff")
    stream.append(crc.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little"))
    return stream


def _stored(data: bytes) -> list[bytes]:
    blocks = []
    for start in range(0, len(data), _MAX_STORED):
        block = data[start : start + _MAX_STORED]
        length = len(block)
        blocks += [b"\x00" + length.to_bytes(2, "little") + (length ^ 0xFFFF).to_bytes(2, "little"), block]
    return blocks
