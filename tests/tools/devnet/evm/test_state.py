"""The journaled state: reverts, roots, proofs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.tools.devnet.evm.state import State, StateDatabase, number

A, B = b"\xaa" * 20, b"\xbb" * 20
Change = tuple[object, ...]
accounts = st.sampled_from([A, B, b"\xcc" * 20])
slots = st.integers(0, 3)
changes = st.one_of(
    st.tuples(st.just("add_balance"), accounts, st.integers(0, 9)),
    st.tuples(st.just("set_nonce"), accounts, st.integers(0, 2)),
    st.tuples(st.just("set_code"), accounts, st.binary(max_size=2)),
    st.tuples(st.just("set_storage"), accounts, slots, st.integers(0, 3)),
    st.tuples(st.just("set_transient"), accounts, slots, st.integers(0, 3)),
    st.tuples(st.just("warm_up"), accounts),
    st.tuples(st.just("mark_created"), accounts),
)


def apply(state: State, change: Change) -> None:
    getattr(state, str(change[0]))(*change[1:])


def view(state: State) -> object:
    everyone = (A, B, b"\xcc" * 20)
    slots = [(a, slot) for a in everyone for slot in range(4)]
    return (
        [(state.balance(a), state.nonce(a), state.code(a), state.is_created(a)) for a in everyone],
        [(state.storage(*slot), state.original_storage(*slot), state.transient(*slot)) for slot in slots],
    )


@given(st.lists(changes, max_size=10), st.lists(changes, max_size=10), st.lists(changes, max_size=6))
def test_a_revert_undoes_all_changes(first: list[Change], second: list[Change], third: list[Change]) -> None:
    state, plain = State(StateDatabase()), State(StateDatabase())
    for one in (state, plain):
        one.begin_transaction()
        for change in first:
            apply(one, change)
    before = view(state)
    snapshot = state.snapshot()
    for change in second:
        apply(state, change)
    state.revert(snapshot)
    assert view(state) == before
    for one in (state, plain):
        for change in third:
            apply(one, change)
    assert state.commit() == plain.commit()


@given(st.lists(changes, max_size=15))
def test_commits_in_between_give_the_same_root(history: list[Change]) -> None:
    store = StateDatabase()
    whole, root = State(store), EMPTY_ROOT
    for change in [*(("add_balance", account, 1) for account in (A, B, b"\xcc" * 20)), *history]:
        apply(whole, change)
        step = State(store, root)
        apply(step, change)
        root = step.commit()
    assert whole.commit() == root


def test_a_selfdestructed_account_loses_its_storage() -> None:
    store = StateDatabase()
    state = State(store)
    state.set_storage(A, 1, 2)
    state.add_balance(A, 5)
    other = State(store, state.commit())
    other.begin_transaction()
    other.mark_destroyed(A)
    other.end_transaction()
    other.begin_transaction()
    assert not other.is_alive(A) and other.storage(A, 1) == 0
    other.add_balance(A, 1)
    again = State(store, other.commit())
    assert again.storage_root(A) == EMPTY_ROOT and again.balance(A) == 1


def test_touched_empty_accounts_are_removed_except_in_a_genesis() -> None:
    store = StateDatabase()
    state = State(store)
    state.set_nonce(A, 0)
    assert State(store).commit() == EMPTY_ROOT
    kept = state.commit(keep_empty=True)
    assert kept != EMPTY_ROOT
    touched = State(store, kept)
    touched.add_balance(A, 0)
    assert touched.commit() == EMPTY_ROOT


def test_changes_since_the_last_commit() -> None:
    state = State(StateDatabase())
    state.add_balance(B, 7)
    state.set_storage(B, 5, 6)
    state.commit()
    assert list(state.changes()) == []
    state.set_storage(B, 5, 0)
    state.set_storage(B, 4, 1)
    state.set_code(A, b"\x01")
    state.storage(b"\xcc" * 20, 1)
    first, second = state.changes()
    assert (first.address, first.code, first.slots) == (A, b"\x01", {})
    assert (second.address, second.code, second.slots) == (B, b"", {4: 1, 5: 0})
    assert second.account is not None and second.account.balance == 7


@pytest.mark.parametrize(("value", "expected"), [(None, 0), ("0x10", 16), ("10", 10), (7, 7)])
def test_numbers(value: Any, expected: int) -> None:
    assert number(value) == expected


@pytest.mark.parametrize("value", ["ten", "0x", 1.5, True, []])
def test_values_that_are_no_numbers(value: Any) -> None:
    with pytest.raises(ValueError, match="expected a number"):
        number(value)
