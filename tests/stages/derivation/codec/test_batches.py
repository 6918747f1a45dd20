"""Singular batches of any size, and of any bytes."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.derivation.codec.batches import SingularBatchError, decode_singular
from rollup_node.stages.derivation.codec.packed import MAX_PLAIN_COUNT
from rollup_node.stages.protocol.rlp import encode_bytes, wrap_list


def test_any_number_of_transactions() -> None:
    """[SB6]"""
    count = 3 * MAX_PLAIN_COUNT
    fields = encode_bytes(b"p" * 32), b"\x05", encode_bytes(b"e" * 32), b"\x07", wrap_list(b"\x05" * count)
    transactions = decode_singular(b"\0" + wrap_list(b"".join(fields)), 1).transactions
    assert tuple(transactions) == (b"\x05",) * count


@given(st.binary(max_size=200))
def test_any_bytes_give_a_batch_or_the_error(data: bytes) -> None:
    try:
        decode_singular(b"\0" + wrap_list(encode_bytes(data) + data), 1)
    except SingularBatchError as error:
        assert str(error)
