"""Batches whose transactions are put together one by one, as often as they are asked for, and never held: the largest
batch there may be, of 100 MB, then needs little more than its own bytes."""

import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

import msgspec

from rollup_node.node.inspect.listed_batch import ListedBatch, hashes_digest
from rollup_node.stages.derivation.codec.batches import RefusedBatch, SpanCursor
from rollup_node.stages.derivation.codec.channel_body import envelope, guarded_span
from rollup_node.stages.derivation.codec.singular_batch import SingularFields, read_singular, string_at
from rollup_node.stages.derivation.codec.span_batch import (
    RawSpan,
    SpanRules,
    post_exec_time,
    read_span,
    without_transactions,
)
from rollup_node.stages.derivation.codec.span_transactions import SpanTransactionError, restored
from rollup_node.stages.derivation.reasons.reasons import Reason, Why
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import Hash

_SINGLE_BYTES = re.compile(rb"[\x00-\x80]{1,65536}")
"""Transactions of at most one byte below 0x80, as RLP writes them."""


class OutlinedBlock(NamedTuple):
    """A block of a batch; the epoch's hash and the parent's stand in singular batches only. The transactions are to be
    taken before the next block is asked for."""

    timestamp: int
    epoch_number: int
    epoch_hash: Hash | None
    parent_hash: Hash | None
    transactions: Iterator[bytes]


class SingularOutline:
    """A singular batch."""

    def __init__(self, fields: SingularFields) -> None:
        self._fields = fields
        self._count, self._digest = _hashes(fields)

    @property
    def first_timestamp(self) -> int:
        return self._fields.timestamp

    def listed(self, channel: bytes | None) -> ListedBatch:
        """What a line about it says."""
        fields = self._fields
        return ListedBatch(
            None, channel, "singular", fields.timestamp, 1, self._count, fields.parent_hash, self._digest
        )

    def blocks(self) -> Iterator[OutlinedBlock]:
        """Its one block."""
        fields = self._fields
        yield OutlinedBlock(
            fields.timestamp, fields.epoch_number, fields.epoch_hash, fields.parent_hash, fields.transactions()
        )


class SpanOutline:
    """A span batch; `span` is without its transactions."""

    def __init__(self, raw: RawSpan, rules: SpanRules) -> None:
        self._raw, self._chain_id = raw.transactions, rules.chain_id
        span = without_transactions(raw, rules)
        self._digest = hashes_digest(self._transactions())
        self.span = msgspec.structs.replace(span, post_exec_time=post_exec_time(span, self._raw.kinds))

    @property
    def first_timestamp(self) -> int:
        return self.span.first_timestamp

    def _transactions(self) -> Iterator[bytes]:
        return restored(self._raw, self._chain_id)

    def listed(self, channel: bytes | None) -> ListedBatch:
        """What a line about it says."""
        span, count = self.span, len(self._raw.kinds)
        return ListedBatch(
            None, channel, "span", span.first_timestamp, span.block_count, count, span.parent_check, self._digest
        )

    def blocks(self) -> Iterator[OutlinedBlock]:
        """Its blocks in order."""
        cursor, transactions = SpanCursor(self.span), self._transactions()
        while cursor.left:
            timestamp, epoch, taken = cursor.timestamp, cursor.next_epoch, cursor.taken
            cursor.pop()
            yield OutlinedBlock(timestamp, epoch, None, None, islice(transactions, cursor.taken - taken))


Outline = SingularOutline | SpanOutline


def outline(item: bytes, rules: SpanRules) -> Outline | RefusedBatch | Reason:
    """The batch that `item` is; a Reason when nothing behind it is read any more."""
    return envelope(item, lambda: SingularOutline(read_singular(item, 1)), lambda: _span(item, 1, rules))


def raw_span_outline(data: bytes, rules: SpanRules) -> SpanOutline | RefusedBatch | Reason:
    """The span batch that `data` is without its type byte."""
    return guarded_span(lambda: _span(data, 0, rules))


def _span(data: bytes, at: int, rules: SpanRules) -> SpanOutline | Reason:
    try:
        return SpanOutline(read_span(data, at), rules)
    except SpanTransactionError as error:
        return Why.SPAN_TRANSACTION(index=error.index, problem=str(error))


def _hashes(fields: SingularFields) -> tuple[int, Hash]:
    """How many transactions there are and the digest of their hashes; SingularBatchError at bytes that are none. Runs
    of tiny ones, of which there can be a hundred million, are taken together."""
    digest, count = sha256(), 0
    data, at, end = fields.data, fields.at, fields.end
    while at < end:
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
