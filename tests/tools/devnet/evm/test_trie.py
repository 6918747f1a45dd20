"""The incremental trie compared with a trie built from its definition; proofs and deletions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, verify_proof
from rollup_node.tools.devnet.evm.trie import MissingNode, Trie, TrieNodeStore, hex_prefix, nibbles

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
