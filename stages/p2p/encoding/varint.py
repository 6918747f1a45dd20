"""Unsigned varints: seven bits a byte, least significant group first.

multiformats allows nine bytes (63 bits) in minimal form only; protobuf allows ten bytes and non-minimal forms.
Source: https://github.com/multiformats/unsigned-varint"""

MAX_BYTES = 9
_MAX_PROTOBUF_BYTES = 10


class VarintError(ValueError):
    """The varint is too long, or not in its minimal form."""


def encode(number: int) -> bytes:
    """Encode a number from 0 to 2^64 - 1 in its minimal form."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decode(data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[int, int] | None:
    """Decode the number at `offset` and return it with the offset after it; None while bytes are missing."""
    result = _decode(data, offset, MAX_BYTES)
    if result is not None and result[1] - offset > 1 and data[result[1] - 1] == 0:
        raise VarintError("varint is not minimal")
    return result


def decode_protobuf(data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[int, int] | None:
    """Decode by protobuf's rules: up to ten bytes, truncated to 64 bits, non-minimal forms allowed."""
    result = _decode(data, offset, _MAX_PROTOBUF_BYTES)
    return None if result is None else (result[0] & 0xFFFF_FFFF_FFFF_FFFF, result[1])


def _decode(data: bytes | bytearray | memoryview, offset: int, max_bytes: int) -> tuple[int, int] | None:
    if offset < len(data) and (only := data[offset]) < 0x80:
        return only, offset + 1
    number = shift = 0
    for index in range(offset, min(len(data), offset + max_bytes)):
        byte = data[index]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, index + 1
        shift += 7
    if len(data) - offset >= max_bytes:
        raise VarintError(f"varint has more than {max_bytes} bytes")
    return None
