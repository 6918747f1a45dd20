"""Unsigned varints: seven bits a byte, lowest first. libp2p allows nine bytes (63 bits) and only the shortest form;
protobuf allows ten bytes and padding."""

MAX_BYTES = 9
_MAX_PROTOBUF_BYTES = 10


class VarintError(ValueError):
    """Too long, or not in its shortest form."""


def encode(number: int) -> bytes:
    """The shortest form of a number from 0 to 2^64 - 1."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decode(data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[int, int] | None:
    """The number at `offset` and the offset after it; None while bytes are missing; VarintError for a form that
    libp2p refuses."""
    found = _decode(data, offset, MAX_BYTES)
    if found is not None and found[1] - offset > 1 and data[found[1] - 1] == 0:
        raise VarintError("varint is longer than it needs to be")
    return found


def decode_protobuf(data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[int, int] | None:
    """The same by protobuf's rule: up to ten bytes, cut to 64 bits."""
    found = _decode(data, offset, _MAX_PROTOBUF_BYTES)
    return None if found is None else (found[0] & 0xFFFF_FFFF_FFFF_FFFF, found[1])


def _decode(data: bytes | bytearray | memoryview, offset: int, longest: int) -> tuple[int, int] | None:
    number = shift = 0
    for index in range(offset, min(len(data), offset + longest)):
        byte = data[index]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, index + 1
        shift += 7
    if len(data) - offset >= longest:
        raise VarintError(f"varint has more than {longest} bytes")
    return None
