"""Hex texts: what is taken, and that errors stay one short line."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import hex_encoding as hexes
from rollup_node.stages.protocol.hex_encoding import HexError


@given(st.binary(max_size=100))
def test_bytes_go_there_and_back(data: bytes) -> None:
    assert hexes.from_hex(hexes.to_hex(data)) == data


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_quantities_go_there_and_back(number: int) -> None:
    assert hexes.from_quantity(hexes.to_quantity(number)) == number


@pytest.mark.parametrize("text", ["", "00", "0x0", "0xzz", "0x 0", "0x0 0 ", "0x00 00", None, 5, b"0x00", ["0x00"]])
def test_what_is_no_byte_string(text: Any) -> None:
    with pytest.raises(HexError):
        hexes.from_hex(text)


@pytest.mark.parametrize(
    "text", ["", "0x", "1", "0x_1", "0x1_0", "0x-1", "0x+1", "0x 1", "0xg", "0x1" + "0" * 16, None, 5, "0x" + "0" * 65]
)
def test_what_is_no_quantity(text: Any) -> None:
    with pytest.raises(HexError):
        hexes.from_quantity(text)


def test_quantities_of_other_sizes() -> None:
    assert hexes.from_quantity("0x" + "f" * 64, 256) == 2**256 - 1
    assert hexes.from_quantity("0x00ff") == 255
    with pytest.raises(HexError, match="more than 8 bits"):
        hexes.from_quantity("0x100", 8)


def test_sizes_are_checked() -> None:
    assert hexes.address_from_hex("0x" + "Ab" * 20) == b"\xab" * 20
    assert hexes.hash_from_hex("0x" + "ab" * 32) == b"\xab" * 32
    with pytest.raises(HexError, match="expected 20 bytes of hex, got 32"):
        hexes.address_from_hex("0x" + "ab" * 32)


def test_error_lines_stay_short() -> None:
    with pytest.raises(HexError) as raised:
        hexes.from_hex("y" * 100_000)
    assert len(str(raised.value)) < 150
