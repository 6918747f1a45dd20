"""What faults do to JSON and bytes."""

import random
from collections.abc import Callable
from typing import Any

from rollup_node.tools.faults.scenario import Action, Fault

Json = Any
PAGE = b"<!doctype html><html><head><title>502 Bad Gateway</title></head><body>upstream</body></html>"
GARBAGE_BYTES = 2000


def garbage(chance: random.Random) -> bytes:
    """Random bytes."""
    return chance.randbytes(GARBAGE_BYTES)


def damaged(response: Json, fault: Fault) -> Json:
    """Return a JSON-RPC response object, or the object of a REST response, after a fault of its result.

    Unchanged where there is nothing at the fault's path."""
    if not isinstance(response, dict):
        return response
    if fault.do is Action.ERROR:
        kept = {key: value for key, value in response.items() if key != "result"}
        return {**kept, "error": {"code": fault.code, "message": fault.message}}
    if fault.do is Action.WRONG_ID:
        return {**response, "id": 987_654_321}
    if fault.do is Action.BARE:
        return response.get("data", response)
    root = "result" if "result" in response else "data"
    if root not in response:
        return response
    if fault.do is Action.RESULT:
        return {**response, root: fault.value}
    path = [root, *(fault.path.split(".") if fault.path else [])]
    return _at(response, path, _CHANGES[fault.do](fault)) if fault.do in _CHANGES else response


def damaged_batch(responses: list[Json], fault: Fault) -> list[Json]:
    """Return a batch of responses after a fault.

    One of its order or length if the fault names no path, else of each."""
    if not fault.path and fault.do is Action.REVERSE:
        return responses[::-1]
    if not fault.path and fault.do is Action.SHORT:
        return responses[:-1]
    return [damaged(response, fault) for response in responses]


class _Removed:
    pass


_REMOVED = _Removed()


def _at(value: Json, path: list[str], change: Callable[[Json], Json]) -> Json:
    """Return a copy of the value with another one at the path."""
    if not path:
        return change(value)
    head, rest = path[0], path[1:]
    if isinstance(value, dict) and head in value:
        return _with(value, head, _at(value[head], rest, change))
    if isinstance(value, list) and head == "*":
        items = [_at(item, rest, change) for item in value]
        return [item for item in items if item is not _REMOVED]
    if isinstance(value, list) and head.lstrip("-").isdigit() and -len(value) <= int(head) < len(value):
        index = int(head) % len(value)
        item = _at(value[index], rest, change)
        return [*value[:index], *([] if item is _REMOVED else [item]), *value[index + 1 :]]
    return value


def _with(value: dict[str, Json], key: str, item: Json) -> dict[str, Json]:
    if item is _REMOVED:
        return {name: item for name, item in value.items() if name != key}
    return {**value, key: item}


def _retyped(value: Json) -> Json:
    """Return a value of another type that is as plausible as can be."""
    if isinstance(value, str):
        return int(value, 16) if value.startswith("0x") and 2 < len(value) < 18 else [value]
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return {str(index): item for index, item in enumerate(value)}
    if isinstance(value, dict):
        return list(value.items())
    return {}


def _flipped(value: Json) -> Json:
    if not isinstance(value, str) or not value.startswith("0x") or len(value) < 3:
        return value
    return value[:-1] + ("0" if value[-1] == "1" else "1")


def _list_change(change: Callable[[list[Json]], list[Json]]) -> Callable[[Json], Json]:
    return lambda value: change(value) if isinstance(value, list) else value


_CHANGES: dict[Action, Callable[[Fault], Callable[[Json], Json]]] = {
    Action.EDIT: lambda fault: lambda _: fault.value,
    Action.REMOVE: lambda _: lambda _: _REMOVED,
    Action.RETYPE: lambda _: _retyped,
    Action.FLIP: lambda _: _flipped,
    Action.DOUBLE: lambda _: _list_change(lambda items: items + items),
    Action.REVERSE: lambda _: _list_change(lambda items: items[::-1]),
    Action.SHORT: lambda _: _list_change(lambda items: items[:-1]),
}
