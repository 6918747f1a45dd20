"""What is large in a batch, compressed in chunks.

A channel of a few hundred bytes expands to a hundred million bytes; packed, its batches take about as much memory as
the channel, and one chunk at a time is unpacked to read them."""

from array import array
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, chain, islice, pairwise
from typing import NamedTuple, TypeAlias

import brotli
import msgspec

from rollup_node.stages.derivation.codec.brotli_stream import decoded_pieces

MAX_PLAIN_BYTES = 8_000_000
"""Size of a batch above which its transactions are packed."""
MAX_PLAIN_COUNT = 1 << 17
"""Number of transactions above which they are packed."""
MAX_PLAIN_FIELD = 1 << 16
"""Bytes of another field of a batch above which it is packed."""

CHUNK_BYTES, _CHUNK_COUNT = 1 << 20, 1 << 14
_QUALITY, _WINDOW = 1, 20
_OVERHEAD = 250
"""Bytes of a chunk's objects, about."""


class TransactionChunk(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive transactions of `size` bytes together.

    `packed` is the brotli stream of their sizes, of 4 bytes each, and of their bytes; `kinds` are the different
    first bytes, `has_empty`: a transaction has none."""

    count: int
    size: int
    kinds: bytes
    has_empty: bool
    packed: bytes

    @property
    def is_large(self) -> bool:
        """Whether it is one large transaction, which is never held in memory together with others."""
        return self.count == 1 and self.size > CHUNK_BYTES

    def head(self, size: int) -> bytes:
        """Return the first `size` bytes of its transactions."""
        return b"".join(_until(size, self.pieces()))

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of all transactions, in pieces of at most 1 MiB."""
        left = 4 * self.count
        for piece in decoded_pieces(self.packed):
            skipped = min(left, len(piece))
            left -= skipped
            yield piece[skipped:] if skipped else piece


class Part(NamedTuple):
    """Consecutive transactions; `first` is the index of the first of them."""

    first: int
    transactions: tuple[bytes, ...]


class PackedTransactions(msgspec.Struct, frozen=True):
    """`count` transactions in chunks, without the first `skip` ones of the first chunk."""

    chunks: tuple[TransactionChunk, ...]
    skip: int
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[bytes]:
        for part in self.parts():
            yield from part.transactions

    def __getitem__(self, wanted: slice) -> "Transactions":
        """Consecutive transactions, packed if they are still many or large."""
        first, end, _ = wanted.indices(self.count)
        count = max(0, end - first)
        at, skip = -self.skip, 0
        chunks: list[TransactionChunk] = []
        for chunk in self.chunks if count else ():
            if at < end and at + chunk.count > first:
                skip = skip if chunks else first - at
                chunks.append(chunk)
            at += chunk.count
        packed_transactions = PackedTransactions(tuple(chunks), skip, count)
        return (
            packed_transactions if is_large(count, sum(chunk.size for chunk in chunks)) else tuple(packed_transactions)
        )

    def parts(self, kinds: frozenset[int] | None = None, cut: int | None = None, uncut: bytes = b"") -> Iterator[Part]:
        """Yield the transactions of each chunk.

        With `kinds` only those of chunks in which a transaction is empty or begins with one of these bytes. A large
        transaction is cut off after `cut` bytes, unless it begins with `uncut`."""
        for at, chunk, first, end in self._chunks():
            if kinds is None or chunk.has_empty or not kinds.isdisjoint(chunk.kinds):
                is_cut = chunk.is_large and cut is not None and chunk.kinds != uncut
                yield Part(at, (chunk.head(cut or 0),) if is_cut else _unpacked(chunk)[first:end])

    def sizes_and_bytes(self) -> Iterator[bytes]:
        """Yield the size of each transaction, in 8 bytes, and its bytes, in pieces."""
        for _, chunk, first, end in self._chunks():
            if chunk.is_large:
                yield chunk.size.to_bytes(8, "big")
                yield from chunk.pieces()
                continue
            for transaction in _unpacked(chunk)[first:end]:
                yield len(transaction).to_bytes(8, "big")
                yield transaction

    def _chunks(self) -> Iterator[tuple[int, TransactionChunk, int, int]]:
        """Each chunk, with the index of its first transaction and the range of those in it."""
        at = -self.skip
        for chunk in self.chunks:
            first = max(0, -at)
            yield at + first, chunk, first, min(chunk.count, self.count - at)
            at += chunk.count

    @property
    def memory(self) -> int:
        """Bytes that it takes, about."""
        return sum(_OVERHEAD + len(chunk.packed) for chunk in self.chunks)


Transactions: TypeAlias = tuple[bytes, ...] | PackedTransactions


class TransactionPacker:
    """Packs transactions as they come."""

    def __init__(self) -> None:
        self._chunks: list[TransactionChunk] = []
        self._part: list[bytes | memoryview] = []
        self._size = 0

    def add(self, transaction: bytes | memoryview) -> None:
        """Add a transaction; a large one is alone in its chunk."""
        if len(transaction) > CHUNK_BYTES:
            self._flush()
        self._part.append(transaction)
        self._size += len(transaction)
        if self._size >= CHUNK_BYTES or len(self._part) == _CHUNK_COUNT:
            self._flush()

    def add_short(self, run: bytes) -> None:
        """Add a transaction for each byte of `run`, which is its RLP encoding: at most 0x80, an empty one."""
        self._flush()
        for at in range(0, len(run), _CHUNK_COUNT):
            part = run[at : at + _CHUNK_COUNT]
            data = part.translate(None, b"\x80")
            is_same = not data or len(data) == len(part)
            sizes = array("I", [bool(data)]) * len(part) if is_same else array("I", list(part.translate(_SIZES)))
            packed = _compressed(sizes.tobytes() + data)
            chunk = TransactionChunk(len(part), len(data), _different(data), len(data) < len(part), packed)
            self._chunks.append(chunk)

    def finish(self) -> Transactions:
        self._flush()
        return PackedTransactions(tuple(self._chunks), 0, sum(chunk.count for chunk in self._chunks))

    def _flush(self) -> None:
        part = self._part
        if not part:
            return
        sizes = array("I", map(len, part)).tobytes()
        kinds = {transaction[0] for transaction in part if transaction}
        has_empty = not all(part)
        packed = (
            _compressed_large(sizes, part[0]) if self._size > 2 * CHUNK_BYTES else _compressed(sizes + b"".join(part))
        )
        self._chunks.append(TransactionChunk(len(part), self._size, bytes(sorted(kinds)), has_empty, packed))
        self._part, self._size = [], 0


_SIZES = bytes(value != 0x80 for value in range(256))
_ALL = bytes(range(256))


def _different(data: bytes) -> bytes:
    """Return the different bytes of `data`, in order: all that are left without those that are left without it."""
    return _ALL.translate(None, _ALL.translate(None, data))


class PackedBytes(msgspec.Struct, frozen=True):
    """A byte string of `size` bytes that is read one byte at a time, in chunks."""

    size: int
    chunks: tuple[bytes, ...]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(map(_unpacked_field, self.chunks))

    def __getitem__(self, index: int) -> int:
        if index < 0:
            index += self.size
        return _unpacked_field(self.chunks[index // MAX_PLAIN_FIELD])[index % MAX_PLAIN_FIELD]

    @property
    def memory(self) -> int:
        """Bytes that it takes, about."""
        return sum(_OVERHEAD + len(chunk) for chunk in self.chunks)


def pack_field(data: bytes) -> bytes | PackedBytes:
    """Return a field of a batch, packed if it is long."""
    if len(data) <= MAX_PLAIN_FIELD:
        return data
    parts = (data[at : at + MAX_PLAIN_FIELD] for at in range(0, len(data), MAX_PLAIN_FIELD))
    return PackedBytes(len(data), tuple(map(_compressed, parts)))


def _compressed(data: bytes) -> bytes:
    packed: bytes = brotli.compress(data, quality=_QUALITY, lgwin=_WINDOW)
    return packed


def _compressed_large(sizes: bytes, transaction: bytes | memoryview) -> bytes:
    compressor = brotli.Compressor(quality=_QUALITY, lgwin=_WINDOW)
    packed = [compressor.process(sizes)]
    for at in range(0, len(transaction), CHUNK_BYTES):
        packed.append(compressor.process(bytes(transaction[at : at + CHUNK_BYTES])))
    return b"".join([*packed, compressor.finish()])


def _until(size: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield piece[:size]
        size -= len(piece)
        if size <= 0:
            return


@lru_cache(maxsize=2)
def _unpacked(chunk: TransactionChunk) -> tuple[bytes, ...]:
    data = b"".join(decoded_pieces(chunk.packed))
    sizes = array("I", data[: 4 * chunk.count])
    ends = accumulate(sizes, initial=4 * chunk.count)
    return tuple(data[start:end] for start, end in pairwise(ends))


@lru_cache(maxsize=8)
def _unpacked_field(packed: bytes) -> bytes:
    data: bytes = brotli.decompress(packed)
    return data


def memory_of(transactions: Transactions) -> int:
    """Bytes of memory that transactions take, about: 41 for the object of each that is not packed."""
    if isinstance(transactions, PackedTransactions):
        return transactions.memory
    return 41 * len(transactions) + sum(map(len, transactions))


def is_large(count: int, size: int) -> bool:
    """Whether so many transactions, of so many bytes together, are packed."""
    return count > MAX_PLAIN_COUNT or size > MAX_PLAIN_BYTES


def plain_or_none(transactions: Iterator[bytes], size: int) -> tuple[bytes, ...] | None:
    """Return the transactions of a batch of `size` bytes, unless they must be packed."""
    if is_large(0, size):
        return None
    result = tuple(islice(transactions, MAX_PLAIN_COUNT + 1))
    return None if is_large(len(result), size) else result
