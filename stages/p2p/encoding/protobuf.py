"""Protobuf wire format without a schema compiler: fields are written one by one and read into a table by field number.

Unknown fields are kept; the number of fields is bounded; groups are rejected.
Source: https://protobuf.dev/programming-guides/encoding/"""

from collections.abc import Iterator
from contextlib import suppress

from rollup_node.stages.p2p.encoding import varint

Buffer = bytes | bytearray | memoryview
MAX_FIELDS = 20_000
_VARINT, _FIXED64, _LENGTH, _GROUP, _FIXED32 = 0, 1, 2, 3, 5


class ProtobufError(ValueError):
    """Not a protobuf message, or a field has another wire type than expected."""


class GroupError(ProtobufError):
    """The message holds a group, the deprecated way to embed fields."""


def varint_field(field: int, value: int) -> bytes:
    """Encode a varint field (integer, bool or enum)."""
    return varint.encode(field << 3 | _VARINT) + varint.encode(value)


def bytes_field(field: int, value: bytes | str) -> bytes:
    """Encode a length-delimited field: bytes, text, or an embedded message."""
    raw = value.encode() if isinstance(value, str) else value
    return varint.encode(field << 3 | _LENGTH) + varint.encode(len(raw)) + raw


class Fields:
    """The fields by number; getters return the last value or None. They raise ProtobufError for another wire type."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[int, list[int | memoryview]]) -> None:
        self._values = values

    def __contains__(self, field: int) -> bool:
        return field in self._values

    def __len__(self) -> int:
        return sum(map(len, self._values.values()))

    def varint(self, field: int) -> int | None:
        value = self._last(field)
        if isinstance(value, memoryview):
            raise ProtobufError(f"field {field} is not a number")
        return value

    def bytes_value(self, field: int) -> bytes | None:
        value = self._last(field)
        if isinstance(value, int):
            raise ProtobufError(f"field {field} is not bytes")
        return None if value is None else value.tobytes()

    def repeated_views(self, field: int) -> Iterator[memoryview]:
        """All values of a repeated length-delimited field, without copying; embedded messages are parsed from these."""
        for value in self._values.get(field, ()):
            if isinstance(value, int):
                raise ProtobufError(f"field {field} is not bytes")
            yield value

    def repeated_bytes(self, field: int) -> list[bytes]:
        """All values of a repeated bytes field."""
        return [view.tobytes() for view in self.repeated_views(field)]

    def _last(self, field: int) -> int | memoryview | None:
        values = self._values.get(field)
        return values[-1] if values else None


def parse(message: Buffer, max_fields: int = MAX_FIELDS) -> Fields:
    """Parse a message, whose bytes the values view. Raises ProtobufError, also beyond `max_fields` fields."""
    view = memoryview(message)
    values: dict[int, list[int | memoryview]] = {}
    if _read(view, values, max_fields) < len(view):
        raise ProtobufError(f"more than {max_fields} fields")
    return Fields(values)


def parse_prefix(message: Buffer, max_fields: int) -> Fields:
    """Parse the first `max_fields` fields, or those before a group, and ignore the rest. Raises ProtobufError."""
    values: dict[int, list[int | memoryview]] = {}
    with suppress(GroupError):
        _read(memoryview(message), values, max_fields)
    return Fields(values)


def _read(view: memoryview, values: dict[int, list[int | memoryview]], max_fields: int) -> int:
    """Read at most `max_fields` fields and return the offset after them."""
    offset = count = 0
    while offset < len(view) and count < max_fields:
        count += 1
        key, offset = _varint(view, offset)
        value, offset = _value(view, offset, key & 7)
        if not 0 < key >> 3 < 1 << 29:
            raise ProtobufError(f"field number {key >> 3}")
        values.setdefault(key >> 3, []).append(value)
    return offset


def _value(view: memoryview, offset: int, wire_type: int) -> tuple[int | memoryview, int]:
    if wire_type == _VARINT:
        return _varint(view, offset)
    if wire_type == _LENGTH:
        length, offset = _varint(view, offset)
        return _take(view, offset, length), offset + length
    if wire_type == _FIXED64:
        return int.from_bytes(_take(view, offset, 8), "little"), offset + 8
    if wire_type == _FIXED32:
        return int.from_bytes(_take(view, offset, 4), "little"), offset + 4
    raise GroupError("group") if wire_type == _GROUP else ProtobufError(f"wire type {wire_type}")


def _take(view: memoryview, offset: int, length: int) -> memoryview:
    if length > len(view) - offset:
        raise ProtobufError("message ends within a field")
    return view[offset : offset + length]


def _varint(view: memoryview, offset: int) -> tuple[int, int]:
    try:
        protobuf = varint.decode_protobuf(view, offset)
    except varint.VarintError as error:
        raise ProtobufError(str(error)) from None
    if protobuf is None:
        raise ProtobufError("message ends within a number")
    return protobuf
