"""Base58 with Bitcoin's alphabet, the text form of peer ids."""

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}


def encode(data: bytes) -> str:
    """Encode bytes as base58; each leading zero byte becomes a `1`."""
    number = int.from_bytes(data, "big")
    digits = []
    while number:
        number, value = divmod(number, 58)
        digits.append(_ALPHABET[value])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(digits))


def decode(text: str) -> bytes:
    """Decode a base58 text. Raises ValueError when a character is not in the alphabet."""
    number = 0
    for character in text:
        if character not in _VALUES:
            raise ValueError(f"{character!r} is not a base58 character")
        number = number * 58 + _VALUES[character]
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")
