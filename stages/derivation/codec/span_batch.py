"""Span batches: raw decoding field by field with all limits, and conversion to blocks."""

from array import array
from collections.abc import Sequence
from contextlib import suppress
from operator import length_hint
from typing import NamedTuple

import msgspec

from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.codec.packed import TransactionPacker, Transactions, is_large, pack_field
from rollup_node.stages.derivation.codec.span_transactions import (
    RawTransactions,
    SpanTransactionError,
    restore_transactions,
)
from rollup_node.stages.derivation.reasons.channels import SpanTransactionInvalid
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.types import U64_MASK

MAX_ELEMENTS = 10_000_000
_COUNTS = 1 << 16
"""Transaction counts that are read at once, if one of the span has more than a byte."""

_LAST_WEIGHT = 1 << 63
"""The weight of the tenth byte of a uvarint."""


class SpanRules(msgspec.Struct, frozen=True, array_like=True):
    """The chain constants that turn a span batch into L2 blocks; times in seconds."""

    chain_id: int
    genesis_time: int
    block_time: int


class SpanBatchError(ValueError):
    """The bytes at `offset` are not those of a span batch, which ends the channel [BE4]."""

    def __init__(self, offset: int, error: str) -> None:
        super().__init__(error)
        self.offset = offset


class RawSpan(NamedTuple):
    """The fields of a span batch in their order; `counts` and `origin_bits` are its own bytes."""

    relative_time: int
    last_epoch: int
    parent_check: bytes
    origin_check: bytes
    block_count: int
    origin_bits: bytes
    counts: bytes
    transactions: RawTransactions


def decode_span(data: bytes, at: int, rules: SpanRules) -> SpanBatch | Reason:
    """Return the batch at offset `at`, behind its type byte.

    A reason when its transactions cannot be restored, which drops this batch only. Bytes after it are ignored [BE6,
    SP16, CV1 to CV10]. Raises SpanBatchError when it is malformed."""
    raw = read_span(data, at)
    try:
        transactions = _transactions(raw.transactions, rules.chain_id)
    except SpanTransactionError as error:
        return SpanTransactionInvalid(error.index, str(error))
    return span_of(raw, rules, transactions)


def read_span(data: bytes, at: int) -> RawSpan:
    """Return the fields of the batch at `at`, transactions in columns [SP1 to SP18]. Raises SpanBatchError."""
    return _FieldReader(data, at).read()


def _transactions(raw: RawTransactions, chain_id: int) -> Transactions:
    """All transactions, packed if they are many or large. Raises SpanTransactionError when one cannot be restored."""
    restored = restore_transactions(raw, chain_id)
    if not is_large(len(raw.kinds), raw.offsets[-1] - raw.offsets[0] + 64 * len(raw.kinds)):
        return tuple(restored)
    packer = TransactionPacker()
    for transaction in restored:
        packer.add(transaction)
    return packer.finish()


def span_of(raw: RawSpan, rules: SpanRules, transactions: Transactions) -> SpanBatch:
    """Return the span batch of a raw one, with these transactions [CV1, CV2]."""
    advances = int.from_bytes(raw.origin_bits, "big") >> 1
    return SpanBatch(
        parent_check=raw.parent_check,
        origin_check=raw.origin_check,
        first_timestamp=(rules.genesis_time + raw.relative_time) & U64_MASK,
        block_time=rules.block_time,
        block_count=raw.block_count,
        first_epoch=(raw.last_epoch - advances.bit_count()) & U64_MASK,
        last_epoch=raw.last_epoch,
        origin_bits=pack_field(raw.origin_bits),
        transaction_counts=pack_field(raw.counts),
        transactions=transactions,
    )


class _FieldReader:
    """Reads the fields in their order [SP1 to SP15]."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def read(self) -> RawSpan:
        relative_time = self._number("relative timestamp")
        last_epoch = self._number("L1 origin number")
        parent_check = self._bytes(20, "parent check")
        origin_check = self._bytes(20, "L1 origin check")
        block_count = self._number("block count")
        if not 0 < block_count <= MAX_ELEMENTS:
            raise self._error(f"{block_count} blocks")
        origin_bits = self._bits(block_count, "origin bits")
        start = self._at
        total = self._sum_of_counts(block_count)
        counts = self._data[start : self._at]
        transactions = self._transactions(total)
        return RawSpan(
            relative_time, last_epoch, parent_check, origin_check, block_count, origin_bits, counts, transactions
        )

    def _transactions(self, total: int) -> RawTransactions:
        creation_bits = int.from_bytes(self._bits(total, "contract creation bits"), "big")
        parity_bits = int.from_bytes(self._bits(total, "y parity bits"), "big")
        signatures = self._view(64 * total, "signatures")
        recipients = self._view(20 * (total - creation_bits.bit_count()), "recipients")
        kinds, payloads = self._payloads(total)
        nonces = self._numbers(total, "nonces")
        gas_limits = self._numbers(total, "gas limits")
        protected_bits = int.from_bytes(self._bits(kinds.count(0), "protected bits"), "big")
        return RawTransactions(
            self._data,
            kinds,
            payloads,
            signatures,
            recipients,
            nonces,
            gas_limits,
            creation_bits,
            parity_bits,
            protected_bits,
        )

    def _error(self, error: str) -> SpanBatchError:
        return SpanBatchError(self._at, error)

    def _bytes(self, size: int, field: str) -> bytes:
        start = self._at
        return self._data[start : self._after(size, field)]

    def _view(self, size: int, field: str) -> memoryview:
        """Bytes of a column, not copied."""
        start = self._at
        return memoryview(self._data)[start : self._after(size, field)]

    def _after(self, size: int, field: str) -> int:
        end = self._at + size
        if end > len(self._data):
            raise self._error(f"{field} cut off")
        self._at = end
        return end

    def _bits(self, count: int, field: str) -> bytes:
        """Return a bit list [SP18]."""
        taken = self._bytes((count + 7) >> 3, field)
        if count & 7 and taken[0] >> (count & 7):
            raise self._error(f"more than {count} {field}")
        return taken

    def _number(self, field: str) -> int:
        """Return a uvarint of at most 64 bits, in any form [SP17]."""
        data, at = self._data, self._at
        value = shift = 0
        for index in range(10):
            if at + index >= len(data):
                raise self._error(f"{field} cut off")
            byte = data[at + index]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if index == 9 and byte > 1:
                    break
                self._at = at + index + 1
                return value
            shift += 7
        raise self._error(f"{field} of more than 64 bits")

    def _numbers(self, count: int, field: str) -> Sequence[int]:
        """As many uvarints, the same as `_number` gives one by one."""
        numbers = array("Q")
        column = self._data[self._at : self._at + 10 * count]
        rest = iter(column)
        try:
            for _, value in zip(range(count), rest, strict=False):
                if value > 0x7F:
                    value -= 0x80
                    weight = 0x80
                    for byte in rest:
                        if byte < 0x80 or weight == _LAST_WEIGHT:
                            value += byte * weight
                            break
                        value += (byte - 0x80) * weight
                        weight <<= 7
                    else:
                        break
                numbers.append(value)
        except OverflowError:
            numbers = numbers[:0]
        if len(numbers) < count:
            return array("Q", [self._number(field) for _ in range(count)])
        self._at += len(column) - length_hint(rest)
        return numbers

    def _sum_of_counts(self, blocks: int) -> int:
        """Read the transaction counts of all blocks [SP7]; their sum."""
        data, total = self._data, 0
        short = data[self._at : self._at + blocks]
        if len(short) == blocks and short.isascii():
            self._at += blocks
            return self._checked_total(sum(short.translate(None, b"\0")))
        for first in range(0, blocks, _COUNTS):
            total += self._sum_of_some_counts(min(_COUNTS, blocks - first))
        return self._checked_total(total)

    def _sum_of_some_counts(self, blocks: int) -> int:
        start, counts = self._at, None
        with suppress(SpanBatchError):
            counts = self._numbers(blocks, "transaction counts")
        if counts is not None and max(counts) <= MAX_ELEMENTS:
            return sum(counts)
        # One of them is wrong: the first that is.
        self._at = start
        for _ in range(blocks):
            count = self._number("transaction counts")
            if count > MAX_ELEMENTS:
                break
        raise self._error(f"{count} transactions in a block")

    def _checked_total(self, total: int) -> int:
        if total > MAX_ELEMENTS:
            raise self._error(f"{total} transactions")
        return total

    def _payloads(self, total: int) -> tuple[bytes, Sequence[int]]:
        """Return the transactions' types (0: legacy, or a type byte of 0) and the bounds of their payloads [SP12]."""
        data, size = self._data, len(self._data)
        kinds, offsets = bytearray(total), array("Q")
        at = self._at
        try:
            for index in range(total):
                offsets.append(at)
                first = data[at]
                # Any byte below 0x80 is a type here; unknown ones drop the batch later, not the channel [CV3].
                if first < 0x80:
                    kinds[index] = first
                    at += 1
                    first = data[at]
                if first == 0xF9 and data[at + 1]:
                    stop = at + 3 + (data[at + 1] << 8) + data[at + 2]
                elif first == 0xF8 and data[at + 1] > 55:
                    stop = at + 2 + data[at + 1]
                elif 0xC0 <= first < 0xF8:
                    stop = at + first - 0xBF
                else:
                    stop = self._after_long_list(at, index)
                if stop > size:
                    raise IndexError
                at = stop
        except IndexError:
            self._at = at
            raise self._error(f"data of transaction {index} cut off") from None
        offsets.append(at)
        self._at = at
        return bytes(kinds), offsets

    def _after_long_list(self, at: int, index: int) -> int:
        data = self._data
        self._at = at
        if data[at] < 0xC0:
            raise self._error(f"data of transaction {index} is not a list")
        start = at + data[at] - 0xF6
        digits = data[at + 1 : start]
        length = int.from_bytes(digits, "big")
        if start > len(data):
            raise IndexError
        if digits[0] == 0 or length < 56:
            raise self._error(f"data of transaction {index} has a length not in its shortest form")
        if start + length - at > MAX_ELEMENTS:
            raise self._error(f"data of transaction {index} has {length} bytes")
        return start + length
