"""Hex text at the edges: 0x-prefixed byte strings, and quantities (shortest form, as JSON-RPC wants them)."""

from typing import Any


class HexError(ValueError):
    """The text is not the hex it must be."""


def to_hex(data: bytes) -> str:
    """Bytes as 0x text."""
    return "0x" + data.hex()


def from_hex(text: Any) -> bytes:
    """The bytes of a 0x text; raises HexError for anything else."""
    if not isinstance(text, str) or text[:2] != "0x":
        raise HexError(f"expected 0x-prefixed hex, got {short_repr(text)}")
    try:
        data = bytes.fromhex(text[2:])
    except ValueError:
        raise HexError(f"not hex digits, two a byte: {short_repr(text)}") from None
    if 2 * len(data) != len(text) - 2:
        raise HexError(f"not hex digits, two a byte: {short_repr(text)}")
    return data


def from_hex_sized(text: Any, size: int) -> bytes:
    """As `from_hex`, of exactly `size` bytes."""
    data = from_hex(text)
    if len(data) != size:
        raise HexError(f"expected {size} bytes of hex, got {len(data)}: {short_repr(text)}")
    return data


def hash_from_hex(text: Any) -> bytes:
    """A 32-byte hash."""
    return from_hex_sized(text, 32)


def address_from_hex(text: Any) -> bytes:
    """A 20-byte address, in any letter case."""
    return from_hex_sized(text, 20)


def to_quantity(number: int) -> str:
    """A number as the shortest hex text."""
    return hex(number)


def from_quantity(text: Any, bits: int = 64) -> int:
    """The number of a hex quantity of at most `bits` bits. Leading zeros are let pass, as many servers send them."""
    if not isinstance(text, str) or text[:2] != "0x" or not 3 <= len(text) <= 66:
        raise HexError(f"expected a hex quantity, got {short_repr(text)}")
    digits = text[2:]
    if not digits.isalnum() or not digits.isascii():
        raise HexError(f"expected a hex quantity, got {short_repr(text)}")
    try:
        number = int(digits, 16)
    except ValueError:
        raise HexError(f"expected a hex quantity, got {short_repr(text)}") from None
    if number >> bits:
        raise HexError(f"quantity has more than {bits} bits: {short_repr(text)}")
    return number


def short_repr(value: Any) -> str:
    """A value for an error line, cut to a bounded length."""
    text = repr(value) if isinstance(value, str | int | None) else type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."
