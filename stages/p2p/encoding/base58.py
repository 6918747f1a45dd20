"""Base58 with Bitcoin's alphabet, in which peer ids are written."""

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}


def encode(data: bytes) -> str:
    """Bytes as base58; each leading zero byte is a `1`."""
    number = int.from_bytes(data, "big")
    letters = []
    while number:
        number, value = divmod(number, 58)
        letters.append(_ALPHABET[value])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(letters))


def decode(text: str) -> bytes:
    """The bytes of a base58 text; ValueError for another letter."""
    number = 0
    for letter in text:
        if letter not in _VALUES:
            raise ValueError(f"{letter!r} is not a base58 letter")
        number = number * 58 + _VALUES[letter]
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")
