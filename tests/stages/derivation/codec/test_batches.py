"""Singular batches of any size; conformance and fuzz targets read them of any bytes."""

from rollup_node.stages.derivation.codec.batches import decode_singular
from rollup_node.stages.derivation.codec.packed import MAX_PLAIN_COUNT
from rollup_node.stages.protocol.rlp import encode_bytes, wrap_list


def test_any_number_of_transactions() -> None:
    """[SB6]"""
    count = 3 * MAX_PLAIN_COUNT
    fields = encode_bytes(b"p" * 32), b"\x05", encode_bytes(b"e" * 32), b"\x07", wrap_list(b"\x05" * count)
    transactions = decode_singular(b"\0" + wrap_list(b"".join(fields)), 1).transactions
    assert tuple(transactions) == (b"\x05",) * count
