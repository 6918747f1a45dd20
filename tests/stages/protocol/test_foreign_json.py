"""JSON that endpoints send: types, bounds and texts."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol.foreign_json import MalformedJsonError, check_values, decode_json, shown_body
from rollup_node.stages.protocol.texts import MAX_ERROR_TEXT


class Point(msgspec.Struct):
    x: int


def test_values_of_a_type_and_of_none() -> None:
    assert decode_json(b'{"x":1,"unknown":[[]]}', Point, 10) == Point(1)
    assert decode_json(b'{"x":[1,"a",null]}', Any, 10) == {"x": [1, "a", None]}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"x":"1"}', "malformed: Expected `int`"),
        (b'{"y":1}', "malformed: Object missing required field"),
        (b"<html>\nno", "not JSON: <html> no"),
        (b'{"x":' + b"9" * 100_000 + b"}", "malformed|not JSON"),
        (b'{"y":' + b"[" * 100_000, "malformed|not JSON|values"),
    ],
)
def test_anything_else_is_one_error(data: bytes, text: str) -> None:
    with pytest.raises(MalformedJsonError, match=text) as caught:
        decode_json(data, Point, 1_000_000)
    assert len(str(caught.value)) < MAX_ERROR_TEXT + 100


def test_values_are_bounded() -> None:
    check_values(b"[" + b"1," * 9 + b"1]", 10)
    for data in (b"[" + b"1," * 10 + b"1]", b"[" * 11, b'{"a":' * 11):
        with pytest.raises(MalformedJsonError, match="11 values, more than 10"):
            check_values(data, 10)


def test_a_body_is_shown_as_one_line() -> None:
    assert shown_body(b"<html>\n\xff" + b"x" * 1000) == "<html> \ufffd" + "x" * 152
