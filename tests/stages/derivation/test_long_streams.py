"""Outputs too long to be held in memory: read in pieces, they give the items they give when read as a whole [Z9]."""

import random
import zlib

import brotli as google_brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec import channel_body
from rollup_node.stages.derivation.codec.channel_body import BufferedReader, WholeReader, open_body, read_items
from rollup_node.stages.derivation.codec.zlib_stream import (
    SLACK,
    PieceSource,
    inflated_pieces,
    is_sound,
    sound_pieces,
)
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.rlp import encode_bytes

LIMIT = 100_000_000


def _stream(*sizes: int) -> bytes:
    chance = random.Random(5)
    return b"".join(encode_bytes(b"\xfe" + chance.randbytes(7) * (size // 7)) for size in sizes)


def _compressed(stream: bytes, brotli: bool) -> bytes:
    return b"\1" + bytes(google_brotli.compress(stream, quality=3)) if brotli else zlib.compress(stream, 1)


def _outcomes(body: bytes, limit: int) -> list[object]:
    reader = open_body(body, limit, True)
    if isinstance(reader, Reason):
        return [str(reader)]
    return [item if isinstance(item, bytes) else str(item) for item in read_items(reader, limit)]


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([60, 4101, 40_000, 130_000, 300_000]), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from(["whole", "cut", "flip", "junk"]),
    st.sampled_from([LIMIT, 200_000, 65_536]),
    st.data(),
)
def test_reading_in_pieces_changes_nothing(
    sizes: list[int], brotli: bool, damage: str, limit: int, drawn: st.DataObject
) -> None:
    body = _compressed(_stream(*sizes), brotli)
    if damage == "cut":
        body = body[: drawn.draw(st.integers(2, len(body) - 1))]
    elif damage == "flip":
        place = drawn.draw(st.integers(16, len(body) * 8 - 1))
        body = body[: place >> 3] + bytes((body[place >> 3] ^ 1 << (place & 7),)) + body[(place >> 3) + 1 :]
    elif damage == "junk":
        body += b"junk" * drawn.draw(st.sampled_from([1, 9000]))
    whole = _outcomes(body, limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channel_body, "MAX_WHOLE", 50_000)
        assert _outcomes(body, limit) == whole


@pytest.mark.condition("C9")
def test_long_outputs_are_not_held_in_memory() -> None:
    long, short = bytes(channel_body.MAX_WHOLE + SLACK), bytes(1000)
    for brotli in (False, True):
        assert isinstance(open_body(_compressed(long, brotli), LIMIT, True), BufferedReader)
        assert isinstance(open_body(_compressed(long, brotli), 10_000_000, True), WholeReader)
        assert isinstance(open_body(_compressed(short, brotli), LIMIT, True), WholeReader)


def test_damage_beyond_the_limit_does_not_count() -> None:
    stream = _stream(300_000, 300_000)
    body = zlib.compress(stream, 1)
    wrong_sum = body[:-1] + bytes((body[-1] ^ 1,))
    assert is_sound(body, 2, LIMIT)
    assert not is_sound(wrong_sum, 2, LIMIT)
    assert not is_sound(body[:-4], 2, LIMIT)
    assert is_sound(wrong_sum, 2, len(stream) - SLACK)


def test_a_long_stream_is_read_to_its_end_once() -> None:
    stream = _stream(300_000, 100)
    body = zlib.compress(stream, 1)
    for pieces in (sound_pieces(body, 2, LIMIT), inflated_pieces(body, 2)):
        source = PieceSource(pieces)
        read, status = b"", None
        while status is None:
            part, status = source.read(70_000)
            read += part
        assert (read, status) == (stream, "end")
