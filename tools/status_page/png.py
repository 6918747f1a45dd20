"""Indexed PNG files: a picture of a page in 256 colours is a fifth of what a browser makes of it."""

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_COLORS = 256
_INDEXED = 3


def indexed_png(width: int, palette: bytes, pixels: bytes) -> bytes:
    """Return the file of rows of `width` pixels, each the number of a colour of the palette.

    The palette has three bytes for each. Raises ValueError where they do not fit together."""
    if width <= 0 or len(pixels) % width or not pixels:
        raise ValueError(f"{len(pixels)} pixels make no rows of {width}")
    colors, rest = divmod(len(palette), 3)
    if rest or colors > MAX_COLORS or max(pixels) >= colors:
        raise ValueError(f"a palette of {len(palette)} bytes does not have the colours of the pixels")
    height = len(pixels) // width
    rows = b"".join(b"\x00" + pixels[start : start + width] for start in range(0, len(pixels), width))
    header = struct.pack(">IIBBBBB", width, height, 8, _INDEXED, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
