"""RLP, canonical encodings alone: `decode` returns byte strings and nested lists, `split` raw items of a list."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Item: TypeAlias = "bytes | Sequence[Item]"
# Nothing that a node reads nests deeper, and recursion on foreign bytes has to end.
MAX_DEPTH = 32
EMPTY_STRING = b"\x80"
EMPTY_LIST = b"\xc0"

_STRING_PREFIX = tuple(bytes((0x80 + size,)) for size in range(56))
_LIST_PREFIX = tuple(bytes((0xC0 + size,)) for size in range(56))
_SMALL_INT = (EMPTY_STRING, *(bytes((number,)) for number in range(1, 128)))


class RlpError(ValueError):
    """The bytes are not canonical RLP, or not of the expected form."""


def encode_bytes(data: bytes) -> bytes:
    size = len(data)
    if size < 56:
        return data if size == 1 and data[0] < 0x80 else _STRING_PREFIX[size] + data
    if size < 256:
        return b"\xb8" + size.to_bytes(1, "big") + data
    if size < 65536:
        return b"\xb9" + size.to_bytes(2, "big") + data
    width = (size.bit_length() + 7) >> 3
    return (0xB7 + width).to_bytes(1, "big") + size.to_bytes(width, "big") + data


def encode_int(number: int) -> bytes:
    """Return the encoding of a non-negative integer in its shortest form; 0 is the empty string."""
    if number < 0x80:
        return _SMALL_INT[number]
    if number < 0x100:
        return (0x8100 | number).to_bytes(2, "big")
    if number < 0x10000:
        return (0x820000 | number).to_bytes(3, "big")
    width = (number.bit_length() + 7) >> 3
    return _STRING_PREFIX[width] + number.to_bytes(width, "big")


def list_header(size: int) -> bytes:
    """Return the header of a list whose encoded items have `size` bytes."""
    if size < 56:
        return _LIST_PREFIX[size]
    if size < 0x100:
        return (0xF800 | size).to_bytes(2, "big")
    if size < 0x10000:
        return (0xF90000 | size).to_bytes(3, "big")
    width = (size.bit_length() + 7) >> 3
    return (0xF7 + width).to_bytes(1, "big") + size.to_bytes(width, "big")


def wrap_list(body: bytes) -> bytes:
    """Return the encoding of a list from the joined encodings of its items."""
    return list_header(len(body)) + body


def encode_list(encoded: Iterable[bytes]) -> bytes:
    return wrap_list(b"".join(encoded))


def encode(item: Item) -> bytes:
    """Return the encoding of a byte string or of a nested list of them."""
    if isinstance(item, bytes):
        return encode_bytes(item)
    return wrap_list(b"".join([encode_bytes(part) if type(part) is bytes else encode(part) for part in item]))


def decode(data: bytes) -> Any:
    """Return the item that fills `data`: bytes or a nested list. Raises RlpError."""
    is_list, start, stop = header(data, 0, len(data))
    if stop != len(data):
        raise RlpError(f"{len(data) - stop} bytes after the item")
    return _items(data, start, stop, MAX_DEPTH) if is_list else data[start:stop]


def decode_list(data: bytes, count: int | None = None) -> list[Any]:
    """As `decode`, for a list, of `count` items if given."""
    item = decode(data)
    if not isinstance(item, list):
        raise RlpError("expected a list, got a string")
    if count is not None and len(item) != count:
        raise RlpError(f"expected a list of {count} items, got {len(item)}")
    return item


def decode_int(data: Any, bits: int = 256) -> int:
    """Return the integer in a decoded string, without leading zeros and of at most `bits` bits. Raises RlpError."""
    if type(data) is not bytes:
        raise RlpError("expected an integer, got a list")
    if data and data[0] == 0:
        raise RlpError("integer with a leading zero")
    if len(data) << 3 > bits:
        raise RlpError(f"integer of more than {bits} bits")
    return int.from_bytes(data, "big")


def decode_sized(data: Any, size: int) -> bytes:
    """Return a decoded string, which must have exactly `size` bytes. Raises RlpError."""
    if type(data) is not bytes or len(data) != size:
        raise RlpError(f"expected {size} bytes, got {len(data) if type(data) is bytes else 'a list'}")
    return data


def header(data: bytes, at: int, end: int) -> tuple[bool, int, int]:
    """Return (is list, content start, content end) of the item at `at`, which must end by `end`. Raises RlpError."""
    if at >= end:
        raise RlpError("no bytes where an item must be")
    first = data[at]
    if first < 0x80:
        return False, at, at + 1
    is_list = first >= 0xC0
    size = first - (0xC0 if is_list else 0x80)
    start = at + 1
    if size > 55:
        width = size - 55
        start += width
        if start > end:
            raise RlpError("length cut off")
        size = int.from_bytes(data[at + 1 : start], "big")
        if size < 56 or data[at + 1] == 0:
            raise RlpError("length not in its shortest form")
    stop = start + size
    if stop > end:
        raise RlpError(f"item of {size} bytes cut off")
    if size == 1 and not is_list and data[start] < 0x80:
        raise RlpError("single byte not in its shortest form")
    return is_list, start, stop


def split(data: bytes, at: int = 0) -> list[bytes]:
    """Return the raw items of the list that fills `data` from `at` on, with checked headers. Raises RlpError."""
    start = header(data, at, len(data))[1]
    items: list[bytes] = []
    for end in item_ends(data, at):
        items.append(data[start:end])
        start = end
    return items


def item_ends(data: bytes, at: int = 0) -> list[int]:
    """Return the offsets at which the items of the list that fills `data` from `at` on end. Raises RlpError."""
    is_list, start, stop = header(data, at, len(data))
    if not is_list:
        raise RlpError("expected a list, got a string")
    if stop != len(data):
        raise RlpError(f"{len(data) - stop} bytes after the item")
    ends: list[int] = []
    while start < stop:
        first = data[start]
        if first < 0x80:
            start += 1
        # Short items, whose length is in the first byte. 0x81 is left to `header`: it may encode a single byte wrongly.
        elif 0x81 < first < 0xB8 or 0xC0 <= first < 0xF8:
            start += 1 + (first & 0x3F)
            if start > stop:
                raise RlpError("item cut off")
        else:
            start = header(data, start, stop)[2]
        ends.append(start)
    return ends


def _items(data: bytes, at: int, end: int, depth: int) -> list[Any]:
    """Return the items between two offsets, nesting `depth - 1` deep; short ones are decoded inline for speed."""
    items: list[Any] = []
    append = items.append
    while at < end:
        first = data[at]
        if first < 0x80:
            append(data[at : at + 1])
            at += 1
        elif first < 0xB8 and first != 0x81:
            stop = at + first - 0x7F
            if stop > end:
                raise RlpError("item cut off")
            append(data[at + 1 : stop])
            at = stop
        else:
            is_list, start, at = header(data, at, end)
            if not is_list:
                append(data[start:at])
            elif depth == 1:
                raise RlpError(f"lists nested deeper than {MAX_DEPTH}")
            else:
                append(_items(data, start, at, depth - 1))
    return items
