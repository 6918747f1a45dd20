"""What faults do to JSON."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.tools.faults.damage import damaged
from rollup_node.tools.faults.scenario import Action, Fault, Role

RESULT = {"hash": "0x1a", "transactions": [{"to": "0x01"}, {"to": "0x02"}], "number": 7, "none": None, "yes": True}


def after(action: Action, path: str = "", **fields: Any) -> Any:
    """Return the result after a fault."""
    response = {"jsonrpc": "2.0", "id": 1, "result": RESULT}
    result = damaged(response, Fault(Role.L1, action, path=path, **fields))
    assert response == {"jsonrpc": "2.0", "id": 1, "result": RESULT}, "what is damaged is a copy"
    return result["result"]


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


@given(JSON, st.sampled_from(Action), st.lists(st.sampled_from(["a", "b", "*", "0", "-1"]), max_size=3))
def test_any_value_can_be_damaged(value: Any, action: Action, path: list[str]) -> None:
    fault = Fault(Role.L1, action, path=".".join(path), value=1)
    assert isinstance(damaged({"id": 1, "result": value}, fault), dict)
