"""Channel bodies: batches of a given size, streams of items, and their compression in valid and damaged forms."""

import random
import zlib
from collections.abc import Callable, Iterable

import brotli as google_brotli
import rlp

from rollup_node.stages.protocol.types import BlockId, Hash
from rollup_node.tools.batcher.batches import BatchBlock, singular_batch
from tests.conformance.kit.chain import FIRST_L1, GENESIS_TIME, L2_BLOCK_TIME, l1_hash

_SMALLEST_OVERHEAD = 78


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(size)


def zeros(size: int, seed: int = 0) -> bytes:
    """Bytes that compress well; the last are the seed, so that batches differ."""
    return seed.to_bytes(size, "big")


def block(number: int, epoch: BlockId, *transactions: bytes) -> BatchBlock:
    """Return a block that fits a chain only by its timestamp."""
    return BatchBlock(b"\x99" * 32, GENESIS_TIME + L2_BLOCK_TIME * number, epoch, transactions)


def batch(number: int) -> bytes:
    """Return a small singular batch, for block `number`."""
    epoch = BlockId(FIRST_L1, l1_hash(FIRST_L1))
    return singular_batch(block(number, epoch, b"\2" + number.to_bytes(4, "big")))


def sized(size: int, number: int = 1, fill: Callable[[int, int], bytes] = noise) -> bytes:
    """Return a singular batch for block `number` of exactly this many bytes, in one transaction."""
    for epoch in (1, 1000, 100_000):
        epoch_id = BlockId(epoch, _epoch_hash(epoch))
        overhead = _SMALLEST_OVERHEAD
        for _ in range(3):
            encoded = singular_batch(block(number, epoch_id, fill(size - overhead, number)))
            if len(encoded) == size:
                return encoded
            overhead += len(encoded) - size
    raise AssertionError(f"no singular batch has {size} bytes")


def _epoch_hash(number: int) -> Hash:
    """Return a hash that does not compress."""
    return noise(32, number)


def stream(items: Iterable[bytes]) -> bytes:
    """Concatenated items, each as an RLP byte string."""
    return b"".join(bytes(rlp.encode(item)) for item in items)


def compressed(items: Iterable[bytes], level: int = 9) -> bytes:
    """Return a valid zlib body."""
    return zlib.compress(stream(items), level)


def wrong_sum(body: bytes) -> bytes:
    """Return a zlib body with another checksum."""
    return body[:-1] + bytes((body[-1] ^ 1,))


def zlib_header(first: int, dictionary: int | None = None) -> bytes:
    """Return a header with this first byte and the check bits that belong to it."""
    flags = 0 if dictionary is None else 0x20
    flags += -(first << 8 | flags) % 31
    return bytes((first, flags)) + (b"" if dictionary is None else dictionary.to_bytes(4, "big"))


def with_header(header: bytes, body: bytes) -> bytes:
    """Return a zlib body with another header than its own of two bytes."""
    return header + body[2:]


def brotli(items: Iterable[bytes]) -> bytes:
    """Return a valid brotli body, with its version byte."""
    return b"\1" + bytes(google_brotli.compress(stream(items), quality=5))


def brotli_flushed(items: Iterable[bytes]) -> bytes:
    """Return a valid brotli body whose last byte is an empty block of its own."""
    encoder = google_brotli.Compressor(quality=5)
    return b"\1" + bytes(encoder.process(stream(items)) + encoder.flush() + encoder.finish())


def brotli_of_length(length: int) -> bytes:
    """Return a brotli body with a stream of this many bytes behind the version byte, of one item that does not
    compress."""
    for size in range(length - 20, length):
        body = brotli([sized(size)])
        if len(body) == length + 1:
            return body
    raise AssertionError(f"no stream has {length} bytes")
