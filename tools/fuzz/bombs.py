"""Decompression bombs: small files that expand to streams near the limits of a channel, each of one kind of content."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from random import Random

import brotli as google_brotli

from rollup_node.stages.protocol.rlp import encode_bytes, encode_list, list_header
from rollup_node.tools.batcher.channels import BROTLI_VERSION

PIECE = 1 << 20
_HASHES = encode_bytes(b"p" * 32) + b"\x05" + encode_bytes(b"e" * 32) + b"\x07"

Stream = Iterator[bytes]


def string(parts: list[bytes], filler: bytes = b"", count: int = 0) -> Stream:
    """Yield an RLP byte string of parts and a repeated filler."""
    yield string_header(sum(map(len, parts)) + len(filler) * count)
    yield from parts
    yield from repeated(filler, count)


def string_header(size: int) -> bytes:
    header = list_header(size)
    return bytes((header[0] - 0x40,)) + header[1:]


def repeated(unit: bytes, count: int) -> Stream:
    if not unit:
        return
    step = max(1, PIECE // len(unit))
    for at in range(0, count, step):
        yield unit * min(step, count - at)


def uvarint(value: int) -> bytes:
    encoded = b""
    while value > 0x7F:
        encoded, value = encoded + bytes((value & 0x7F | 0x80,)), value >> 7
    return encoded + bytes((value,))


# --- streams of batches --------------------------------------------------------------------------------------------


def zeros(size: int) -> Stream:
    """Items of one zero byte."""
    return repeated(b"\0", size)


def one_item(size: int) -> Stream:
    """One item of the length of the stream."""
    return string([], b"\1", size)


def truncated_item(size: int) -> Stream:
    """Yield an item whose header claims more bytes than follow."""
    yield b"\xbf" + b"\xff" * 8
    yield from repeated(b"\xff", size)


def empty_transactions(size: int) -> Stream:
    """Return a singular batch of empty transactions."""
    return _singular(b"\x80", size)


def short_transactions(size: int) -> Stream:
    """Return a singular batch of transactions of two bytes."""
    return _singular(b"\x82ab", size // 3)


def _singular(transaction: bytes, count: int) -> Stream:
    size = len(transaction) * count
    fields = _HASHES + list_header(size)
    return string([b"\0" + list_header(len(fields) + size) + fields], transaction, count)


def small_batches(size: int) -> Stream:
    """Consecutive empty singular batches."""
    item = encode_bytes(b"\0" + encode_list([_HASHES, b"\xc0"]))
    return repeated(item, size // len(item))


def refused_batches(size: int) -> Stream:
    """Span batches with a transaction of an unknown type, each of which is dropped alone."""
    head = b"\x01\x00\x05" + b"p" * 20 + b"o" * 20 + b"\x01\x00\x01\x00\x00" + b"r" * 64 + b"t" * 20
    item = encode_bytes(head + b"\x03\xc3\x01\x02\x80" + b"\x00\x00")
    return repeated(item, size // len(item))


def long_span(size: int, relative_time: int = 0) -> Stream:
    """Return a span batch of the most empty blocks that fit, so many seconds after genesis."""
    count = min(size * 8 // 9, 10_000_000)
    head = b"\x01" + uvarint(relative_time) + b"\x05" + b"p" * 20 + b"o" * 20 + uvarint(count)
    return string([head, bytes((count + 7) // 8)], b"\0", count)


def full_span(size: int) -> Stream:
    """Yield a span batch of one block with the most contract creations that fit."""
    count = size // 71
    bits = (count + 7) // 8
    created = ((1 << count) - 1).to_bytes(bits, "big")
    head = b"\x01\x00\x05" + b"p" * 20 + b"o" * 20 + b"\x01\x00" + uvarint(count) + created + bytes(bits)
    columns = [(b"\x11" * 64, count), (b"\xc3\x80\x80\x80", count), (b"\x07", count), (b"\x09", count), (b"\0", bits)]
    yield string_header(len(head) + sum(len(unit) * times for unit, times in columns))
    yield head
    for unit, times in columns:
        yield from repeated(unit, times)


STREAMS: tuple[Callable[[int], Stream], ...] = (
    zeros,
    one_item,
    truncated_item,
    empty_transactions,
    short_transactions,
    small_batches,
    refused_batches,
    long_span,
    full_span,
)


# --- compression ---------------------------------------------------------------------------------------------------


def _zlib(stream: Iterable[bytes], strategy: int) -> bytes:
    compressor = zlib.compressobj(1, zlib.DEFLATED, 15, 9, strategy)
    return b"".join([*map(compressor.compress, stream), compressor.flush()])


def brotli(stream: Iterable[bytes]) -> bytes:
    compressor = google_brotli.Compressor(quality=1)
    return BROTLI_VERSION + b"".join([*map(compressor.process, stream), compressor.finish()])


def channel_bomb(chance: Random, largest: int) -> bytes:
    """Return a channel body whose stream has up to `largest` bytes, intact, truncated or with a wrong checksum."""
    size = int(100_000 * (largest / 100_000) ** chance.random())
    stream = chance.choice(STREAMS)(size)
    body = brotli(stream) if chance.random() < 0.4 else _zlib(stream, zlib.Z_DEFAULT_STRATEGY)
    damage = chance.random()
    if damage < 0.2:
        return body[: -chance.randint(1, 8)]
    return body[:-1] + bytes((body[-1] ^ 1,)) if damage < 0.3 else body


def frames_bomb(chance: Random, largest: int) -> bytes:
    """Batcher data of very many empty frames, of one channel or of one channel each."""
    count = min(largest, 7_000_000) // 23
    last = chance.randrange(2)
    if chance.random() < 0.5:
        return b"\0" + b"".join(chance.randbytes(16) + bytes(6) + bytes((last,)) for _ in range(count))
    channel = chance.randbytes(16)
    return b"\0" + b"".join(channel + (at & 0xFFFF).to_bytes(2, "big") + bytes(5) for at in range(count))


def batch_bomb(chance: Random, largest: int) -> bytes:
    """Return a large batch without compression."""
    stream = chance.choice((long_span, full_span, empty_transactions, short_transactions))
    pieces = stream(int(100_000 * (min(largest, 20_000_000) / 100_000) ** chance.random()))
    next(pieces)
    return b"".join(pieces)


def slow_bomb(chance: Random, largest: int) -> bytes:
    """Return a long channel body of single Huffman symbols with a wrong checksum.

    It takes the slow path of inflation."""
    noise = bytes(chance.choice(b"abcd") for _ in range(65_536))
    count = min(largest, 12_000_000) // len(noise)
    body = _zlib([string_header(len(noise) * count), *[noise] * count], zlib.Z_HUFFMAN_ONLY)
    return body[:-1] + bytes((body[-1] ^ 1,))


BOMBS: dict[str, tuple[Callable[[Random, int], bytes], ...]] = {
    "channel": (channel_bomb, channel_bomb, channel_bomb, channel_bomb, slow_bomb),
    "data": (frames_bomb,),
    "batch": (batch_bomb,),
}
"""Generators of bombs by the kind of file; a generator listed more than once is drawn more often."""
