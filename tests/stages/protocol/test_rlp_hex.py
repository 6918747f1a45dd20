"""RLP in hex digits is that of the bytes, whatever a text holds."""

from binascii import unhexlify

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import rlp, rlp_hex
from rollup_node.stages.protocol.hex_encoding import to_hex

SIZES = [0, 1, 2, 20, 31, 32, 33, 54, 55, 56, 57, 255, 256, 65_535, 65_536]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fill", [b"\x00", b"\x7f", b"\x80", b"\xff"])
def test_bytes_of_every_length(size: int, fill: bytes) -> None:
    data = fill * size
    assert unhexlify(rlp_hex.data(to_hex(data))) == rlp.encode_bytes(data)
    assert unhexlify(rlp_hex.wrap_list(data.hex())) == rlp.wrap_list(data)


@given(st.integers(0, 2**256 - 1), st.integers(0, 3))
def test_numbers_also_with_leading_zeros(value: int, zeros: int) -> None:
    expected = rlp.encode_int(value)
    for text in (hex(value), f"0x{'0' * zeros}{value:x}", f"0x{value:064x}", hex(value).upper()):
        assert unhexlify(rlp_hex.number(text)) == expected
    assert rlp_hex.number("0x") == rlp_hex.EMPTY


def test_hashes() -> None:
    items = [b"\x01" * 32, b"\xff" * 32]
    assert unhexlify(rlp_hex.hashes(list(map(to_hex, items)))) == rlp.encode(items)
    assert rlp_hex.hashes([]) == rlp_hex.EMPTY_LIST


def test_more_numbers_than_are_kept() -> None:
    numbers = range(10_000)
    assert [unhexlify(rlp_hex.number(hex(value))) for value in numbers] == list(map(rlp.encode_int, numbers))


@pytest.mark.parametrize("text", ["", "5", "é", "1x5", "0xzz", "0x1 2", "0x 1", "0x12 ", "0x\t12"])
def test_no_quantity(text: str) -> None:
    with pytest.raises(ValueError):
        unhexlify(rlp_hex.number(text))


@pytest.mark.parametrize("text", ["0x1", "0xz", "0x1z", "0x 1", "0x12 3 ", "0x" + "1" * 41])
def test_no_bytes(text: str) -> None:
    with pytest.raises(ValueError):
        unhexlify(rlp_hex.data(text))
    with pytest.raises(ValueError):
        unhexlify(rlp_hex.hashes([text]))
