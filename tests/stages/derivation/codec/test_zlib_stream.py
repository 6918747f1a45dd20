"""Zlib: the whole-output path against the piecewise one."""

import random
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.rlp_stream import BufferedReader, WholeReader, read_items
from rollup_node.stages.derivation.codec.zlib_stream import SLACK, ZlibSource, deflate_start, whole_output
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.rlp import encode_bytes

LIMIT = 10_000_000


def _items(*sizes: int) -> list[bytes]:
    chance = random.Random(7)
    return [b"\xfe" + chance.randbytes(size - 1) for size in sizes]


def _stream(*sizes: int) -> bytes:
    return b"".join(map(encode_bytes, _items(*sizes)))


def _only_items(found: Iterator[bytes | Reason]) -> list[bytes]:
    return [item for item in found if isinstance(item, bytes)]


def _slow(body: bytes, limit: int = LIMIT) -> list[bytes]:
    start = deflate_start(body)
    return [] if start is None else _only_items(read_items(BufferedReader(ZlibSource(body, start)), limit))


def _read(body: bytes, limit: int = LIMIT) -> list[bytes]:
    start = deflate_start(body)
    if start is None:
        return []
    output = whole_output(body, start, limit)
    reader = BufferedReader(ZlibSource(body, start)) if output is None else WholeReader(output)
    return _only_items(read_items(reader, limit))


def _bad_sum(body: bytes) -> bytes:
    return body[:-1] + bytes((body[-1] ^ 1,))


def test_a_flushed_and_never_closed_stream_is_read_whole_and_fast() -> None:
    compressor = zlib.compressobj()
    body = compressor.compress(_stream(100, 9000)) + compressor.flush(zlib.Z_SYNC_FLUSH)
    assert whole_output(body, 2, LIMIT) == _stream(100, 9000)
    assert _slow(body) == _items(100, 9000)


@pytest.mark.parametrize("tail", [b"\x00\x00\xff\xff", b"ab\x00\x00\xff\xff"])
def test_bytes_that_look_like_a_flush_are_not_taken_for_one(tail: bytes) -> None:
    body = zlib.compress(_stream(9000) + tail, level=0)[:-4]
    assert body.endswith(tail)
    assert whole_output(body, 2, LIMIT) is None
    assert _read(body) == _slow(body)


def test_no_more_than_the_limit_is_decoded() -> None:
    bomb = zlib.compress(b"\x83abc" * 2 + bytes(50_000_000), 9)
    output = whole_output(bomb, 2, 1_000_000)
    assert output is not None
    assert len(output) == 1_000_000 + SLACK


_SIZES = st.lists(st.sampled_from([1, 60, 300, 4093, 4101, 8190, 9000, 30_000, 32_765]), min_size=1, max_size=4)


@settings(max_examples=80)
@given(_SIZES, st.booleans(), st.sampled_from(["whole", "sum", "cut", "flip", "flush"]), st.data())
def test_fast_and_slow_path_agree(sizes: list[int], stored: bool, damage: str, drawn: st.DataObject) -> None:
    stream = _stream(*sizes)
    compressor = zlib.compressobj(0 if stored else 6)
    body = compressor.compress(stream)
    body += compressor.flush(zlib.Z_SYNC_FLUSH if damage == "flush" else zlib.Z_FINISH)
    if damage == "sum":
        body = _bad_sum(body)
    elif damage == "cut":
        body = body[: drawn.draw(st.integers(2, len(body) - 1))]
    elif damage == "flip":
        place = drawn.draw(st.integers(16, len(body) * 8 - 1))
        body = body[: place >> 3] + bytes((body[place >> 3] ^ 1 << (place & 7),)) + body[(place >> 3) + 1 :]
    limit = drawn.draw(st.sampled_from([LIMIT, len(stream), len(stream) - 1, 5000]))
    found = _read(body, limit)
    assert found == _slow(body, limit)
    if damage != "flip":
        assert found == _items(*sizes)[: len(found)]
