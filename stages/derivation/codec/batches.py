"""Batches as they are decoded from a channel body: what compute workers return and the batch stages check."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from rollup_node.stages.derivation.codec.packed import (
    PackedBytes,
    TransactionPacker,
    Transactions,
    memory_of,
    plain_or_none,
)
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.rlp import RlpError, header
from rollup_node.stages.protocol.types import U64_MASK, Hash

_BATCH_OVERHEAD = 700
"""Bytes of a batch's objects without its transactions, about."""


class SingularBatch(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """One L2 block [SB1]; `timestamp` in seconds."""

    parent_hash: Hash
    epoch_number: int
    epoch_hash: Hash
    timestamp: int
    transactions: Transactions


class SpanBlock(msgspec.Struct, frozen=True, array_like=True):
    timestamp: int
    epoch_number: int
    transactions: Transactions


class SpanBatch(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Consecutive L2 blocks [CV10].

    `origin_bits` and `transaction_counts` are the batch's own bytes, packed like the transactions where they are
    long. The two checks have 20 bytes; times are in seconds."""

    parent_check: bytes
    origin_check: bytes
    first_timestamp: int
    block_time: int
    block_count: int
    first_epoch: int
    last_epoch: int
    origin_bits: bytes | PackedBytes
    transaction_counts: bytes | PackedBytes
    transactions: Transactions

    @property
    def last_timestamp(self) -> int:
        return (self.first_timestamp + (self.block_count - 1) * self.block_time) & U64_MASK

    def blocks(self) -> Iterator[SpanBlock]:
        cursor = SpanCursor(self)
        while (block := cursor.pop()) is not None:
            yield block


class SpanCursor:
    """Walks over the blocks of a span batch.

    `index`, `timestamp` and `next_epoch` are those of the next block, `taken` is the number of transactions in the
    blocks before it [CV1, CV2]."""

    def __init__(self, span: SpanBatch) -> None:
        self.span = span
        self.index = 0
        self.timestamp = span.first_timestamp
        self.next_epoch = span.first_epoch
        self._count_offset = self.taken = 0

    @property
    def left(self) -> int:
        """How many blocks are left."""
        return self.span.block_count - self.index

    def pop(self) -> SpanBlock | None:
        """Return the next block, or None after the last."""
        span = self.span
        if self.index == span.block_count:
            return None
        first, self.taken = self.taken, self.taken + self._next_count()
        block = SpanBlock(self.timestamp, self.next_epoch, span.transactions[first : self.taken])
        self.timestamp = (self.timestamp + span.block_time) & U64_MASK
        self.index = index = self.index + 1
        if index < span.block_count and span.origin_bits[-1 - (index >> 3)] >> (index & 7) & 1:
            self.next_epoch = (self.next_epoch + 1) & U64_MASK
        return block

    def _next_count(self) -> int:
        counts, offset = self.span.transaction_counts, self._count_offset
        count = counts[offset]
        shift = 0
        while counts[offset] > 0x7F:
            offset += 1
            shift += 7
            count = count & ((1 << shift) - 1) | (counts[offset] & 0x7F) << shift
        self._count_offset = offset + 1
        return count


class RejectedBatch(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A span batch whose transactions cannot be restored: only the batch is dropped, its channel continues [BE6]."""

    reason: Reason


DecodedBatch = SingularBatch | SpanBatch | RejectedBatch


def batch_memory(batch: DecodedBatch) -> int:
    """Bytes of memory that a batch takes, about."""
    size = _BATCH_OVERHEAD
    if not isinstance(batch, RejectedBatch):
        size += memory_of(batch.transactions)
    if isinstance(batch, SpanBatch):
        size += sum(map(_field_memory, (batch.origin_bits, batch.transaction_counts)))
    return size


def _field_memory(field: bytes | PackedBytes) -> int:
    return field.memory if isinstance(field, PackedBytes) else len(field)


_SINGLE_BYTES = re.compile(rb"[\x00-\x80]{64,1048576}")
"""RLP encodings of transactions of one byte below 0x80, or empty."""
_LARGE = 1 << 16
"""Bytes of a transaction above which it is not copied on its way to the packer."""


class SingularBatchError(ValueError):
    """The bytes are not those of a singular batch, which ends the channel [BE4]."""


class SingularFields(NamedTuple):
    """The fields of a singular batch [SB1]; `data[at:end]` is the content of the list of transactions."""

    parent_hash: Hash
    epoch_number: int
    epoch_hash: Hash
    timestamp: int
    data: bytes
    at: int
    end: int

    def transactions(self) -> Iterator[bytes]:
        """Yield the transactions. Raises SingularBatchError at the first item that is not a byte string [SB4]."""
        data, at, end = self.data, self.at, self.end
        while at < end:
            start, at = string_at(data, at, end)
            yield data[start:at]


def decode_singular(data: bytes, at: int) -> SingularBatch:
    """Return the batch at `at`, behind its type byte, later bytes ignored [BE7, SB1 to SB5]."""
    fields = read_singular(data, at)
    transactions = plain_or_none(fields.transactions(), fields.end - fields.at)
    if transactions is None:
        packed = _packed_transactions(fields)
        return SingularBatch(fields.parent_hash, fields.epoch_number, fields.epoch_hash, fields.timestamp, packed)
    return SingularBatch(fields.parent_hash, fields.epoch_number, fields.epoch_hash, fields.timestamp, transactions)


def _packed_transactions(fields: SingularFields) -> Transactions:
    data, at, end = fields.data, fields.at, fields.end
    view, packer = memoryview(data), TransactionPacker()
    while at < end:
        if data[at] <= 0x80 and (run := _SINGLE_BYTES.match(data, at, end)) is not None:
            packer.add_short(run[0])
            at = run.end()
            continue
        start, at = string_at(data, at, end)
        packer.add(view[start:at] if at - start > _LARGE else data[start:at])
    return packer.finish()


def read_singular(data: bytes, at: int) -> SingularFields:
    """Return the fields of the batch at offset `at`, its transactions not parsed. Raises SingularBatchError."""
    try:
        is_list, at, end = header(data, at, len(data))
        if not is_list:
            raise SingularBatchError("not a list")
        parent_hash, at = _sized(data, at, end, 32)
        epoch_number, at = _number(data, at, end)
        epoch_hash, at = _sized(data, at, end, 32)
        timestamp, at = _number(data, at, end)
        is_list, at, stop = header(data, at, end)
        if not is_list or stop != end:
            raise SingularBatchError("the fifth field is not a list that ends the batch")
        return SingularFields(parent_hash, epoch_number, epoch_hash, timestamp, data, at, stop)
    except RlpError as error:
        raise SingularBatchError(str(error)) from None


def string_at(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return start and end of the byte string's content at `at`. Raises SingularBatchError."""
    if at < end and 0x81 < (first := data[at]) < 0xB8 and (stop := at + first - 0x7F) <= end:
        return at + 1, stop
    try:
        is_list, start, stop = header(data, at, end)
    except RlpError as error:
        raise SingularBatchError(str(error)) from None
    if is_list:
        raise SingularBatchError(f"a list instead of a string at byte {at}")
    return start, stop


def _sized(data: bytes, at: int, end: int, size: int) -> tuple[bytes, int]:
    start, stop = string_at(data, at, end)
    if stop - start != size:
        raise SingularBatchError(f"{stop - start} bytes at byte {at}, expected {size}")
    return data[start:stop], stop


def _number(data: bytes, at: int, end: int) -> tuple[int, int]:
    start, stop = string_at(data, at, end)
    if stop - start > 8 or (stop > start and data[start] == 0):
        raise SingularBatchError(f"not a 64-bit number in its shortest form at byte {at}")
    return int.from_bytes(data[start:stop], "big"), stop
