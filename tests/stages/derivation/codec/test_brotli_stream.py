"""Brotli channels, whole and damaged: which items survive, as measured on Go's reader (derivation-rules 9.3 Z8)."""

import random
from collections.abc import Iterator

import brotlicffi
import pytest
from brotlicffi._brotlicffi import lib
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.brotli_stream import FIRST_INPUT, INPUT, BrotliSource, whole_output
from rollup_node.stages.derivation.codec.rlp_stream import BufferedReader, WholeReader, read_items
from rollup_node.stages.derivation.codec.zlib_stream import SLACK
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.rlp import encode_bytes

LIMIT = 100_000_000


def _items(*sizes: int) -> list[bytes]:
    chance = random.Random(7)
    return [b"\xfe" + chance.randbytes(size - 1) for size in sizes]


def _stream(*sizes: int) -> bytes:
    return b"".join(map(encode_bytes, _items(*sizes)))


def _compressed(data: bytes) -> bytes:
    return bytes(brotlicffi.compress(data, quality=5))


def _only_items(found: Iterator[bytes | Reason]) -> list[bytes]:
    return [item for item in found if isinstance(item, bytes)]


def _slow(data: bytes, limit: int = LIMIT) -> list[bytes]:
    return _only_items(read_items(BufferedReader(BrotliSource(data)), limit))


def _read(data: bytes, limit: int = LIMIT) -> list[bytes]:
    output = whole_output(data, limit, SLACK)
    return _slow(data, limit) if output is None else _only_items(read_items(WholeReader(output), limit))


def test_the_stream_calls_exist() -> None:
    for name in ("CreateInstance", "DestroyInstance", "DecompressStream", "HasMoreOutput", "IsFinished"):
        assert callable(getattr(lib, f"BrotliDecoder{name}"))
    for name in ("SUCCESS", "ERROR", "NEEDS_MORE_INPUT", "NEEDS_MORE_OUTPUT"):
        assert isinstance(getattr(lib, f"BROTLI_DECODER_RESULT_{name}"), int)


@pytest.mark.parametrize("sizes", [(1,), (100, 200), (9000,), (40_000, 5, 70_000)])
def test_whole_streams(sizes: tuple[int, ...]) -> None:
    data = _compressed(_stream(*sizes))
    assert whole_output(data, LIMIT, SLACK) == _stream(*sizes)
    assert _slow(data) == _items(*sizes)


@pytest.mark.parametrize(
    ("sizes", "survive"),
    [
        pytest.param((100, 200), 2, id="zip_brotli_junk_small"),
        pytest.param((9000,), 0, id="zip_brotli_junk_9000"),
        pytest.param((40_000,), 1, id="zip_brotli_junk_40000"),
    ],
)
@pytest.mark.parametrize("junk", [b"junk", _compressed(b"\x83abc")], ids=["bytes", "zip_brotli_two_streams"])
def test_junk(sizes: tuple[int, ...], survive: int, junk: bytes) -> None:
    data = _compressed(_stream(*sizes)) + junk
    assert whole_output(data, LIMIT, SLACK) is None
    assert _read(data) == _items(*sizes)[:survive]


def _sized(compressed_size: int) -> tuple[list[bytes], bytes]:
    """An item whose compressed stream has exactly this size."""
    for size in range(compressed_size - 20, compressed_size):
        items = _items(size)
        data = _compressed(encode_bytes(items[0]))
        if len(data) == compressed_size:
            return items, data
    raise AssertionError("no such stream")


@pytest.mark.parametrize(("short", "survive"), [(0, 1), (1, 0)], ids=["zip_brotli_junk_next_piece", "same_piece"])
def test_junk_at_the_edge_of_an_input_piece(short: int, survive: int) -> None:
    items, data = _sized(FIRST_INPUT + INPUT - short)
    assert _read(data + b"junk") == items[:survive]


@pytest.mark.parametrize("sizes", [(100, 200), (9000,), (100, 9000), (40_000,)])
def test_zip_brotli_cut_1(sizes: tuple[int, ...]) -> None:
    assert _read(_compressed(_stream(*sizes))[:-1]) == _items(*sizes), "all output is there"


def test_zip_brotli_cut_10() -> None:
    assert _read(_compressed(_stream(100, 200, 5000))[:-10]) == _items(100, 200)


def test_zip_brotli_only_version() -> None:
    assert _read(b"") == []


def test_zip_brotli_large_window() -> None:
    assert _read(b"\x11\x1e" + _compressed(_stream(100))) == []


def test_zip_bomb() -> None:
    bomb = _compressed(b"\x83abc" * 2 + bytes(60_000_000))
    output = whole_output(bomb, 1_000_000, SLACK)
    assert output is not None
    assert len(output) == 1_000_000 + SLACK
    assert _read(bomb, 8) == [b"abc", b"abc"]


_SIZES = st.lists(st.sampled_from([1, 60, 300, 4093, 4101, 8190, 9000, 40_000]), min_size=1, max_size=4)


@settings(max_examples=80)
@given(_SIZES, st.sampled_from(["whole", "junk", "cut", "flip"]), st.data())
def test_fast_and_slow_path_agree(sizes: list[int], damage: str, drawn: st.DataObject) -> None:
    stream = _stream(*sizes) + b"\x83abc" * 300
    data = _compressed(stream)
    if damage == "junk":
        data += drawn.draw(st.binary(min_size=1, max_size=5))
    elif damage == "cut":
        data = data[: drawn.draw(st.integers(0, len(data) - 1))]
    elif damage == "flip":
        place = drawn.draw(st.integers(0, len(data) * 8 - 1))
        data = data[: place >> 3] + bytes((data[place >> 3] ^ 1 << (place & 7),)) + data[(place >> 3) + 1 :]
    limit = drawn.draw(st.sampled_from([LIMIT, len(stream), len(stream) - 1, 5000]))
    assert _read(data, limit) == _slow(data, limit)
