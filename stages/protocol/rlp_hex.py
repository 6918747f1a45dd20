"""RLP in hex digits, made of the hex strings of JSON-RPC: the digits of many items are joined, then converted at once.

Texts are not checked where they are joined: the first two characters of bytes are skipped, and unhexlify refuses what
are no digits. It takes half the time of bytes.fromhex, which skips blanks."""

from collections.abc import Callable
from functools import lru_cache

EMPTY, EMPTY_LIST = "80", "c0"
_ADDRESS_TEXT, _HASH_TEXT = 42, 66
_SHORT_TEXT, _MOST = 20, 4096


@lru_cache(4096)
def string_header(size: int) -> str:
    """Return the digits of the header of a string of so many bytes that is not a single byte below 0x80."""
    return _header(0x80, size)


@lru_cache(4096)
def list_header(size: int) -> str:
    """Return the digits of the header of a list whose encoded items have `size` bytes."""
    return _header(0xC0, size)


def _header(kind: int, size: int) -> str:
    if size < 56:
        return f"{kind + size:02x}"
    width = (size.bit_length() + 7) >> 3
    return f"{kind + 55 + width:02x}{size:0{2 * width}x}"


def wrap_list(digits: str) -> str:
    """Return a list of the joined encodings of its items."""
    return list_header(len(digits) >> 1) + digits


def data(text: str) -> str:
    """Return the encoding of bytes. Raises ValueError for half a byte."""
    size = len(text)
    if size == _ADDRESS_TEXT:
        return "94" + text[2:]
    if size & 1:
        raise ValueError("an odd number of hex digits")
    digits = text[2:]
    # One byte below 0x80 is its own encoding.
    return digits if len(digits) == 2 and digits < "80" else string_header(len(digits) >> 1) + digits


def hashes(texts: list[str]) -> str:
    """Return a list of hashes. Raises ValueError for half a byte."""
    return wrap_list("".join(["a0" + text[2:] if len(text) == _HASH_TEXT else _other_hash(text) for text in texts]))


def _other_hash(text: str) -> str:
    if len(text) & 1:
        raise ValueError("an odd number of hex digits")
    return "a0" + text[2:]


class _Numbers(dict[str, str]):
    """The encodings of short quantities: those of a block's fees, gas limits and types are often the same."""

    def __missing__(self, text: str) -> str:
        if text[:2] not in ("0x", "0X"):
            raise ValueError("a quantity without 0x")
        if len(text) == _HASH_TEXT and text[2:4] != "00":
            return "a0" + text[2:]
        digits = text[2:]
        if len(digits) & 1:
            digits = "0" + digits
        # Some servers send quantities with leading zeros; RLP has none.
        if digits[:2] == "00":
            digits = digits.lstrip("0")
            digits = "0" * (len(digits) & 1) + digits
        result = digits if len(digits) == 2 and digits < "80" else string_header(len(digits) >> 1) + digits
        if len(text) <= _SHORT_TEXT:
            if len(self) >= _MOST:
                self.clear()
            self[text] = result
        return result


number: Callable[[str], str] = _Numbers().__getitem__
"""Return the encoding of a quantity. Raises ValueError for one without 0x."""
