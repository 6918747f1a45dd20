"""Raw decoding of span batches: damage of every kind, and recorded batches."""

from pathlib import Path

import pytest

from rollup_node.stages.derivation.codec import packed
from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.codec.packed import PackedBytes, PackedTransactions
from rollup_node.stages.derivation.codec.span_batch import SpanRules, decode_span
from tests.conformance.kit.span_fields import Tx, span_fields

RULES = SpanRules(10, 1_000, 2)


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


def test_a_packed_span_has_the_same_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, txs = [2, 0, 3, 0, 1], (Tx(nonce=number, protected=number & 1 ^ 1) for number in range(6))
    encoded = span_fields([[next(txs) for _ in range(count)] for count in counts], [0, 1, 0, 1, 1]).encode()
    plain = decode_span(encoded, 1, RULES)
    for name in ("MAX_PLAIN_COUNT", "MAX_PLAIN_BYTES"):
        monkeypatch.setattr(packed, name, 1)
    monkeypatch.setattr(packed, "MAX_PLAIN_FIELD", 2)
    span = decode_span(encoded, 1, RULES)
    assert isinstance(plain, SpanBatch) and isinstance(span, SpanBatch)
    assert isinstance(span.transactions, PackedTransactions) and isinstance(span.transaction_counts, PackedBytes)
    blocks = [(block.timestamp, block.epoch_number, tuple(block.transactions)) for block in span.blocks()]
    assert blocks == [(block.timestamp, block.epoch_number, block.transactions) for block in plain.blocks()]
    assert [len(transactions) for *_, transactions in blocks] == counts
