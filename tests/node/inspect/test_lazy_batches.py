"""Outlines say of a batch what the deriver's decoder finds in it, whatever its bytes are."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.node.inspect.batch_summary import hashes_digest
from rollup_node.node.inspect.lazy_batches import LazySingularBatch, LazySpanBatch, lazy_batch, lazy_raw_span
from rollup_node.stages.derivation.codec.batches import RejectedBatch, SingularBatch, SpanBatch
from rollup_node.stages.derivation.codec.channel_body import decode_batch
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.reasons.reading import SpanBatchMalformed
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.protocol.rlp import encode_bytes, wrap_list

RULES = SpanRules(901, 1000, 2)
HEAD = encode_bytes(b"p" * 32) + b"\x05" + encode_bytes(b"e" * 32) + b"\x07"
TINY = (b"", b"\0", b"\x7f", b"\x80", b"ab", b"x" * 60)


def _singular(*transactions: bytes) -> bytes:
    return b"\0" + wrap_list(HEAD + wrap_list(b"".join(map(encode_bytes, transactions))))


def _check(item: bytes) -> None:
    """What the outline says is what the decoder finds."""
    told, decoded = lazy_batch(item, RULES), decode_batch(item, RULES)
    if isinstance(decoded, Reason | RejectedBatch):
        assert told == decoded
        return
    assert isinstance(told, LazySingularBatch | LazySpanBatch)
    listed = told.summary(b"c" * 16)
    blocks = [(block, tuple(block.transactions)) for block in told.blocks()]
    assert (listed.transactions, listed.digest) == (len(decoded.transactions), hashes_digest(decoded.transactions))
    if isinstance(decoded, SingularBatch):
        assert (listed.kind, listed.blocks, listed.parent) == ("singular", 1, decoded.parent_hash)
        ((block, transactions),) = blocks
        assert transactions == decoded.transactions
        assert (block.timestamp, block.epoch_number, block.epoch_hash) == (
            listed.first_timestamp,
            decoded.epoch_number,
            decoded.epoch_hash,
        )
        return
    assert isinstance(told, LazySpanBatch) and isinstance(decoded, SpanBatch)
    assert (listed.kind, listed.blocks, listed.parent) == ("span", decoded.block_count, decoded.parent_check)
    assert told.span.post_exec_time == decoded.post_exec_time
    assert [(block.timestamp, block.epoch_number, transactions) for block, transactions in blocks] == [
        (block.timestamp, block.epoch_number, block.transactions) for block in decoded.blocks()
    ]


@given(st.lists(st.sampled_from(TINY), max_size=40))
def test_runs_of_tiny_transactions_are_taken_together(transactions: list[bytes]) -> None:
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
def test_spans_whole_and_damaged(made: Any, drawn: st.DataObject) -> None:
    world = made.World(made.forks_to("holocene"))
    user = made.rlp_transaction(901)
    lists = drawn.draw(st.lists(st.sampled_from([(), (user,), (user, user)]), min_size=1, max_size=12))
    item = world.span(1, *[0] * len(lists), transactions=lists)
    _check(item)
    told = lazy_raw_span(item[1:], RULES)
    assert isinstance(told, LazySpanBatch)
    assert told.summary(None) == lazy_batch(item, RULES).summary(None)  # type: ignore[union-attr]
    damaged = bytearray(item)
    place = drawn.draw(st.integers(0, len(item) * 8 - 1))
    damaged[place >> 3] ^= 1 << (place & 7)
    _check(bytes(damaged))
    _check(item[: drawn.draw(st.integers(0, len(item)))])


def test_what_is_wrong_with_a_raw_span() -> None:
    told = lazy_raw_span(b"\x80", RULES)
    assert isinstance(told, Reason) and type(told) is SpanBatchMalformed
