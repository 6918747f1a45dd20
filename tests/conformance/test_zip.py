"""Compressed channels: which are accepted, and which items of a damaged one are read [RD1 to RD7, Z1 to Z11].

Items are singular batches of the sizes that the cases name, so what survives are batches."""

import tracemalloc
import zlib
from typing import Any

import _brotli
import pytest
from cffi import FFI

from rollup_node.stages.derivation.reasons import channels as reasons
from rollup_node.stages.derivation.reasons.reason import Reason
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import L2_BLOCK_TIME, forks_until
from tests.conformance.kit.channel_reading import read_channel
from tests.conformance.kit.streams import (
    batch,
    brotli,
    brotli_flushed,
    brotli_of_length,
    compressed,
    noise,
    sized,
    stream,
    with_header,
    wrong_sum,
    zeros,
    zlib_header,
)

pytestmark = pytest.mark.fault("F25", "F26")

DELTA, FJORD = forks_until("delta"), forks_until("fjord")
TWO = [batch(1), batch(2)]
LIMIT_BEFORE_FJORD = 10_000_000
CHECKSUM = "checksum wrong or missing"
CUT_OFF = "compressed stream cut off"
CORRUPT = "compressed stream corrupt"
WINDOW_PARAMETER, LARGE_WINDOW_PARAMETER, FINISH = 2, 6, 2
"""Of Google's encoder: BROTLI_PARAM_LGWIN, BROTLI_PARAM_LARGE_WINDOW, BROTLI_OPERATION_FINISH."""


def survivors(body: bytes, forks: dict[str, int] = FJORD) -> list[int]:
    """Return the block numbers of the batches that are read."""
    return [time // L2_BLOCK_TIME for time in read_channel(body, forks).times]


def sizes(*of_items: int) -> list[bytes]:
    """Batches for blocks 1, 2, ... that do not compress."""
    return [sized(size, number) for number, size in enumerate(of_items, start=1)]


# --- opening -------------------------------------------------------------------------------------------------------


@table(
    zip_zlib_pre_fjord=(compressed(TWO), DELTA),
    zip_cinfo_0=(with_header(zlib_header(0x08), compressed(TWO)), FJORD),
    zip_fdict_1=(with_header(zlib_header(0x78, 1), compressed(TWO)), FJORD),
)
def opened(body: bytes, forks: dict[str, int]) -> None:
    assert read_channel(body, forks).dropped == []
    assert survivors(body, forks) == [1, 2]


def bad_header(body: bytes) -> tuple[bytes, Reason]:
    return body, reasons.ZlibHeaderInvalid(body[:6])


@table(
    zip_first_byte_02=(b"\2" + compressed(TWO), reasons.CompressionUnknown(2)),
    zip_first_byte_28=bad_header(bytes.fromhex("28b52ffd") + compressed(TWO)),
    zip_nibble_15=bad_header(with_header(zlib_header(0x7F), compressed(TWO))),
    zip_cinfo_8=bad_header(with_header(zlib_header(0x88), compressed(TWO))),
    zip_fcheck_bad=bad_header(with_header(b"\x78\x9d", compressed(TWO))),
    zip_fdict_2=bad_header(with_header(zlib_header(0x78, 2), compressed(TWO))),
    zip_one_byte_78=bad_header(b"\x78"),
)
def not_opened(body: bytes, reason: Reason) -> None:
    channel = read_channel(body, FJORD)
    assert (channel.batches, channel.reason) == ([], reason)


@case("zip_brotli_pre_fjord")
def brotli_too_early() -> None:
    channel = read_channel(brotli(TWO), forks_until("ecotone", fjord=13), seconds=12)
    assert (channel.batches, channel.reason_type) == ([], reasons.BrotliNotAllowed)


@table(zip_brotli_at_fjord=12, zip_brotli_batch_pre_fjord=600)
def brotli_from_the_fork_on(seconds: int) -> None:
    """By the time of the L1 block, also where the batches' own time is before the fork."""
    channel = read_channel(brotli(TWO), forks_until("ecotone", fjord=seconds), seconds=seconds)
    assert (channel.times, channel.dropped) == ([2, 4], [])


# --- damage in zlib ------------------------------------------------------------------------------------------------


@table(
    zip_adler_bad_small=((100, 200), [1, 2]),
    zip_adler_bad_9000=((9000,), []),
    zip_adler_bad_100_9000=((100, 9000), [1]),
    zip_adler_bad_4101=((4101,), [1]),
    zip_adler_bad_8190=((8190,), []),
    zip_adler_bad_32767=((32_764,), []),
    zip_adler_bad_32768=((32_765,), [1]),
)
def wrong_checksum(of_items: tuple[int, ...], left: list[int]) -> None:
    body = wrong_sum(compressed(sizes(*of_items)))
    assert survivors(body) == left
    assert read_channel(body, FJORD).reason_type is reasons.StreamDamaged
    assert CHECKSUM in str(read_channel(body, FJORD).reason)


def test_where_the_buffer_ends() -> None:
    """After the head and 4,093 bytes from the buffer, 4,095 more come through it and 4,096 past it (Z2)."""
    assert survivors(wrong_sum(compressed(sizes(8188)))) == [1]
    assert survivors(wrong_sum(compressed(sizes(8189)))) == []


@case("zip_adler_missing")
def checksum_missing() -> None:
    for of_items, left in (((100, 200), [1, 2]), ((9000,), []), ((100, 9000), [1]), ((32_765,), [1])):
        for cut in (4, 3, 1):
            assert survivors(compressed(sizes(*of_items))[:-cut]) == left


@case("zip_adler_ok_junk")
def bytes_behind_the_checksum() -> None:
    channel = read_channel(compressed(sizes(100, 9000)) + b"junk", FJORD)
    assert (channel.times, channel.dropped) == ([2, 4], [])


def text_batches() -> list[bytes]:
    """Twenty batches of 600 bytes that compress to about a half, so that the stream has Huffman codes."""
    return [sized(600, number, lambda size, seed: noise(size, seed).hex().encode()[:size]) for number in range(1, 21)]


def in_small_blocks(items: list[bytes]) -> bytes:
    """Return a zlib body of many deflate blocks."""
    encoder = zlib.compressobj(9, zlib.DEFLATED, 15, 1)
    return encoder.compress(stream(items)) + encoder.flush()


def complete(items: list[bytes], output: bytes) -> int:
    """How many items are whole in this much of their stream."""
    return sum(len(stream(items[: place + 1])) <= len(output) for place in range(len(items)))


@case("zip_deflate_cut")
def cut_in_the_middle() -> None:
    """The output of C zlib for the same bytes shows how many items were complete.

    The places are chosen so that a byte more or less does not matter."""
    items = text_batches()
    body = in_small_blocks(items)
    for cut in (len(body) // 4, len(body) // 2, len(body) - 100):
        output = zlib.decompressobj().decompress(body[:cut])
        left = complete(items, output)
        assert left == complete(items, output[:-2]) == complete(items, output + b"..")
        assert survivors(body[:cut]) == list(range(1, left + 1))
        assert CUT_OFF in str(read_channel(body[:cut], FJORD).reason)


@case("zip_deflate_flip")
def a_bit_flipped_in_the_middle() -> None:
    """The first bit from the middle on whose flip makes C zlib fail before it outputs anything wrong."""
    items = text_batches()
    body = in_small_blocks(items)
    middle = len(body) // 2
    before = zlib.decompressobj()
    read = before.decompress(body[:middle])
    rest = stream(items)[len(read) :]
    for place in range(middle, len(body)):
        damaged = body[:place] + bytes((body[place] ^ 1,)) + body[place + 1 :]
        output = right_output_before_error(before.copy(), damaged[middle:], rest)
        if output is not None:
            break
    left = complete(items, read + (output or b""))
    assert 5 < left < 15
    assert survivors(damaged) == list(range(1, left + 1))
    assert CORRUPT in str(read_channel(damaged, FJORD).reason)


def right_output_before_error(decoder: "zlib._Decompress", body: bytes, expected: bytes) -> bytes | None:
    """Return the output of C zlib, fed byte by byte, until it refuses the stream.

    None if it never does, or outputs anything wrong before."""
    output = b""
    try:
        for at in range(len(body)):
            piece = decoder.decompress(body[at : at + 1])
            if not expected.startswith(piece, len(output)):
                return None
            output += piece
    except zlib.error:
        return output
    return None


# --- damage in brotli ----------------------------------------------------------------------------------------------


@table(
    zip_brotli_only_version=(b"\1", []),
    zip_brotli_cut_1=(brotli_flushed(sizes(100, 200, 9000))[:-1], [1, 2, 3]),
    zip_brotli_cut_10=(brotli(sizes(100, 200, 9000))[:-10], [1, 2]),
    zip_brotli_junk_small=(brotli(sizes(100, 200)) + b"junk", [1, 2]),
    zip_brotli_junk_9000=(brotli(sizes(9000)) + b"junk", []),
    zip_brotli_junk_40000=(brotli(sizes(40_000)) + b"junk", [1]),
    zip_brotli_junk_next_piece=(brotli_of_length(4095 + 32_768) + b"junk", [1]),
    zip_brotli_junk_same_piece=(brotli_of_length(4095 + 32_767) + b"junk", []),
    zip_brotli_two_streams=(brotli(sizes(100)) + brotli([batch(2)])[1:], [1]),
)
def damaged_brotli(body: bytes, left: list[int]) -> None:
    assert survivors(body) == left
    assert read_channel(body, FJORD).reason_type is reasons.StreamDamaged


@case("zip_brotli_large_window")
def large_window() -> None:
    """Only a stream with a large window begins with 0x11."""
    encoded = large_window_stream(stream(TWO))
    assert encoded[0] == 0x11
    channel = read_channel(b"\1" + encoded, FJORD)
    assert (channel.batches, channel.reason_type) == ([], reasons.StreamDamaged)


def large_window_stream(data: bytes) -> bytes:
    ffi: Any = FFI()
    ffi.cdef("""
        void* BrotliEncoderCreateInstance(void*, void*, void*);
        void BrotliEncoderDestroyInstance(void*);
        int BrotliEncoderSetParameter(void*, int, uint32_t);
        int BrotliEncoderCompressStream(void*, int, size_t*, const uint8_t**, size_t*, uint8_t**, size_t*);
    """)
    lib = ffi.dlopen(_brotli.__file__)
    encoder = ffi.gc(lib.BrotliEncoderCreateInstance(ffi.NULL, ffi.NULL, ffi.NULL), lib.BrotliEncoderDestroyInstance)
    assert lib.BrotliEncoderSetParameter(encoder, LARGE_WINDOW_PARAMETER, 1)
    assert lib.BrotliEncoderSetParameter(encoder, WINDOW_PARAMETER, 26)
    room = ffi.new("uint8_t[]", 10_000)
    source = ffi.from_buffer("uint8_t[]", data)
    left_in, left_out = ffi.new("size_t *", len(data)), ffi.new("size_t *", len(room))
    next_in, next_out = ffi.new("uint8_t **", source), ffi.new("uint8_t **", room)
    assert lib.BrotliEncoderCompressStream(encoder, FINISH, left_in, next_in, left_out, next_out, ffi.NULL)
    return bytes(ffi.buffer(room, len(room) - left_out[0]))


# --- the limit -----------------------------------------------------------------------------------------------------


def megabytes(count: int, *more: int) -> list[bytes]:
    """Items of a million bytes each with their heads, and more of other sizes, likewise with their heads."""
    whole = [1_000_000] * count + list(more)
    return [sized(size - head_size(size), number, zeros) for number, size in enumerate(whole, start=1)]


def head_size(whole: int) -> int:
    return 2 if whole < 258 else 3 if whole < 65_539 else 4


@table(
    zip_limit_exact=((10,), 10, None),
    zip_limit_minus1=((9, 1_000_001), 9, reasons.StreamLimitExceeded(LIMIT_BEFORE_FJORD, 9_000_000)),
    zip_limit_in_header=(
        (9, 999_998, 1_000_000),
        10,
        reasons.StreamLimitExceeded(LIMIT_BEFORE_FJORD, 9_999_998),
    ),
)
def at_the_limit(sizes: tuple[int, ...], left: int, reason: Reason | None) -> None:
    body = compressed(megabytes(*sizes), level=1)
    channel = read_channel(body, DELTA)
    assert channel.times == [L2_BLOCK_TIME * number for number in range(1, left + 1)]
    assert channel.reason == reason


@case("zip_limit_fjord")
def larger_from_fjord() -> None:
    body = compressed([sized(4_999_996, number, zeros) for number in range(1, 11)], level=1)
    schedule = forks_until("ecotone", fjord=24)
    before, after = read_channel(body, schedule, seconds=12), read_channel(body, schedule, seconds=24)
    assert (before.times, before.reason_type) == ([2, 4], None)
    assert (after.times, after.dropped) == ([2 * number for number in range(1, 11)], [])


@case("zip_bomb")
def bomb() -> None:
    """An item of 1 GB, and 1 GB of items of a megabyte: in both cases little more than the limit is decoded.

    The bomb is one compressed megabyte over and over."""
    claimed = b"\xbb" + (1 << 30).to_bytes(4, "big")
    for head, items in ((claimed, 0), (stream(megabytes(9)), 9)):
        encoder = zlib.compressobj(1)
        body = encoder.compress(head) + encoder.flush(zlib.Z_FULL_FLUSH)
        body += repeated_megabyte() * 1024
        tracemalloc.start()
        try:
            channel = read_channel(body, DELTA)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(channel.batches) == items
        assert peak < 4 * LIMIT_BEFORE_FJORD + len(body)


def repeated_megabyte() -> bytes:
    """Return a megabyte of zeros as deflate blocks that can be repeated: they end on a byte and refer to nothing
    before."""
    encoder = zlib.compressobj(9, zlib.DEFLATED, -15)
    return encoder.compress(bytes(1 << 20)) + encoder.flush(zlib.Z_FULL_FLUSH)
