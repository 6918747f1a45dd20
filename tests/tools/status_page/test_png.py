"""Indexed PNG files."""

import struct
import zlib

import pytest

from rollup_node.tools.status_page.png import SIGNATURE, indexed_png


def test_a_picture_of_two_rows() -> None:
    data = indexed_png(3, b"\xff\xff\xff\x00\x00\x00", bytes((0, 1, 0, 1, 1, 0)))
    assert data.startswith(SIGNATURE)
    chunks, at = {}, len(SIGNATURE)
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size)[0] == zlib.crc32(name + body)
        chunks[name], at = body, at + 12 + size
    assert list(chunks) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (3, 2, 8, 3, 0, 0, 0)
    assert zlib.decompress(chunks[b"IDAT"]) == bytes((0, 0, 1, 0, 0, 1, 1, 0))


@pytest.mark.parametrize(
    ("width", "palette", "pixels"), [(0, b"abc", b"\0"), (2, b"abc", b"\0"), (1, b"ab", b"\0"), (1, b"abc", b"\1")]
)
def test_what_makes_no_picture(width: int, palette: bytes, pixels: bytes) -> None:
    with pytest.raises(ValueError, match="pixels"):
        indexed_png(width, palette, pixels)
