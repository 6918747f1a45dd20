"""Raw decoding of span batches: damage of every kind, and recorded batches."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec import packed
from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.codec.packed import PackedBytes, PackedTransactions
from rollup_node.stages.derivation.codec.span_batch import SpanBatchError, SpanRules, decode_span
from rollup_node.stages.derivation.reasons.reason import Reason

RULES = SpanRules(10, 1_000, 2)


class Raw(msgspec.Struct):
    """The fields as bytes; the default is five blocks with one legacy transaction in the first."""

    relative_time: bytes = b"\x0a"
    last_epoch: bytes = b"\x64"
    checks: bytes = b"p" * 20 + b"o" * 20
    block_count: bytes = b"\x05"
    origin_bits: bytes = b"\x00"
    counts: bytes = b"\x01\x00\x00\x00\x00"
    creation_bits: bytes = b"\x00"
    parity_bits: bytes = b"\x00"
    signatures: bytes = b"r" * 32 + b"s" * 32
    recipients: bytes = b"t" * 20
    payloads: bytes = b"\xc3\x01\x02\x80"
    nonces: bytes = b"\x07"
    gas_limits: bytes = b"\x08"
    protected_bits: bytes = b"\x01"

    def encoded(self) -> bytes:
        return b"\x01" + b"".join(msgspec.structs.astuple(self))


def _decode(**fields: bytes) -> SpanBatch | Reason:
    return decode_span(Raw(**fields).encoded(), 1, RULES)


def _span(**fields: bytes) -> SpanBatch:
    result = _decode(**fields)
    assert isinstance(result, SpanBatch), str(result)
    return result


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"creation_bits": b"\x02"}, id="creation bit padding"),
        pytest.param({"parity_bits": b"\x02"}, id="parity bit padding"),
        pytest.param({"protected_bits": b"\x02"}, id="protected bit padding"),
    ],
)
def test_malformed(fields: dict[str, bytes]) -> None:
    with pytest.raises(SpanBatchError):
        _decode(**fields)


@given(st.binary(max_size=300))
def test_any_bytes_give_a_span_a_reason_or_the_error(data: bytes) -> None:
    try:
        assert isinstance(decode_span(b"\x01" + data, 1, RULES), SpanBatch | Reason)
    except SpanBatchError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("name", "blocks", "count"), [("kona_raw_batch.bin", 4, 39), ("kona_span_batch_history.bin", 84, 9)]
)
def test_recorded_batches(shared_data: Path, name: str, blocks: int, count: int) -> None:
    raw = (shared_data / "span_batch_vectors" / name).read_bytes()
    if name == "kona_span_batch_history.bin":
        raw = bytes.fromhex(raw.decode())[1:]
    span = decode_span(b"\x01" + raw, 1, RULES)
    assert isinstance(span, SpanBatch)
    assert (span.block_count, len(span.transactions)) == (blocks, count)
    assert sum(len(block.transactions) for block in span.blocks()) == count


def test_columns_of_946_transactions(shared_data: Path) -> None:
    text = (shared_data / "span_batch_vectors" / "spanbatchtxs.txt").read_text().strip()
    head = Raw(block_count=b"\x01", origin_bits=b"\x00", counts=b"\xb2\x07").encoded()[: 1 + 2 + 40 + 2 + 2]
    span = decode_span(head + bytes.fromhex(text[2:]), 1, RULES)
    assert isinstance(span, SpanBatch)
    kinds = [raw[0] if raw[0] < 0x80 else 0 for raw in span.transactions]
    assert [kinds.count(kind) for kind in (0, 1, 2)] == [474, 236, 236]


def test_a_packed_span_has_the_same_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, columns = [2, 0, 3, 0, 1], {"signatures": 64, "recipients": 20}
    fields = {name: bytes(range(1, size + 1)) * 6 for name, size in columns.items()}
    fields |= {"payloads": b"\xc3\x01\x02\x80" * 6, "nonces": bytes(range(6)), "gas_limits": b"\x08" * 6}
    fields |= {"counts": bytes(counts), "origin_bits": b"\x1a", "protected_bits": b"\x15"}
    plain = _span(**fields)
    for name in ("MAX_PLAIN_COUNT", "MAX_PLAIN_BYTES"):
        monkeypatch.setattr(packed, name, 1)
    monkeypatch.setattr(packed, "MAX_PLAIN_FIELD", 2)
    span = _span(**fields)
    assert isinstance(span.transactions, PackedTransactions) and isinstance(span.transaction_counts, PackedBytes)
    blocks = [(block.timestamp, block.epoch_number, tuple(block.transactions)) for block in span.blocks()]
    assert blocks == [(block.timestamp, block.epoch_number, block.transactions) for block in plain.blocks()]
    assert [len(transactions) for *_, transactions in blocks] == counts
