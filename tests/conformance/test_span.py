"""Raw decoding of span batches: malformed ones end their channel, those whose transactions cannot be restored are
dropped alone [SP1 to SP18, BE6]."""

import pytest

from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.reasons.channels import SpanBatchMalformed, SpanTransactionInvalid
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.messages.derivation import DropEffect
from tests.conformance.kit.cases import case, table
from tests.conformance.kit.chain import GENESIS, GENESIS_TIME, L2_BLOCK_TIME
from tests.conformance.kit.channel_reading import ReadResult, read_batches
from tests.conformance.kit.planning import plan, span
from tests.conformance.kit.span_fields import SpanFields, Tx, bit_list, span_fields, uvarint

pytestmark = pytest.mark.fault("F31")

MARK = plan(GENESIS, 1)[0].singular
"""A singular batch before and after the span."""
LEGACY, DYNAMIC = Tx(), Tx(2, (b"\x05", b"\x01", b"\x09", b"\xda\x7a", []), parity=1)
GOOD = span_fields([[LEGACY], [], [DYNAMIC, LEGACY]], [1, 0, 1])
LIMIT = 10_000_000


def read_alike(encoded: bytes) -> ReadResult:
    """Read the span between two singular batches, from Delta and from Holocene on."""
    alike = read_batches(MARK, encoded, MARK, fork="delta")
    assert read_batches(MARK, encoded, MARK, fork="holocene") == alike
    return alike


def span_in(encoded: bytes) -> SpanBatch:
    """Return the span, which must be read, as well as what follows it."""
    result = read_batches(MARK, encoded, MARK, fork="fjord")
    _, batch, _ = result.batches
    assert isinstance(batch, SpanBatch)
    assert result.dropped == []
    return batch


def ended_at(encoded: bytes) -> int:
    """Return the byte at which the span is malformed.

    Asserts that the batch before it is read and the one after it is not."""
    alike = read_alike(encoded)
    assert len(alike.batches) == 1
    (dropped,) = alike.dropped
    assert (dropped.effect, dropped.reason.kind) == (DropEffect.ENDED, SpanBatchMalformed)
    offset = dropped.reason.values["offset"]
    assert isinstance(offset, int)
    return offset


def refusal_of(encoded: bytes) -> Reason:
    """Why the span alone is dropped; the channel continues."""
    alike = read_alike(encoded)
    assert len(alike.batches) == 2
    (dropped,) = alike.dropped
    assert dropped.effect is DropEffect.DROPPED
    return dropped.reason


@case("span_ok_roundtrip")
def comes_back() -> None:
    """Encoded by the batcher's library, 40 blocks over several epochs; and blocks of many transactions."""
    full = (LEGACY.full(27), DYNAMIC.full(), Tx(1, (b"\x05", b"\x09", b"", [[b"\x77" * 20, [b"\x01" * 32]]])).full())
    planned = plan(GENESIS, 40, full)
    batch = span_in(span(planned))
    assert [(block.timestamp, block.epoch_number, block.transactions) for block in batch.blocks()] == [
        (item.ref.timestamp, item.ref.l1_origin.number, item.transactions) for item in planned
    ]
    assert batch.first_epoch < batch.last_epoch
    assert batch.parent_check == GENESIS.hash[:20]
    assert batch.origin_check == planned[-1].ref.l1_origin.hash[:20]
    many = span_in(span_fields([[DYNAMIC], [LEGACY] * 300, [], [DYNAMIC] * 128]).encode())
    assert [len(block.transactions) for block in many.blocks()] == [1, 300, 0, 128]
    assert [set(block.transactions) for block in many.blocks()][1::2] == [{LEGACY.full(27)}, {DYNAMIC.full()}]


@table(
    span_varint_nonminimal=(b"\x80\x00", 0),
    span_varint_10_bytes=(b"\xff" * 9 + b"\x01", 2**64 - 1),
)
def number_is_read(encoded: bytes, value: int) -> None:
    batch = span_in(GOOD.but(rel_timestamp=encoded).encode())
    assert batch.first_timestamp == (GENESIS_TIME + value) % 2**64


@table(
    span_varint_overflow=("rel_timestamp", GOOD.but(rel_timestamp=b"\xff" * 9 + b"\x02")),
    span_varint_11=("rel_timestamp", GOOD.but(rel_timestamp=b"\x80" * 10 + b"\x00")),
    span_block_count_0=("block_count", GOOD.but(block_count=b"\0", origin_bits=b"", tx_counts=b"")),
    span_block_count_over=("block_count", GOOD.but(block_count=uvarint(LIMIT + 1))),
    span_origin_bit_padding=("origin_bits", span_fields([[]] * 5).but(origin_bits=b"\x20")),
    span_tx_count_over=("tx_counts", GOOD.but(tx_counts=uvarint(LIMIT + 1) + b"\0\0")),
    span_tx_total_over=("tx_counts", GOOD.but(tx_counts=uvarint(6_000_000) * 2 + b"\0")),
    span_tx_total_overflow=("tx_counts", GOOD.but(tx_counts=uvarint(2**63) * 2 + b"\0")),
)
def malformed_in(name: str, span: SpanFields) -> None:
    first, end = span.place_of(name)
    assert first <= ended_at(span.encode()) <= end


@table(
    span_data_string=(
        *(b"\x83abc", b"\x80", b"\x80\xc0", b"\x02\x83abc", b"\x02\x80", b"\x02\x02\xc0", b"\xb8\x38" + bytes(56)),
        *(b"\xbf" + bytes(8), b"\xf8\x37" + bytes(55), b"\xf9\x00\x38" + bytes(56), b"\xff" + b"\xff" * 8),
    )
)
def no_list_of_fields(*contents: bytes) -> None:
    """A string, a second type byte, or a list whose length is not in its shortest form or far too large."""
    for raw in contents:
        span = span_fields([[Tx(9, raw=raw)]])
        first, end = span.place_of("datas")
        assert first <= ended_at(span.encode()) <= end


@table(
    span_origin_bits_short=("origin_bits", 1),
    span_sig_short=("signatures", 63),
    span_tos_short=("tos", 19),
    span_protected_bits_short=("protected_bits", 0),
)
def cut_off_in(name: str, keep: int) -> None:
    span = span_fields([[LEGACY]] + [[]] * 8)
    first, end = span.place_of(name)
    assert keep < end - first
    assert first <= ended_at(span.encode()[: first + keep]) <= first + keep


@case("span_block_count_limit")
def as_many_blocks_as_may_be() -> None:
    span = span_fields([[]]).but(
        block_count=uvarint(LIMIT), origin_bits=bytes(LIMIT // 8), tx_counts=bytes(LIMIT), protected_bits=b""
    )
    batch = span_in(span.encode())
    assert batch.block_count == LIMIT
    assert batch.last_timestamp - batch.first_timestamp == (LIMIT - 1) * L2_BLOCK_TIME
    assert bytes(iter(batch.origin_bits)) == bytes(LIMIT // 8)


@case("span_zero_txs")
def no_transactions() -> None:
    batch = span_in(span_fields([[], [], []], [0, 0, 1]).encode())
    assert [block.transactions for block in batch.blocks()] == [(), (), ()]
    assert [block.epoch_number for block in batch.blocks()] == [99, 99, 100]


def with_data_of(size: int) -> bytes:
    """Return a span of one legacy transaction whose content list takes `size` bytes with its head."""
    room = size - 4 - 2 - 4
    tx = Tx(content=(b"\x05", b"\x09", bytes(room)))
    assert len(tx.data) == size
    return span_fields([[tx]]).encode()


@case("span_data_10m")
def data_at_the_limit() -> None:
    assert len(next(iter(span_in(with_data_of(LIMIT)).transactions))) > LIMIT


@case("span_data_10m_plus")
def data_beyond_the_limit() -> None:
    result = read_batches(MARK, with_data_of(LIMIT + 1), MARK, fork="fjord")
    assert (len(result.batches), result.reason_type) == (1, SpanBatchMalformed)


@table(
    span_data_type_7f=b"\x7f\xc3\x80\x80\x80",
    span_data_type_03=b"\x03\xc3\x80\x80\x80",
    span_data_type_7e=b"\x7e\xc3\x80\x80\x80",
)
def unknown_type(raw: bytes) -> None:
    """The fields are read, the transaction cannot be restored."""
    span = span_fields([[LEGACY, Tx(raw[0], raw=raw)]])
    assert span.protected_bits == b"\0"
    reason = refusal_of(span.encode())
    assert (reason.kind, reason.values["index"]) == (SpanTransactionInvalid, 1)


@case("span_data_type_00")
def type_byte_zero() -> None:
    """It counts as legacy where the protected bits are, and yet cannot be restored."""
    typed = Tx(0, raw=b"\x00\xc3\x80\x80\x80")
    with_bits = span_fields([[*[LEGACY] * 8, typed]])
    assert len(with_bits.protected_bits) == 2
    reason = refusal_of(with_bits.encode())
    assert (reason.kind, reason.values["index"]) == (SpanTransactionInvalid, 8)
    first, _ = with_bits.place_of("protected_bits")
    assert ended_at(with_bits.but(protected_bits=b"\0").encode()) == first


@case("span_trailing")
def bytes_behind_it() -> None:
    assert span_in(GOOD.encode() + b"\1\2\3") == span_in(GOOD.encode())
    assert bit_list([1, 0, 1]) == GOOD.origin_bits
