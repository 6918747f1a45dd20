"""State, its trie, and transactions."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, verify_proof
from rollup_node.stages.protocol.transactions import encode_transaction, signing_hash
from rollup_node.tools.batcher.driver import Key
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.transactions import MalformedTransaction, read_signed, read_transaction
from rollup_node.tools.devnet.evm.trie import MissingNode, Trie, TrieNodeStore, hex_prefix, nibbles
from tests.support.chains.signed_transactions import unsigned_transaction

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


prefixes = st.sampled_from([b"", b"\x12\x34", b"\x12\x35", b"\x56"])
keys = st.tuples(prefixes, st.one_of(st.binary(min_size=1, max_size=3), st.sampled_from([b"\0", b"\1", b"\x10"]))).map(
    b"".join
)
values = st.one_of(st.binary(max_size=40), st.just(b""))


def root_of(entries: dict[bytes, bytes]) -> bytes:
    """Return the root of a trie by its definition."""

    def node(pairs: list[tuple[bytes, bytes]]) -> rlp.Item:
        if not pairs:
            return b""
        if len(pairs) == 1:
            return [hex_prefix(pairs[0][0], leaf=True), pairs[0][1]]
        first, last = min(pairs)[0], max(pairs)[0]
        shared = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
        if shared:
            return [hex_prefix(first[:shared], leaf=False), reference([(p[shared:], v) for p, v in pairs])]
        children = [reference([(p[1:], v) for p, v in pairs if p and p[0] == digit]) for digit in range(16)]
        return [*children, next((v for p, v in pairs if not p), b"")]

    def reference(pairs: list[tuple[bytes, bytes]]) -> rlp.Item:
        item = node(pairs)
        encoded = rlp.encode(item)
        return item if len(encoded) < 32 else keccak256(encoded)

    top = node([(nibbles(key), value) for key, value in entries.items()])
    return keccak256(rlp.encode(top)) if entries else EMPTY_ROOT


@given(st.lists(st.tuples(keys, values), max_size=40), st.integers(1, 7))
def test_any_sequence_of_changes_gives_the_root_of_its_result(history: list[tuple[bytes, bytes]], pace: int) -> None:
    store = TrieNodeStore()
    trie, entries, roots = Trie(store), dict[bytes, bytes](), []
    for step, (key, value) in enumerate(history):
        trie.set(key, value)
        if value:
            entries[key] = value
        else:
            entries.pop(key, None)
        if step % pace == 0:
            roots.append((trie.commit(), dict(entries)))
    roots.append((trie.commit(), entries))
    for root, expected in roots:
        assert root == root_of(expected)
        old = Trie(TrieNodeStore(store.nodes), root)
        assert all(old.get(key) == expected.get(key) for key, _ in history)
        for key, _ in history:
            assert verify_proof(root, key, old.prove(key)) == expected.get(key)


def test_a_missing_node_is_named() -> None:
    store = TrieNodeStore()
    trie = Trie(store)
    for number in range(50):
        trie.set(keccak256(bytes([number])), b"x" * 40)
    root = trie.commit()
    with pytest.raises(MissingNode, match="0x" + root.hex()):
        Trie(TrieNodeStore(), root).get(keccak256(b"\0"))


KEY = Key(b"\x21" * 32)
CHAIN_ID = 901


def test_legacy_transactions_without_chain_id_fit_every_chain() -> None:
    unsigned = unsigned_transaction(0, None)
    parity, r, s = KEY.sign(signing_hash(unsigned))
    raw = encode_transaction(msgspec.structs.replace(unsigned, y_parity=parity, r=r, s=s))
    assert read_signed(raw, 5).sender == KEY.address


def test_bytes_that_are_no_transaction() -> None:
    for raw in (b"", b"\x7e\xc0"):
        with pytest.raises(MalformedTransaction):
            read_transaction(raw, CHAIN_ID)
