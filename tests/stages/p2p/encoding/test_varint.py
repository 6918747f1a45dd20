"""Unsigned varints of multiformats and of protobuf."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.encoding import varint
from rollup_node.stages.p2p.encoding.varint import VarintError


@given(st.integers(0, (1 << 63) - 1), st.binary(max_size=4))
def test_round_trip(number: int, rest: bytes) -> None:
    raw = varint.encode(number)
    assert varint.decode(raw + rest) == (number, len(raw))
    assert varint.decode_protobuf(b"xx" + raw + rest, 2) == (number, len(raw) + 2)
    for cut in range(len(raw)):
        assert varint.decode(raw[:cut]) is None


@pytest.mark.parametrize(("number", "raw"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001")])
def test_known_encodings(number: int, raw: str) -> None:
    assert varint.encode(number).hex() == raw
    assert varint.decode(bytes.fromhex(raw)) == (number, len(raw) // 2)


@pytest.mark.parametrize("raw", [b"\x80\x00", b"\x81\x80\x00", b"\xff" * 9, b"\x80" * 9 + b"\x01", b"\xff" * 20])
def test_malformed_varints_are_rejected(raw: bytes) -> None:
    with pytest.raises(VarintError):
        varint.decode(raw)


def test_protobuf_varints_may_be_non_minimal_and_have_ten_bytes() -> None:
    assert varint.decode_protobuf(b"\x80\x00") == (0, 2)
    assert varint.decode_protobuf(b"\xff" * 9 + b"\x01") == ((1 << 64) - 1, 10)
    assert varint.decode_protobuf(b"\xff" * 9 + b"\x7f") == ((1 << 64) - 1, 10)
    with pytest.raises(VarintError):
        varint.decode_protobuf(b"\xff" * 10)
