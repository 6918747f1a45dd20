"""What faults do to JSON."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.tools.faults.damage import _retyped, damaged, damaged_batch, garbage
from rollup_node.tools.faults.scenario import Action, Fault, Role

RESULT = {"hash": "0x1a", "transactions": [{"to": "0x01"}, {"to": "0x02"}], "number": 7, "none": None, "yes": True}


def after(action: Action, path: str = "", **fields: Any) -> Any:
    """The result after a fault."""
    response = {"jsonrpc": "2.0", "id": 1, "result": RESULT}
    found = damaged(response, Fault(Role.L1, action, path=path, **fields))
    assert response == {"jsonrpc": "2.0", "id": 1, "result": RESULT}, "what is damaged is a copy"
    return found["result"]


@pytest.mark.parametrize(
    ("action", "path", "expected"),
    [
        (Action.EDIT, "hash", {**RESULT, "hash": "new"}),
        (Action.EDIT, "transactions.1.to", {**RESULT, "transactions": [{"to": "0x01"}, {"to": "new"}]}),
        (Action.EDIT, "transactions.*.to", {**RESULT, "transactions": [{"to": "new"}, {"to": "new"}]}),
        (Action.EDIT, "", "new"),
        (Action.EDIT, "missing.path", RESULT),
        (Action.REMOVE, "transactions.0", {**RESULT, "transactions": [{"to": "0x02"}]}),
        (Action.REMOVE, "transactions.*", {**RESULT, "transactions": []}),
        (Action.REMOVE, "hash", {key: value for key, value in RESULT.items() if key != "hash"}),
        (Action.RETYPE, "hash", {**RESULT, "hash": 26}),
        (Action.RETYPE, "number", {**RESULT, "number": "7"}),
        (Action.RETYPE, "yes", {**RESULT, "yes": "True"}),
        (Action.RETYPE, "none", {**RESULT, "none": {}}),
        (Action.RETYPE, "transactions", {**RESULT, "transactions": {"0": {"to": "0x01"}, "1": {"to": "0x02"}}}),
        (Action.RETYPE, "transactions.0", {**RESULT, "transactions": [[("to", "0x01")], {"to": "0x02"}]}),
        (Action.RETYPE, "hash", {**RESULT, "hash": 0x1A}),
        (Action.FLIP, "hash", {**RESULT, "hash": "0x11"}),
        (Action.FLIP, "transactions.*.to", {**RESULT, "transactions": [{"to": "0x00"}, {"to": "0x01"}]}),
        (Action.FLIP, "number", RESULT),
        (Action.SHORT, "transactions", {**RESULT, "transactions": [{"to": "0x01"}]}),
        (Action.REVERSE, "transactions", {**RESULT, "transactions": [{"to": "0x02"}, {"to": "0x01"}]}),
        (Action.DOUBLE, "transactions", {**RESULT, "transactions": [{"to": "0x01"}, {"to": "0x02"}] * 2}),
        (Action.DOUBLE, "hash", RESULT),
        (Action.RESULT, "", "new"),
        (Action.DELAY, "hash", RESULT),
    ],
)
def test_what_is_at_a_path(action: Action, path: str, expected: Any) -> None:
    assert after(action, path, value="new") == expected


def test_a_response_without_its_envelope() -> None:
    fault = Fault(Role.BEACON, Action.BARE)
    assert damaged({"version": "gloas", "data": ["0x1"]}, fault) == ["0x1"]
    assert damaged({"code": 404, "message": "no"}, fault) == {"code": 404, "message": "no"}


def test_errors_ids_and_rest() -> None:
    response = {"jsonrpc": "2.0", "id": 1, "result": 5}
    error = damaged(response, Fault(Role.L1, Action.ERROR, code=-5, message="no"))
    assert error == {"jsonrpc": "2.0", "id": 1, "error": {"code": -5, "message": "no"}}
    assert damaged(response, Fault(Role.L1, Action.WRONG_ID))["id"] != 1
    assert damaged({"data": {"a": "1"}}, Fault(Role.BEACON, Action.EDIT, path="a", value="2")) == {"data": {"a": "2"}}
    assert damaged("text", Fault(Role.L1, Action.ERROR)) == "text"
    failed = {"id": 1, "error": {}}
    assert damaged(failed, Fault(Role.L1, Action.RESULT, value=1)) == failed


def test_batches() -> None:
    batch = [{"id": number, "result": [number, 0]} for number in range(3)]
    assert damaged_batch(batch, Fault(Role.L1, Action.REVERSE)) == batch[::-1]
    assert damaged_batch(batch, Fault(Role.L1, Action.SHORT)) == batch[:2]
    edited = damaged_batch(batch, Fault(Role.L1, Action.REVERSE, path="0"))
    assert edited == batch, "what is at the path is no list"
    assert [each["result"] for each in damaged_batch(batch, Fault(Role.L1, Action.RESULT, value=9))] == [9] * 3


def test_garbage_follows_from_the_seed() -> None:
    assert garbage(random.Random(1)) == garbage(random.Random(1)) != garbage(random.Random(2))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


@given(JSON, st.sampled_from(Action), st.lists(st.sampled_from(["a", "b", "*", "0", "-1"]), max_size=3))
def test_any_value_can_be_damaged(value: Any, action: Action, path: list[str]) -> None:
    fault = Fault(Role.L1, action, path=".".join(path), value=1)
    assert isinstance(damaged({"id": 1, "result": value}, fault), dict)


def test_an_empty_byte_string_gets_another_type_too() -> None:
    assert _retyped("0x") == ["0x"] and _retyped("0x10") == 16 and _retyped("text") == ["text"]
