"""Walking over the blocks of a span."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.batches import SingularBatchError, SpanBatch, SpanCursor, decode_singular
from rollup_node.stages.derivation.codec.packed import MAX_PLAIN_COUNT
from rollup_node.stages.protocol.rlp import encode_bytes, wrap_list


def test_cursor_reads_counts_of_any_width() -> None:
    span = SpanBatch(b"", b"", 10, 2, 3, 5, 6, b"\x04", b"\x81\x01\x7f\x82\x80\x00", (b"x",) * 258)
    cursor = SpanCursor(span)
    blocks = [cursor.pop() for _ in range(4)]
    assert [len(block.transactions) for block in blocks if block] == [129, 127, 2]
    assert [block.epoch_number for block in blocks if block] == [5, 5, 6]
    assert [block.timestamp for block in blocks if block] == [10, 12, 14]
    assert blocks[3] is None


PARENT, EPOCH = b"\xa0" + b"p" * 32, b"\xa0" + b"e" * 32


def _encoded(*fields: bytes) -> bytes:
    return wrap_list(b"".join(fields))


def _with_transactions(transactions: bytes) -> bytes:
    return _encoded(PARENT, b"\x05", EPOCH, b"\x07", transactions)


def test_any_number_of_transactions() -> None:
    """[SB6]"""
    count = 3 * MAX_PLAIN_COUNT
    transactions = decode_singular(b"\0" + _with_transactions(wrap_list(b"\x05" * count)), 1).transactions
    assert tuple(transactions) == (b"\x05",) * count


@given(st.binary(max_size=200))
def test_any_bytes_give_a_batch_or_the_error(data: bytes) -> None:
    try:
        decode_singular(b"\0" + wrap_list(encode_bytes(data) + data), 1)
    except SingularBatchError as error:
        assert str(error)
