"""The accounts of a genesis file as a state."""

from typing import Any

import pytest

from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.tools.devnet.evm.genesis import GenesisError, data, load_alloc, number
from rollup_node.tools.devnet.evm.state import State, StateDatabase

A = b"\x12".rjust(20, b"\0")


def test_an_account_with_code_and_storage() -> None:
    store = StateDatabase()
    entry = {"balance": "0x7", "nonce": 3, "code": "0x6001", "storage": {"0x1": "0xff", "02": "00"}}
    root = load_alloc(store, {"0x12": entry})
    state = State(store, root)
    assert (state.balance(A), state.nonce(A), state.code(A)) == (7, 3, b"\x60\x01")
    assert (state.storage(A, 1), state.storage(A, 2)) == (255, 0)


def test_empty_accounts_are_kept() -> None:
    assert load_alloc(StateDatabase(), {"0x12": {"balance": "0x0"}}) != EMPTY_ROOT
    assert load_alloc(StateDatabase(), {}) == EMPTY_ROOT


@pytest.mark.parametrize(("value", "expected"), [(None, 0), ("0x10", 16), ("10", 10), (7, 7)])
def test_numbers(value: Any, expected: int) -> None:
    assert number(value) == expected


@pytest.mark.parametrize("value", ["ten", "0x", 1.5, True, []])
def test_values_that_are_no_numbers(value: Any) -> None:
    with pytest.raises(ValueError, match="expected a number"):
        number(value)


def test_bytes() -> None:
    assert (data(None), data("0x01"), data("01")) == (b"", b"\x01", b"\x01")
    with pytest.raises(ValueError, match="expected bytes in hex"):
        data("0x1")


@pytest.mark.parametrize("entry", [5, {"balance": "lots"}, {"code": "zz"}, {"storage": {"0x1": "x"}}, {"storage": 3}])
def test_an_invalid_account_is_named(entry: Any) -> None:
    with pytest.raises(GenesisError, match="alloc: account 0x12: "):
        load_alloc(StateDatabase(), {"0x12": entry})
