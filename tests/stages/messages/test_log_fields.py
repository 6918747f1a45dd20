"""Values of log fields, for people and as JSON has them [LOG20]."""

from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.log_fields import TypedText, json_fields, megabytes, plain_text, seconds
from rollup_node.stages.protocol.types import BlockId, L1BlockRef

HASH = bytes(31) + b"\x07"
HEX = "0x" + HASH.hex()


@pytest.mark.parametrize(
    ("fields", "text", "typed"),
    [
        (seconds("waited", 83.26), "1m23s", {"waited_s": 83.3}),
        (megabytes("left", 9_000_001), "9 MB", {"left_bytes": 9_000_001}),
        ({"safe": TypedText("5 of 9", safe_block=5, target_block=9)}, "5 of 9", {"safe_block": 5, "target_block": 9}),
        ({"l1_block": L1BlockRef(HASH, 7, HASH, 12)}, "7:0x0000000000", {"l1_block": 7, "l1_block_hash": HEX}),
        ({"safe": BlockId(7, HASH)}, "7:0x0000000000", {"safe_block": 7, "safe_hash": HEX}),
        ({"yes": True}, "True", {"yes": True}),
        ({"none": None}, "null", {"none": None}),
        ({"rate": 0.5}, "0.5", {"rate": 0.5}),
        ({"rate": float("inf")}, "inf", {"rate": None}),
        ({"hash": b"\x01"}, "0x01", {"hash": "0x01"}),
        ({"error": KeyError()}, "KeyError", {"error": "KeyError"}),
        ({"path": Path("/a b")}, "/a b", {"path": "/a b"}),
        ({"at": ("1", ["2"])}, "('1', ['2'])", {"at": "('1', ['2'])"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_field_is_a_text_for_people_and_flat_in_json(fields: dict[str, Any], text: str, typed: object) -> None:
    assert [plain_text(value) for value in fields.values()] == [text]
    result = dict(json_fields(fields))
    assert result == typed
    assert all(type(value) in (str, int, float, bool, type(None)) for value in result.values())


def test_the_type_checker_refuses_values_that_are_no_fields() -> None:
    """A comment that ignores no error is one for mypy, which checks each log call of the product so."""
    for value in ([1], (1, "a"), {"a": 1}):
        Logger("l1").trace("not written", value=value)  # type: ignore[arg-type]
