"""Walking over the blocks of a span."""

from rollup_node.stages.derivation.codec.batches import SpanBatch, SpanCursor


def test_cursor_reads_counts_of_any_width() -> None:
    span = SpanBatch(b"", b"", 10, 2, 3, 5, 6, b"\x04", b"\x80\x01\x00\x82\x80\x00", (b"x",) * 130)
    cursor = SpanCursor(span)
    blocks = [cursor.pop() for _ in range(4)]
    assert [len(block.transactions) for block in blocks if block] == [128, 0, 2]
    assert [block.epoch_number for block in blocks if block] == [5, 5, 6]
    assert [block.timestamp for block in blocks if block] == [10, 12, 14]
    assert blocks[3] is None
