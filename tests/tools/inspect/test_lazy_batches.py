"""A lazy batch equals what the deriver's decoder returns, whatever the bytes are."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.batches import RejectedBatch, SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.channel_body import decode_batch
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.reasons.channels import SpanBatchMalformed
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.rlp import encode_bytes, wrap_list
from rollup_node.tools.inspect.batch_summary import hashes_digest
from rollup_node.tools.inspect.lazy_batches import LazySingularBatch, LazySpanBatch, lazy_batch, lazy_raw_span
from tests.conformance.kit.chain import L2_CHAIN_ID
from tests.conformance.kit.span_fields import Tx, span_fields

RULES = SpanRules(L2_CHAIN_ID, 1000, 2)
HEAD = encode_bytes(b"p" * 32) + b"\x05" + encode_bytes(b"e" * 32) + b"\x07"
TINY = (b"", b"\0", b"\x7f", b"\x80", b"ab", b"x" * 60)


def _singular(*transactions: bytes) -> bytes:
    return b"\0" + wrap_list(HEAD + wrap_list(b"".join(map(encode_bytes, transactions))))


def _check(item: bytes) -> None:
    """Assert that the lazy batch equals the decoder's."""
    lazy, decoded = lazy_batch(item, RULES), decode_batch(item, RULES)
    if isinstance(decoded, Reason | RejectedBatch):
        assert lazy == decoded
        return
    assert isinstance(lazy, LazySingularBatch | LazySpanBatch)
    summary = lazy.summary(b"c" * 16)
    blocks = [(block, tuple(block.transactions)) for block in lazy.blocks()]
    assert (summary.transactions, summary.digest) == (len(decoded.transactions), hashes_digest(decoded.transactions))
    if isinstance(decoded, SingularBatch):
        assert (summary.kind, summary.blocks, summary.parent) == ("singular", 1, decoded.parent_hash)
        ((block, transactions),) = blocks
        assert transactions == tuple(decoded.transactions)
        assert (block.timestamp, block.epoch_number, block.epoch_hash) == (
            summary.first_timestamp,
            decoded.epoch_number,
            decoded.epoch_hash,
        )
        return
    assert isinstance(lazy, LazySpanBatch) and isinstance(decoded, SpanBatch)
    assert (summary.kind, summary.blocks, summary.parent) == ("span", decoded.block_count, decoded.parent_check)
    assert [(block.timestamp, block.epoch_number, transactions) for block, transactions in blocks] == [
        (block.timestamp, block.epoch_number, block.transactions) for block in decoded.blocks()
    ]


@given(st.lists(st.sampled_from(TINY), max_size=40))
def test_runs_of_tiny_transactions(transactions: list[bytes]) -> None:
    _check(_singular(*transactions))


def test_runs_longer_than_a_piece() -> None:
    _check(_singular(*[b""] * 70_000, b"ab", *[b"\x05"] * 70_000))


@given(st.lists(st.sampled_from(TINY), max_size=6), st.data())
def test_damaged_singular_batches(transactions: list[bytes], drawn: st.DataObject) -> None:
    item = bytearray(_singular(*transactions))
    place = drawn.draw(st.integers(0, len(item) * 8 - 1))
    item[place >> 3] ^= 1 << (place & 7)
    _check(bytes(item))
    _check(bytes(item[: drawn.draw(st.integers(0, len(item)))]))


@given(st.data())
def test_spans_whole_and_damaged(drawn: st.DataObject) -> None:
    blocks = drawn.draw(st.lists(st.sampled_from([(), (Tx(),), (Tx(), Tx(to=None))]), min_size=1, max_size=12))
    item = span_fields(blocks).encode()
    _check(item)
    raw, whole = lazy_raw_span(item[1:], RULES), lazy_batch(item, RULES)
    assert isinstance(raw, LazySpanBatch) and isinstance(whole, LazySpanBatch)
    assert raw.summary(None) == whole.summary(None)
    damaged = bytearray(item)
    place = drawn.draw(st.integers(0, len(item) * 8 - 1))
    damaged[place >> 3] ^= 1 << (place & 7)
    _check(bytes(damaged))
    _check(item[: drawn.draw(st.integers(0, len(item)))])


def test_a_malformed_raw_span() -> None:
    end = lazy_raw_span(b"\x80", RULES)
    assert isinstance(end, Reason) and end.kind is SpanBatchMalformed
