"""Batches as they are decoded from a channel body: what compute workers return and the batch stages check."""

from collections.abc import Iterator

import msgspec

from rollup_node.stages.derivation.codec.packed import PackedBytes, Transactions, memory_of
from rollup_node.stages.derivation.reasons.reading import SpanTransactionInvalid
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
    """One block of a span batch."""

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
        """The time of the last block."""
        return (self.first_timestamp + (self.block_count - 1) * self.block_time) & U64_MASK

    def blocks(self) -> Iterator[SpanBlock]:
        """Yield the blocks in order."""
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
        self._count_offset = 0
        self.taken = 0

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

    reason: SpanTransactionInvalid


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
