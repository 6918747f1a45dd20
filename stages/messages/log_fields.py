"""The values of log fields: texts for people, and typed fields for programs that read JSON [LOG20]."""

import math
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Self

from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef

Scalar = str | int | float | bool | None


class TypedText(str):
    """A text for people, with the fields that JSON has in its place."""

    __slots__ = ("fields",)
    fields: dict[str, Scalar]

    def __new__(cls, text: str, /, **fields: Scalar) -> Self:
        """Return the text with these fields."""
        result = super().__new__(cls, text)
        result.fields = fields
        return result


FieldValue = Scalar | TypedText | bytes | BaseException | PurePath | BlockId | L1BlockRef | L2BlockRef
"""What the value of a field may be: neither lists nor objects, so that JSON lines are flat."""

Fields = Mapping[str, FieldValue]


def seconds(name: str, value: float) -> dict[str, TypedText]:
    """Return a length of time as the field `name`, in JSON `<name>_s`."""
    return {name: TypedText(duration(value), **{f"{name}_s": round(value, 1)})}


def megabytes(name: str, size: int) -> dict[str, TypedText]:
    """Return a size as the field `name`, in JSON `<name>_bytes`."""
    return {name: TypedText(f"{size / 1e6:.0f} MB", **{f"{name}_bytes": size})}


def json_fields(fields: Fields) -> Iterator[tuple[str, Scalar]]:
    """Yield the fields as JSON has them: a block is its number and its hash, NaN and infinity are null."""
    for key, value in fields.items():
        if isinstance(value, TypedText):
            yield from value.fields.items()
        elif isinstance(value, BlockId | L1BlockRef | L2BlockRef):
            name = key if key.endswith("block") else f"{key}_block"
            yield name, value.number
            yield f"{key}_hash", f"0x{value.hash.hex()}"
        elif isinstance(value, float):
            yield key, value if math.isfinite(value) else None
        else:
            yield key, value if value is None or isinstance(value, str | int) else plain_text(value)


def plain_text(value: FieldValue) -> str:
    """Return a value as text; one of another type, which only a bug can be, as Python shows it."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"0x{value.hex()}"
    if isinstance(value, BaseException):
        return str(value) or type(value).__name__
    return "null" if value is None else str(value)
