"""The transactions of span batches beyond the conformance cases: the texts of refusals, and recorded vectors."""

from pathlib import Path

import pytest

from rollup_node.stages.derivation.codec.batches import SpanBatch
from rollup_node.stages.derivation.codec.span_batch import SpanRules, decode_span
from rollup_node.stages.derivation.codec.span_transactions import (
    RawTransactions,
    SpanTransactionError,
    restore_transactions,
)
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.batcher.batches import BatchBlock, span_batch

TO, R, S = b"t" * 20, b"\x11" * 32, b"\x22" * 32


def test_all_filled_columns_of_a_post_exec_transaction_are_named() -> None:
    payload = b"\x7d\xc0"
    raw = RawTransactions(payload + b"tail", payload[:1], [0, 2], R + S, TO, [7], [21_000], 0, 1, 0)
    with pytest.raises(SpanTransactionError, match=r"with recipient, y parity, r, s, nonce, gas limit$"):
        list(restore_transactions(raw, 10))
    empty = raw._replace(signatures=bytes(64), nonces=[0], gas_limits=[0], creation_bits=1, parity_bits=0)
    assert list(restore_transactions(empty, 10)) == [payload]


@pytest.mark.parametrize("name", ["fulltxacc", "fulltxdyn", "fulltxlegacy", "fulltxunprotected"])
def test_recorded_transactions(shared_data: Path, name: str) -> None:
    lines = (shared_data / "span_batch_vectors" / f"{name}.txt").read_text().split()
    transactions = tuple(bytes.fromhex(line[2:]) for line in lines)
    block = BatchBlock(bytes(32), 1_010, BlockId(5, bytes(32)), transactions)
    span = decode_span(span_batch([block], 1_000, 5), 1, SpanRules(697, 1_000, 2))
    assert isinstance(span, SpanBatch), str(span)
    assert span.transactions == transactions
