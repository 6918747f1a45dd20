"""Batches as a channel body gives them: what compute workers send back and the batch stages judge."""

from collections.abc import Iterator

import msgspec

from rollup_node.stages.derivation.reasons import Reason
from rollup_node.stages.protocol.types import U64_MASK, Hash

Transactions = tuple[bytes, ...]


class SingularBatch(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """One L2 block (derivation-rules 10); `timestamp` in seconds."""

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
    """A run of L2 blocks (derivation-rules 11, 12), kept packed: `origin_bits` and `transaction_counts` are the
    batch's own bytes, so that a span of ten million empty blocks is no larger than it was on L1. The two checks are
    20 bytes; `post_exec_time` is the time of the earliest block with a post-exec transaction."""

    parent_check: bytes
    origin_check: bytes
    first_timestamp: int
    block_time: int
    block_count: int
    first_epoch: int
    last_epoch: int
    origin_bits: bytes
    transaction_counts: bytes
    transactions: Transactions
    post_exec_time: int | None = None

    @property
    def last_timestamp(self) -> int:
        return (self.first_timestamp + (self.block_count - 1) * self.block_time) & U64_MASK

    def blocks(self) -> Iterator[SpanBlock]:
        """The blocks in order."""
        cursor = SpanCursor(self)
        while (block := cursor.pop()) is not None:
            yield block


class SpanCursor:
    """Walks over the blocks of a span batch."""

    def __init__(self, span: SpanBatch) -> None:
        self.span = span
        self.index = 0
        self._epoch = span.first_epoch
        self._count_offset = 0
        self._taken = 0

    @property
    def left(self) -> int:
        """How many blocks are left."""
        return self.span.block_count - self.index

    @property
    def timestamp(self) -> int:
        """The time of the next block."""
        return (self.span.first_timestamp + self.index * self.span.block_time) & U64_MASK

    def pop(self) -> SpanBlock | None:
        """The next block, or None after the last."""
        span, index = self.span, self.index
        if index == span.block_count:
            return None
        bits = span.origin_bits
        if index and bits[-1 - (index >> 3)] >> (index & 7) & 1:
            self._epoch = (self._epoch + 1) & U64_MASK
        counts, offset = span.transaction_counts, self._count_offset
        count = counts[offset]
        offset += 1
        if count > 0x7F:
            count &= 0x7F
            shift = 7
            while (byte := counts[offset]) > 0x7F:
                count |= (byte & 0x7F) << shift
                shift += 7
                offset += 1
            count |= byte << shift
            offset += 1
        self._count_offset = offset
        first = self._taken
        self._taken = first + count
        timestamp = self.timestamp
        self.index = index + 1
        return SpanBlock(timestamp, self._epoch, span.transactions[first : first + count])


class RefusedBatch(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A span batch that is dropped alone while its channel goes on (derivation-rules BE6)."""

    reason: Reason


DecodedBatch = SingularBatch | SpanBatch | RefusedBatch
