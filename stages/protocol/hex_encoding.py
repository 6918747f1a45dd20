"""Hex strings of JSON-RPC: 0x-prefixed bytes, and quantities (numbers in their shortest form)."""

from binascii import unhexlify
from typing import Any


class HexError(ValueError):
    """The value is not the hex string it has to be."""


def to_hex(data: bytes) -> str:
    """Bytes as a 0x-prefixed string."""
    return "0x" + data.hex()


def from_hex(text: Any) -> bytes:
    """Return the bytes of a 0x-prefixed string. Raises HexError for any other value."""
    if not isinstance(text, str) or text[:2] != "0x":
        raise HexError(f"expected 0x-prefixed hex, got {short_repr(text)}")
    try:
        return unhexlify(text[2:])
    except ValueError:
        raise HexError(f"not hex digits, two a byte: {short_repr(text)}") from None


def from_hex_sized(text: Any, size: int) -> bytes:
    """As `from_hex`, for exactly `size` bytes."""
    data = from_hex(text)
    if len(data) != size:
        raise HexError(f"expected {size} bytes of hex, got {len(data)}: {short_repr(text)}")
    return data


def hash_from_hex(text: Any) -> bytes:
    """As `from_hex`, for a hash of 32 bytes."""
    return from_hex_sized(text, 32)


def address_from_hex(text: Any) -> bytes:
    """As `from_hex`, for an address of 20 bytes; a checksum in its letter case is not checked."""
    return from_hex_sized(text, 20)


def from_quantity(text: Any, bits: int = 64) -> int:
    """Return a quantity of at most `bits` bits; leading zeros are common, and accepted. Raises HexError."""
    if not isinstance(text, str) or text[:2] != "0x" or not 3 <= len(text) <= 66:
        raise HexError(f"expected a hex quantity, got {short_repr(text)}")
    digits = text[2:]
    # int() takes signs, underscores, blanks and digits of other scripts.
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
    """Return a value for an error text, at most 80 characters long."""
    text = repr(value) if isinstance(value, str | int | None) else type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."
