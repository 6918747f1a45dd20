"""Batches whose transactions are restored one by one each time they are read.

The largest possible batch, of 100 MB, thus needs little more memory than its own bytes."""

import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

from rollup_node.stages.derivation.codec.batches import (
    RejectedBatch,
    SingularFields,
    SpanCursor,
    read_singular,
    string_at,
)
from rollup_node.stages.derivation.codec.channel_body import decode_envelope
from rollup_node.stages.derivation.codec.span_batch import (
    RawSpan,
    SpanBatchError,
    SpanRules,
    read_span,
    span_of,
)
from rollup_node.stages.derivation.codec.span_transactions import SpanTransactionError, restore_transactions
from rollup_node.stages.derivation.reasons.channels import SpanBatchMalformed, SpanTransactionInvalid
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.inspect.batch_summary import BatchSummary, hashes_digest

_SINGLE_BYTES = re.compile(rb"[\x00-\x80]{1,65536}")
"""RLP encodings of transactions of one byte below 0x80, or empty."""


class LazyBlock(NamedTuple):
    """A block of a batch; the hashes of epoch and parent are in singular batches only.

    The transactions must be read before the next block is taken."""

    timestamp: int
    epoch_number: int
    epoch_hash: Hash | None
    parent_hash: Hash | None
    transactions: Iterator[bytes]


class LazySingularBatch:
    """A singular batch."""

    def __init__(self, fields: SingularFields) -> None:
        self._fields = fields
        self._count, self._digest = _hashes(fields)

    @property
    def first_timestamp(self) -> int:
        return self._fields.timestamp

    def summary(self, channel: bytes | None, channel_bytes: int | None = None) -> BatchSummary:
        """Return the summary; the channel is its id, if known, and the size of its compressed body."""
        fields = self._fields
        return BatchSummary(
            inclusion=None,
            channel=channel,
            kind="singular",
            first_timestamp=fields.timestamp,
            blocks=1,
            transactions=self._count,
            parent=fields.parent_hash,
            digest=self._digest,
            channel_bytes=channel_bytes,
        )

    def blocks(self) -> Iterator[LazyBlock]:
        """Yield the one block."""
        fields = self._fields
        yield LazyBlock(
            fields.timestamp, fields.epoch_number, fields.epoch_hash, fields.parent_hash, fields.transactions()
        )


class LazySpanBatch:
    """A span batch; `span` is the batch without its transactions.

    Raises SpanTransactionError if one cannot be restored."""

    def __init__(self, raw: RawSpan, rules: SpanRules) -> None:
        self._raw, self._chain_id = raw.transactions, rules.chain_id
        self.span = span_of(raw, rules, ())
        self._digest = hashes_digest(self._transactions())

    @property
    def first_timestamp(self) -> int:
        return self.span.first_timestamp

    def _transactions(self) -> Iterator[bytes]:
        return restore_transactions(self._raw, self._chain_id)

    def summary(self, channel: bytes | None, channel_bytes: int | None = None) -> BatchSummary:
        """Return the summary; the channel is its id, if known, and the size of its compressed body."""
        span, count = self.span, len(self._raw.kinds)
        return BatchSummary(
            inclusion=None,
            channel=channel,
            kind="span",
            first_timestamp=span.first_timestamp,
            blocks=span.block_count,
            transactions=count,
            parent=span.parent_check,
            digest=self._digest,
            channel_bytes=channel_bytes,
        )

    def blocks(self) -> Iterator[LazyBlock]:
        """Yield the blocks in order."""
        cursor, transactions = SpanCursor(self.span), self._transactions()
        while cursor.left:
            timestamp, epoch, taken = cursor.timestamp, cursor.next_epoch, cursor.taken
            cursor.pop()
            yield LazyBlock(timestamp, epoch, None, None, islice(transactions, cursor.taken - taken))


LazyBatch = LazySingularBatch | LazySpanBatch


def lazy_batch(item: bytes, rules: SpanRules) -> LazyBatch | RejectedBatch | Reason:
    """Return the batch in an RLP item, its type byte first; or why the channel ends with it."""
    return decode_envelope(
        item, lambda data, at: LazySingularBatch(read_singular(data, at)), lambda data, at: _span(data, at, rules)
    )


def lazy_raw_span(data: bytes, rules: SpanRules) -> LazySpanBatch | RejectedBatch | Reason:
    """Return the span batch in `data`, which has no type byte; or why its channel would end with it."""
    try:
        span = _span(data, 0, rules)
    except SpanBatchError as error:
        return SpanBatchMalformed(error.offset, str(error))
    return RejectedBatch(span) if isinstance(span, Reason) else span


def _span(data: bytes, at: int, rules: SpanRules) -> LazySpanBatch | Reason:
    try:
        return LazySpanBatch(read_span(data, at), rules)
    except SpanTransactionError as error:
        return SpanTransactionInvalid(error.index, str(error))


def _hashes(fields: SingularFields) -> tuple[int, Hash]:
    """Return the number of transactions and the digest of their hashes.

    Raises SingularBatchError at an item that is no byte string."""
    digest, count = sha256(), 0
    data, at, end = fields.data, fields.at, fields.end
    while at < end:
        # There can be a hundred million tiny transactions: runs of them are hashed together.
        run = _SINGLE_BYTES.match(data, at, end)
        if run is not None:
            digest.update(b"".join(map(_hashes_of_single_bytes().__getitem__, run[0])))
            count += len(run[0])
            at = run.end()
        else:
            start, at = string_at(data, at, end)
            digest.update(keccak256(data[start:at]))
            count += 1
    return count, digest.digest()


@cache
def _hashes_of_single_bytes() -> tuple[Hash, ...]:
    return (*(keccak256(bytes((byte,))) for byte in range(0x80)), keccak256(b""))
