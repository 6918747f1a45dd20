"""The data that a batcher encodes into a blob of 4,096 field elements, of which it uses 254 bits each [BL1 to BL8]."""

BLOB_SIZE = 131_072
MAX_DATA = 130_044
VERSION = 0

_ELEMENT = 32
_ROUND = 4 * _ELEMENT
_ROUND_DATA = 127
_FIRST_ROUND_DATA = 123
_TOP_BITS = bytes(byte & 0xC0 for byte in range(256))


class BlobDataError(ValueError):
    """The blob is not encoded by the rules; `rule` is the id of the violated one."""

    def __init__(self, rule: str, problem: str) -> None:
        super().__init__(f"{problem} [{rule}]")
        self.rule = rule


def decode_blob(blob: bytes) -> bytes:
    """Return the data of a blob of 131,072 bytes, at most 130,044 bytes. Raises BlobDataError."""
    if len(blob) != BLOB_SIZE:
        raise BlobDataError("BL", f"a blob of {len(blob)} bytes")
    if blob[1] != VERSION:
        raise BlobDataError("BL1", f"blob encoding version {blob[1]}")
    length = int.from_bytes(blob[2:5], "big")
    if length > MAX_DATA:
        raise BlobDataError("BL2", f"blob claims {length} bytes of data, at most {MAX_DATA} fit")
    # Round 0 is always decoded; it carries four bytes less, which hold version and length [BL4].
    rounds = 1 + max(0, -(-(length - _FIRST_ROUND_DATA) // _ROUND_DATA))
    used = blob[: rounds * _ROUND]
    _check_top_bits(used)
    data = _unpacked(used)
    if any(data[4 + length :]):
        raise BlobDataError("BL6", f"bytes behind the {length} bytes of data")
    if blob.count(0, len(used)) != BLOB_SIZE - len(used):
        raise BlobDataError("BL7", f"bytes in the unused elements behind {length} bytes of data")
    return data[4 : 4 + length]


def _check_top_bits(used: bytes) -> None:
    # Element 0 is exempt [BL3].
    heads = used[_ELEMENT::_ELEMENT].translate(_TOP_BITS)
    if any(heads):
        element = 1 + next(index for index, head in enumerate(heads) if head)
        raise BlobDataError("BL4", f"element {element} is not below 2^254")


def _unpacked(used: bytes) -> bytes:
    """Return the output of whole rounds [BL5].

    The first bytes of four elements hold six bits each, which form three bytes."""
    # The first bytes of all rounds at once, as four large numbers: 1,024 rounds cost six operations.
    a, b, c, d = (int.from_bytes(used[start::_ROUND], "big") for start in range(0, _ROUND, _ELEMENT))
    rounds = len(used) // _ROUND
    low, middle, nibble = (int.from_bytes(bytes((mask,)) * rounds, "big") for mask in (0x3F, 0x30, 0x0F))
    x = (a & low) | (b & middle) << 2
    y = (b & nibble) | (d & nibble) << 4
    z = (c & low) | (d & middle) << 2
    out = bytearray(used)
    for head, joined in enumerate((x, y, z), start=1):
        out[head * _ELEMENT :: _ROUND] = joined.to_bytes(rounds, "big")
    del out[::_ROUND]
    return bytes(out)
