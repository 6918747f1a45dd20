"""The journaled state: reverts, roots, proofs."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.tools.devnet.evm.state import State, StateDatabase

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
