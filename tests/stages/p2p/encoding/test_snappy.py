"""Snappy blocks and frames: bounds, bombs, truncated and malformed input."""

import pytest

from rollup_node.stages.p2p.encoding import snappy, varint
from rollup_node.stages.p2p.encoding.snappy import MAX_BYTES, SnappyFailure

IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"


def test_the_largest_message() -> None:
    data = bytes(MAX_BYTES)
    assert snappy.decompress(snappy.compress(data)) == data
    assert snappy.decompress(snappy.compress(data + b"\0")) is SnappyFailure.TOO_LARGE
    assert snappy.decompress_framed(snappy.compress_framed(data)) == data
    assert snappy.decompress_framed(snappy.compress_framed(data + b"\0")) is SnappyFailure.TOO_LARGE


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 5, b"\xff" * 20, varint.encode(1 << 32) + b"abc"])
def test_an_unreadable_length_is_rejected(data: bytes) -> None:
    assert snappy.decompress(data) is SnappyFailure.NO_LENGTH


def test_a_non_minimal_length_is_accepted_as_by_other_nodes() -> None:
    """Otherwise anyone could re-encode a valid block so that peers which forward it seem to send invalid data."""
    content = b"a good block"
    compressed = snappy.compress(content)
    for padding in range(8):
        padded = bytes([compressed[0] | 0x80]) + b"\x80" * padding + b"\0" + compressed[1:]
        assert snappy.decompress(padded) == content


def test_an_implausible_length_is_rejected_without_allocation() -> None:
    small = varint.encode(MAX_BYTES) + b"\x00a"
    assert snappy.declared_length(small) == MAX_BYTES
    assert snappy.decompress(small) is SnappyFailure.BAD_DATA
    assert snappy.decompress(varint.encode(0xFFFFFFFF) + bytes(100)) is SnappyFailure.TOO_LARGE
    assert snappy.decompress(b"\x05\x10abcd") is SnappyFailure.BAD_DATA
    assert snappy.decompress(b"\x00") == b""


def chunk(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "little") + body


@pytest.mark.parametrize(
    "data",
    [
        IDENTIFIER[:5],
        b"\x00" + IDENTIFIER,
        IDENTIFIER + b"\x00\x05",
        IDENTIFIER + chunk(0, b"abc"),
        IDENTIFIER + chunk(1, b"\0\0\0\0abc"),
        IDENTIFIER + chunk(0, b"\0\0\0\0" + varint.encode((1 << 16) + 1) + bytes(9)),
        IDENTIFIER + chunk(1, bytes(4 + (1 << 16) + 1)),
        IDENTIFIER + chunk(2, b"reserved"),
        IDENTIFIER + chunk(0x7F, b""),
        IDENTIFIER + chunk(0xFF, b"sNaPpX"),
        IDENTIFIER + chunk(0x80, b"") * 9000,
        snappy.compress_framed(b"abc" * 1000)[:-1],
    ],
)
def test_malformed_frames_are_rejected(data: bytes) -> None:
    assert snappy.decompress_framed(data) is SnappyFailure.BAD_DATA


def test_skippable_frames_are_skipped() -> None:
    body = snappy.compress_framed(b"block")
    assert snappy.decompress_framed(body + chunk(0xFE, bytes(100))) == b"block"
    assert snappy.decompress_framed(body + body) == b"blockblock"
    assert snappy.decompress_framed(b"") == b""


def test_a_bomb_of_frames_is_not_decompressed() -> None:
    bomb = snappy.compress_framed(bytes(1 << 16))[len(IDENTIFIER) :]
    assert len(bomb) < 4000
    assert snappy.decompress_framed(IDENTIFIER + bomb * 200) is SnappyFailure.TOO_LARGE
    # 160 chunks have the most bytes that there may be; those that are skipped take nothing off.
    assert snappy.decompress_framed(IDENTIFIER + bomb * 160 + chunk(0xFE, b"")) == bytes(160 << 16)
    assert snappy.decompress_framed(IDENTIFIER + chunk(0xFE, b"") + bomb * 160 + chunk(1, b"\0" * 5)) is (
        SnappyFailure.TOO_LARGE
    )
