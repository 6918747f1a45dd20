"""Trie roots and proofs against a simple trie built by the definition."""

import contextlib
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.protocol import mpt, rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_CODE_HASH, EMPTY_ROOT, Account, ProofError


class SimpleTrie:
    """A trie from a dictionary, by the definition; `nodes` are those of 32 bytes and more, and the root."""

    def __init__(self, content: dict[bytes, bytes]) -> None:
        self.nodes: dict[bytes, bytes] = {}
        pairs = {tuple(int(nibble, 16) for nibble in key.hex()): value for key, value in content.items()}
        encoded = rlp.encode(self._build(pairs))
        self.root = keccak256(encoded)
        self.nodes[self.root] = encoded

    def _build(self, pairs: dict[tuple[int, ...], bytes]) -> Any:
        if not pairs:
            return b""
        if len(pairs) == 1:
            ((path, value),) = pairs.items()
            return [self._packed(path, 2), value]
        shared = 0
        paths = list(pairs)
        while all(len(path) > shared and path[shared] == paths[0][shared] for path in paths):
            shared += 1
        if shared:
            rest = {path[shared:]: value for path, value in pairs.items()}
            return [self._packed(paths[0][:shared], 0), self._reference(self._build(rest))]
        below: list[dict[tuple[int, ...], bytes]] = [{} for _ in range(16)]
        for path, value in pairs.items():
            if path:
                below[path[0]][path[1:]] = value
        return [*(self._reference(self._build(item)) for item in below), pairs.get((), b"")]

    def _reference(self, node: Any) -> Any:
        encoded = rlp.encode(node)
        if len(encoded) < 32:
            return node
        self.nodes[keccak256(encoded)] = encoded
        return keccak256(encoded)

    @staticmethod
    def _packed(path: tuple[int, ...], flag: int) -> bytes:
        nibbles = (flag + 1, *path) if len(path) % 2 else (flag, 0, *path)
        return bytes(high << 4 | low for high, low in zip(nibbles[::2], nibbles[1::2], strict=True))


def values(count: int, seed: int = 1) -> list[bytes]:
    source = random.Random(seed)
    return [source.randbytes(source.choice([1, 3, 27, 29, 31, 33, 60, 200])) for _ in range(count)]


@pytest.mark.parametrize("count", [*range(1, 36), 55, 56, 126, 127, 128, 129, 130, 143, 255, 256, 257, 300, 1000])
def test_ordered_roots(count: int) -> None:
    items = values(count)
    content = {rlp.encode_int(index): item for index, item in enumerate(items)}
    assert mpt.ordered_root(items) == SimpleTrie(content).root


def test_ordered_root_past_two_byte_indexes() -> None:
    """The root is that of SimpleTrie, which takes a second."""
    items = [index.to_bytes(4, "big") for index in range(65_536 + 20)]
    assert mpt.ordered_root(items).hex() == "55a973c3d07fc233800e16a142692afc47d3f2982e4fd666527b5485292dbd82"


def test_the_empty_root() -> None:
    assert mpt.ordered_root([]) == mpt.ordered_root(()) == EMPTY_ROOT == keccak256(b"\x80")
    assert keccak256(b"") == EMPTY_CODE_HASH


KEYS = st.binary(min_size=2, max_size=2) | st.sampled_from([b"\x11\x11", b"\x11\x12", b"\x11\x21", b"\x12\x11"])


@settings(max_examples=50)
@given(st.dictionaries(KEYS, st.binary(min_size=1, max_size=40), min_size=1, max_size=14), KEYS)
def test_proofs_prove_presence_and_absence(content: dict[bytes, bytes], other: bytes) -> None:
    trie = SimpleTrie(content)
    for key in (*content, other):
        assert mpt.verify_proof(trie.root, key, trie.nodes.values()) == content.get(key)


@settings(max_examples=50)
@given(st.dictionaries(KEYS, st.binary(min_size=33, max_size=40), min_size=2, max_size=14), st.data())
def test_a_missing_or_changed_node_never_proves_another_value(content: dict[bytes, bytes], data: Any) -> None:
    trie = SimpleTrie(content)
    key = data.draw(st.sampled_from(sorted(content)))
    dropped = data.draw(st.sampled_from(sorted(trie.nodes)))
    nodes = [node for digest, node in trie.nodes.items() if digest != dropped]
    changed = bytearray(trie.nodes[dropped])
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1
    with contextlib.suppress(ProofError):
        assert mpt.verify_proof(trie.root, key, [*nodes, bytes(changed)]) == content[key]


def test_accounts_and_slots() -> None:
    slots = {keccak256(slot.to_bytes(32, "big")): rlp.encode_int(slot * 1000) for slot in range(1, 40)}
    storage = SimpleTrie(slots)
    account = rlp.encode([b"\x05", (10**18).to_bytes(8, "big"), storage.root, EMPTY_CODE_HASH])
    addresses = [bytes([place]) * 20 for place in range(30)]
    state = SimpleTrie({keccak256(address): account for address in addresses})
    result = mpt.verify_account(state.root, addresses[3], state.nodes.values())
    assert result == Account(5, 10**18, storage.root, EMPTY_CODE_HASH)
    assert mpt.verify_account(state.root, b"\xff" * 20, state.nodes.values()) is None
    for slot in range(1, 45):
        expected = slot * 1000 if slot < 40 else 0
        assert mpt.verify_storage(storage.root, slot.to_bytes(32, "big"), storage.nodes.values()) == expected
    assert mpt.verify_storage(EMPTY_ROOT, bytes(32), []) == 0


@pytest.mark.parametrize("leaf", [b"\x05", rlp.encode([b"\x05"]), rlp.encode([b"", b"", b"\x01" * 31, b"\x01" * 32])])
def test_malformed_accounts_are_proof_errors(leaf: bytes) -> None:
    state = SimpleTrie({keccak256(bytes(20)): leaf})
    with pytest.raises(ProofError, match="malformed"):
        mpt.verify_account(state.root, bytes(20), state.nodes.values())
