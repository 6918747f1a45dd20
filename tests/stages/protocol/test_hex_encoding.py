"""Hex strings: what is accepted, and that error texts are short."""

from typing import Any

import pytest

from rollup_node.stages.protocol import hex_encoding
from rollup_node.stages.protocol.hex_encoding import HexError


@pytest.mark.parametrize("text", ["", "00", "0x0", "0xzz", "0x 0", "0x0 0 ", "0x00 00", None, 5, b"0x00", ["0x00"]])
def test_malformed_byte_strings(text: Any) -> None:
    with pytest.raises(HexError):
        hex_encoding.from_hex(text)


@pytest.mark.parametrize(
    "text", ["", "0x", "1", "0x_1", "0x1_0", "0x-1", "0x+1", "0x 1", "0xg", "0x1" + "0" * 16, None, 5, "0x" + "0" * 65]
)
def test_malformed_quantities(text: Any) -> None:
    with pytest.raises(HexError):
        hex_encoding.from_quantity(text)


def test_sizes_are_checked() -> None:
    assert hex_encoding.address_from_hex("0x" + "Ab" * 20) == b"\xab" * 20
    assert hex_encoding.hash_from_hex("0x" + "ab" * 32) == b"\xab" * 32
    with pytest.raises(HexError, match="expected 20 bytes of hex, got 32"):
        hex_encoding.address_from_hex("0x" + "ab" * 32)


def test_error_texts_are_short() -> None:
    with pytest.raises(HexError) as raised:
        hex_encoding.from_hex("y" * 100_000)
    assert len(str(raised.value)) < 150
