"""JSON of endpoints that may send anything: decoded to a type, bounded in values; and their texts, fit to be shown."""

from typing import Any, Generic, TypeVar

import msgspec
import orjson

from rollup_node.stages.protocol.texts import one_line

T = TypeVar("T")

_SHOWN = 160


class MalformedJsonError(ValueError):
    """The text is not the JSON that it has to be; the message says why."""


class BeaconAnswer(msgspec.Struct, Generic[T]):
    """An answer of a Beacon API."""

    data: T


def decode_json(data: bytes, shape: Any, max_values: int, what: str = "the answer") -> Any:
    """Return a JSON text as a value of a type msgspec knows, Any for no type.

    Members of objects that a Struct does not name are skipped. Raises MalformedJsonError, also if the text has more
    values than `max_values`; `what` is its name in the error of a text of another type."""
    check_values(data, max_values)
    return decode_counted(data, shape, what)


def decode_counted(data: bytes | msgspec.Raw, shape: Any, what: str = "the answer") -> Any:
    """As `decode_json`, for a text whose values were counted with those of a larger one."""
    try:
        # Without a type orjson: msgspec would make integers of any length, in quadratic time.
        return orjson.loads(data) if shape is Any else msgspec.json.decode(data, type=shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MalformedJsonError(f"{what} is malformed: {one_line(str(error))}") from None
    except (msgspec.DecodeError, ValueError):
        raise MalformedJsonError(f"the answer is not JSON: {shown_body(bytes(data))}") from None


def check_values(data: bytes, max_values: int) -> None:
    """Raise MalformedJsonError if a JSON text may have more values than `max_values`."""
    if len(data) > max_values:
        values = data.count(b",") + data.count(b"[") + data.count(b"{")
        if values > max_values:
            raise MalformedJsonError(f"the answer has {values} values, more than {max_values}")


def shown_body(body: bytes) -> str:
    """Return the start of a body on one line."""
    return one_line(body[: 2 * _SHOWN].decode("utf-8", "replace"))[:_SHOWN]
