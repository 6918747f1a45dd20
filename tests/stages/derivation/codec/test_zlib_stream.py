"""Damaged zlib channels: which items survive, as measured on Go's readers (derivation-rules 9.1, 9.3)."""

import random
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.rlp_stream import BufferedReader, WholeReader, read_items
from rollup_node.stages.derivation.codec.zlib_stream import ZlibSource, deflate_start, whole_output
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


@pytest.mark.parametrize(
    ("sizes", "survive"),
    [
        pytest.param((100, 200), 2, id="zip_adler_bad_small"),
        pytest.param((9000,), 0, id="zip_adler_bad_9000"),
        pytest.param((100, 9000), 1, id="zip_adler_bad_100_9000"),
        pytest.param((4101,), 1, id="zip_adler_bad_4101"),
        pytest.param((8190,), 0, id="zip_adler_bad_8190"),
        pytest.param((32764,), 0, id="zip_adler_bad_32767"),
        pytest.param((32765,), 1, id="zip_adler_bad_32768"),
    ],
)
@pytest.mark.parametrize("missing", [False, True], ids=["wrong", "zip_adler_missing"])
def test_checksum(sizes: tuple[int, ...], survive: int, missing: bool) -> None:
    body = zlib.compress(_stream(*sizes))
    damaged = body[:-4] if missing else _bad_sum(body)
    assert _read(damaged) == _items(*sizes)[:survive]
    assert _read(body) == _items(*sizes)


def test_zip_adler_ok_junk() -> None:
    assert _read(zlib.compress(_stream(100, 9000)) + b"junk") == _items(100, 9000)


def test_zip_deflate_cut() -> None:
    body = zlib.compress(_stream(100, 200, 50_000))
    assert _read(body[: len(body) // 2]) == _items(100, 200)


def test_zip_deflate_flip() -> None:
    body = bytearray(zlib.compress(_stream(5000, 5000) + b"\x83abc" * 2000))
    body[7000] ^= 0x10
    assert _read(bytes(body))[:1] == _items(5000)
    assert _read(bytes(body)) != _read(zlib.compress(_stream(5000, 5000) + b"\x83abc" * 2000))


@pytest.mark.parametrize(
    ("head", "start"),
    [
        pytest.param(b"\x7f\x13", None, id="zip_nibble_15"),
        pytest.param(b"\x88\x1c", None, id="zip_cinfo_8"),
        pytest.param(b"\x08\x1d", 2, id="zip_cinfo_0"),
        pytest.param(b"\x78\x9d", None, id="zip_fcheck_bad"),
        pytest.param(b"\x78\xbb\x00\x00\x00\x01", 6, id="zip_fdict_1"),
        pytest.param(b"\x78\xbb\x00\x00\x00\x02", None, id="zip_fdict_2"),
        pytest.param(b"\x78", None, id="zip_one_byte_78"),
        pytest.param(b"\x28\xb5", None, id="zip_first_byte_28"),
    ],
)
def test_header(head: bytes, start: int | None) -> None:
    assert deflate_start(head) == start
    body = head + zlib.compress(_stream(100))[2:]
    assert _read(body) == (_items(100) if start else [])


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


@pytest.mark.parametrize(("over", "count"), [(0, 2), (-1, 1), (-200, 1)], ids=["exact", "minus1", "in_header"])
def test_zip_limit(over: int, count: int) -> None:
    stream = _stream(100, 200)
    limit = len(stream) + over
    assert _read(zlib.compress(stream), limit) == _slow(zlib.compress(stream), limit) == _items(100, 200)[:count]


def test_zip_bomb() -> None:
    bomb = zlib.compress(b"\x83abc" * 2 + bytes(50_000_000), 9)
    output = whole_output(bomb, 2, 1_000_000)
    assert output is not None
    assert len(output) < 1_100_000
    assert _read(bomb, 10)[:2] == [b"abc", b"abc"]


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
