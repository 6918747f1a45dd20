"""Span batches of every shape of transaction, valid and damaged, against the reference decoder."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.codec.span_batch import SpanBatchError, SpanRules, decode_span
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.tools.fuzz.targets.reference import Malformed, reference_batch
from tests.conformance.kit.chain import L2_CHAIN_ID
from tests.conformance.kit.span_fields import SpanFields, Tx, bit_list, span_fields, uvarint

RULES = SpanRules(L2_CHAIN_ID, 0, 2)
SIZES = st.sampled_from([0, 0, 1, 1, 2, 5, 9, 20, 31, 32, 33, 54, 55, 56, 57, 255, 256, 300])
U64 = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1), st.sampled_from([2**s for s in range(0, 64, 7)]))
WORDS = st.sampled_from([b"\x11" * 32, b"\0" + b"\x11" * 31, bytes(31) + b"\x7f", bytes(31) + b"\x80", bytes(32)])


def _bytes(first: int, size: int) -> bytes:
    return bytes((first,)) + b"\xab" * (size - 1) if size else b""


NUMBERS = st.builds(_bytes, st.integers(0, 255), SIZES)
"""As RLP strings; some begin with a zero byte and some are too long for a type 4."""
DATA = st.builds(_bytes, st.integers(0, 255), SIZES)
ADDRESSES = st.sampled_from([b"\x44" * 20] * 9 + [b"\x44" * 19])
KEYS = st.sampled_from([b"\x55" * 32] * 9 + [b"\x55" * 33])
ACCESS = st.lists(st.tuples(ADDRESSES, st.lists(KEYS, max_size=2)), max_size=2)
AUTHORIZATIONS = st.lists(st.tuples(NUMBERS, ADDRESSES, NUMBERS, st.just(b"\x01"), NUMBERS, NUMBERS), max_size=1)


def _content(kind: int, numbers: Sequence[bytes], data: bytes, access: Any, authorizations: Any) -> Sequence[object]:
    lists: dict[int, list[Any]] = {0: [], 1: [access], 2: [access], 4: [access, authorizations]}
    return [*numbers[: 2 if kind < 2 else 3], data, *lists[kind]]


@st.composite
def _transactions(draw: st.DrawFn) -> Tx:
    kind = draw(st.sampled_from([0, 0, 1, 2, 2, 2, 4]))
    numbers = draw(st.lists(NUMBERS.filter(lambda number: number[:1] != b"\0"), min_size=3, max_size=3))
    if draw(st.integers(0, 9)) == 0:
        numbers[draw(st.integers(0, 2))] = draw(NUMBERS)
    content = _content(kind, numbers, draw(DATA), draw(ACCESS), draw(AUTHORIZATIONS))
    to = None if draw(st.integers(0, 5)) == 0 else b"\x44" * 20
    return Tx(
        kind,
        content,
        draw(U64),
        draw(U64),
        to,
        draw(st.integers(0, 1)),
        draw(st.integers(0, 1)),
        draw(WORDS),
        draw(WORDS),
    )


@st.composite
def _spans(draw: st.DrawFn) -> SpanFields:
    blocks = draw(st.lists(st.lists(_transactions(), max_size=3), min_size=1, max_size=3))
    fields = span_fields(blocks)
    match draw(st.integers(0, 9)):
        case 0:
            fields = fields.but(nonces=_long_forms([tx.nonce for block in blocks for tx in block]))
        case 1:
            fields = fields.but(
                datas=fields.datas.replace(b"\x02", draw(st.sampled_from([b"\x03", b"\x7d", b"\0"])), 1)
            )
        case 2:
            fields = fields.but(protected_bits=bit_list([1] * 9))
    return fields


def _long_forms(numbers: Sequence[int]) -> bytes:
    """Base-128 numbers in ten bytes each."""
    return b"".join(bytes(value >> 7 * place & 0x7F | 0x80 * (place < 9) for place in range(10)) for value in numbers)


DAMAGE = st.tuples(st.floats(0, 0.999), st.integers(0, 3), st.binary(min_size=1, max_size=3))


def _damaged(data: bytes, damages: Sequence[tuple[float, int, bytes]]) -> bytes:
    for where, how, new in damages:
        at = int(where * len(data))
        data = (
            data[:at] + (new if how < 3 else b"") + data[at + (len(new) if how in (0, 3) else 1 if how == 1 else 0) :]
        )
    return data


def _ours(data: bytes) -> object:
    try:
        span = decode_span(data, 0, RULES)
    except SpanBatchError:
        return "malformed"
    if isinstance(span, Reason):
        return "not restored"
    assert isinstance(span, SpanBatch)
    blocks = tuple((block.timestamp, block.epoch_number, block.transactions) for block in span.blocks())
    return blocks, span.parent_check, span.origin_check


def _model(data: bytes) -> object:
    try:
        batch = reference_batch(b"\x01" + data, RULES.chain_id, 0, RULES.block_time)
    except Malformed:
        return "malformed"
    return "not restored" if batch is None else tuple(batch)


@settings(max_examples=80)
@given(_spans(), st.lists(st.lists(DAMAGE, min_size=1, max_size=2), min_size=3, max_size=3))
def test_spans_are_read_as_by_the_model(fields: SpanFields, damages: list[list[tuple[float, int, bytes]]]) -> None:
    """Each as it is, and damaged in three ways."""
    for damage in ([], *damages):
        data = _damaged(fields.encode()[1:], damage)
        assert _ours(data) == _model(data)


@settings(max_examples=100)
@given(st.lists(st.binary(min_size=1, max_size=12), max_size=4), st.integers(0, 3))
def test_columns_of_numbers_are_read_as_by_the_model(pieces: list[bytes], count: int) -> None:
    """The nonces and gas limits are any bytes."""
    fields = span_fields([[Tx()] * count]).but(nonces=b"".join(pieces), gas_limits=uvarint(2**63), protected_bits=b"")
    data = fields.encode()[1:] + bytes(3)
    assert _ours(data) == _model(data)
