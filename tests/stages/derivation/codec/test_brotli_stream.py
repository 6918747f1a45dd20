"""Brotli: the decoder's stream calls, and the whole-output path against the piecewise one."""

import random
from collections.abc import Iterator

import brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.brotli_stream import BrotliSource, lib, whole_output
from rollup_node.stages.derivation.codec.channel_body import BufferedReader, WholeReader, read_items
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
    return bytes(brotli.compress(data, quality=5))


def _only_items(iterator: Iterator[bytes | Reason]) -> list[bytes]:
    return [item for item in iterator if isinstance(item, bytes)]


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


@pytest.mark.parametrize("junk", [b"junk", _compressed(b"\x83abc")], ids=["bytes", "a second stream"])
def test_a_stream_with_bytes_behind_it_is_read_in_pieces(junk: bytes) -> None:
    assert whole_output(_compressed(_stream(100)) + junk, LIMIT, SLACK) is None


def test_no_more_than_the_limit_is_decoded() -> None:
    bomb = _compressed(b"\x83abc" * 2 + bytes(60_000_000))
    output = whole_output(bomb, 1_000_000, SLACK)
    assert output is not None
    assert len(output) == 1_000_000 + SLACK


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
