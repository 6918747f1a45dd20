"""Zlib: which streams are read as a whole, and our own inflate beside C zlib."""

import random
import zlib
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.zlib_stream import (
    CORRUPT,
    CUT_OFF,
    END,
    SLACK,
    WINDOW,
    Inflater,
    PieceSource,
    inflated_pieces,
    is_sound,
    sound_pieces,
    whole_output,
)

LIMIT = 10_000_000


def _deflated(data: bytes, level: int = 6, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, -15, strategy=strategy)
    return compressor.compress(data) + compressor.flush()


def _pieces(data: bytes) -> tuple[list[bytes], str | None, int]:
    inflater = Inflater(data)
    pieces = list(inflater.pieces())
    assert [status for _, status in pieces[:-1]] == [None] * (len(pieces) - 1)
    return [piece for piece, _ in pieces], pieces[-1][1], inflater.at


def _sample(size: int, seed: int = 1) -> bytes:
    chance = random.Random(seed)
    words = [chance.randbytes(chance.randrange(1, 40)) for _ in range(60)]
    text = b"".join(chance.choice(words) for _ in range(1 + size // 10))
    return text[:size]


STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE)


@pytest.mark.parametrize(
    ("size", "level", "strategy"),
    [
        *product((0, 1, WINDOW - 1, WINDOW, WINDOW + 1), (0, 9), STRATEGIES[:1]),
        *product((300, 70_000), (0, 1, 9), STRATEGIES),
    ],
)
def test_whole_streams(size: int, level: int, strategy: int) -> None:
    data = _sample(size)
    stream = _deflated(data, level, strategy)
    pieces, status, at = _pieces(stream + b"junk")
    assert b"".join(pieces) == data
    assert (status, at) == (END, len(stream))
    assert all(len(piece) == WINDOW for piece in pieces[:-1])


@settings(max_examples=100)
@given(st.binary(max_size=2000), st.data())
def test_flipped_streams_agree_with_zlib_fed_byte_by_byte(data: bytes, drawn: st.DataObject) -> None:
    stream = bytearray(_deflated(data))
    place = drawn.draw(st.integers(0, len(stream) * 8 - 1))
    stream[place >> 3] ^= 1 << (place & 7)
    pieces, _, _ = _pieces(bytes(stream))
    output = b"".join(pieces)
    decoder, expected = zlib.decompressobj(-15), b""
    try:
        for byte in stream:
            expected += decoder.decompress(bytes((byte,)))
    except zlib.error:
        pass
    shorter, longer = sorted((output, expected), key=len)
    assert longer.startswith(shorter)
    assert len(expected) - len(output) <= 1


def test_a_sync_flush_ends_a_piece() -> None:
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    stream = compressor.compress(b"first") + compressor.flush(zlib.Z_SYNC_FLUSH) + compressor.compress(b"second")
    stream += compressor.flush()
    assert _pieces(stream)[:2] == ([b"first", b"second"], END)


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(b"\x07", id="block type 3"),
        pytest.param(b"\x01\x01\x00\x00\x00", id="lengths that do not match"),
        pytest.param(b"\x4b\x04\x12\x00", id="distance before the beginning"),
        pytest.param(b"\xfd\xff\xff\xff\xff\xff\xff\xff", id="too many codes"),
    ],
)
def test_corrupt(stream: bytes) -> None:
    assert _pieces(stream)[1] == CORRUPT


def _bits(*parts: tuple[int, int]) -> bytes:
    """(value, width) pairs, lowest bits first."""
    value = width = 0
    for part, size in parts:
        value |= part << width
        width += size
    return value.to_bytes((width + 7) // 8 + 4, "little")


def test_an_end_of_block_code_need_not_exist() -> None:
    """zlib refuses such a block; Go reads it until the input ends. Literals 0 and 1 have one bit each."""
    order = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1)
    lengths = [(1 if symbol in (1, 18) else 0, 3) for symbol in order]
    header = [(0, 1), (2, 2), (0, 5), (0, 5), (14, 4), *lengths]
    code_lengths = [(0, 1), (0, 1), (1, 1), (127, 7), (1, 1), (107, 7)]
    stream = _bits(*header, *code_lengths, (0b1010, 4))
    with pytest.raises(zlib.error):
        zlib.decompressobj(-15).decompress(stream)
    pieces, status, _ = _pieces(stream)
    assert pieces[0].startswith(b"\0\1\0\1")
    assert status == CUT_OFF


@pytest.mark.parametrize("tail", [b"\x00\x00\xff\xff", b"ab\x00\x00\xff\xff"])
def test_only_a_flush_ends_a_stream_that_is_never_closed(tail: bytes) -> None:
    data, compressor = _sample(9000), zlib.compressobj()
    flushed = compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
    assert whole_output(flushed, 2, LIMIT) == data
    alike = zlib.compress(data + tail, level=0)[:-4]
    assert alike.endswith(tail) and whole_output(alike, 2, LIMIT) is None


def test_no_more_than_the_limit_is_decoded() -> None:
    output = whole_output(zlib.compress(bytes(5_000_000), 9), 2, 1_000_000)
    assert output is not None and len(output) == 1_000_000 + SLACK


def test_damage_beyond_the_limit_does_not_count() -> None:
    data = _sample(600_000)
    body = zlib.compress(data, 1)
    wrong_sum = body[:-1] + bytes((body[-1] ^ 1,))
    assert is_sound(body, 2, LIMIT)
    assert not is_sound(wrong_sum, 2, LIMIT)
    assert not is_sound(body[:-4], 2, LIMIT)
    assert is_sound(wrong_sum, 2, len(data) - SLACK)


def test_a_long_stream_is_read_to_its_end_once() -> None:
    data = _sample(300_000)
    body = zlib.compress(data, 1)
    for pieces in (sound_pieces(body, 2, LIMIT), inflated_pieces(body, 2)):
        source = PieceSource(pieces)
        read, status = b"", None
        while status is None:
            part, status = source.read(70_000)
            read += part
        assert (read, status) == (data, END)
