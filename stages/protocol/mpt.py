"""Merkle Patricia tries: the root of a list keyed by its indices, and the verification of proofs."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.rlp import RlpError, encode_bytes, encode_int, wrap_list
from rollup_node.stages.protocol.types import Address, Hash

EMPTY_ROOT: Hash = bytes.fromhex("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421")
EMPTY_CODE_HASH: Hash = bytes.fromhex("c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470")

_Pairs = list[tuple[str, bytes]]


class ProofError(ValueError):
    """A node of the proof is missing or malformed."""


class Account(NamedTuple):
    """An account in the state trie; `balance` in wei."""

    nonce: int
    balance: int
    storage_root: Hash
    code_hash: Hash


def ordered_root(values: Sequence[bytes], nodes: dict[Hash, bytes] | None = None) -> Hash:
    """Return the root of the trie that maps rlp(i) to `values[i]`, as for transactions, receipts and withdrawals.

    The encoded nodes that others name by their hash, and the root's, are added to `nodes` by it."""
    if not values:
        return EMPTY_ROOT
    count = len(values)
    order = (*range(1, min(count, 128)), 0, *range(128, count))  # of rlp(i): 0x80, the encoding of 0, follows 0x7f
    root = _node([(encode_int(index).hex(), values[index]) for index in order], 0, count, 0, nodes)
    digest = keccak256(root)
    if nodes is not None:
        nodes[digest] = root
    return digest


def _node(pairs: _Pairs, low: int, high: int, depth: int, nodes: dict[Hash, bytes] | None) -> bytes:
    """Return the encoded node of the sorted `pairs[low:high]`, whose keys agree in the first `depth` nibbles."""
    first = pairs[low][0]
    if high - low == 1:
        return wrap_list(_path(first[depth:], True) + encode_bytes(pairs[low][1]))
    last = pairs[high - 1][0]
    fork = depth
    while first[fork] == last[fork]:
        fork += 1
    if fork > depth:
        return wrap_list(_path(first[depth:fork], False) + _reference(_branch(pairs, low, high, fork, nodes), nodes))
    return _branch(pairs, low, high, depth, nodes)


def _branch(pairs: _Pairs, low: int, high: int, depth: int, nodes: dict[Hash, bytes] | None) -> bytes:
    """Return the encoded branch. No key of an index trie is a prefix of another, so a branch has no value."""
    children = [rlp.EMPTY_STRING] * 17
    while low < high:
        nibble = pairs[low][0][depth]
        after = low + 1
        while after < high and pairs[after][0][depth] == nibble:
            after += 1
        children[int(nibble, 16)] = _reference(_node(pairs, low, after, depth + 1, nodes), nodes)
        low = after
    return wrap_list(b"".join(children))


@lru_cache(1024)
def _path(nibbles: str, is_leaf: bool) -> bytes:
    """Return the hex-prefix encoding of a path, cached because an index trie has few different ones."""
    flag = 2 if is_leaf else 0
    return encode_bytes(bytes.fromhex(f"{flag + 1}{nibbles}" if len(nibbles) & 1 else f"{flag}0{nibbles}"))


def _reference(node: bytes, nodes: dict[Hash, bytes] | None) -> bytes:
    # A node shorter than a hash is embedded in its parent.
    if len(node) < 32:
        return node
    digest = keccak256(node)
    if nodes is not None:
        nodes[digest] = node
    return b"\xa0" + digest


def verify_proof(root: Hash, key: bytes, proof: Iterable[bytes]) -> bytes | None:
    """Return the value of `key`, or None if proven absent; `proof` holds its path in any order. Raises ProofError."""
    if root == EMPTY_ROOT:
        return None
    nodes = {keccak256(node): node for node in proof}
    path = key.hex()
    node: Any = _fetch(nodes, root)
    while True:
        if len(node) == 17:
            if not path:
                return bytes(node[16]) or None
            child, path = node[int(path[0], 16)], path[1:]
        else:
            nibbles, is_leaf = unpack_path(node[0])
            if is_leaf:
                return bytes(node[1]) if nibbles == path else None
            if not path.startswith(nibbles):
                return None
            child, path = node[1], path[len(nibbles) :]
        if child == b"":
            return None
        # A list is a node embedded in its parent, a string the hash of one.
        node = checked_node(child) if isinstance(child, list) else _fetch(nodes, child)


def verify_account(state_root: Hash, address: Address, proof: Iterable[bytes]) -> Account | None:
    """Return the account an `accountProof` of eth_getProof proves, or None if proven absent. Raises ProofError."""
    leaf = verify_proof(state_root, keccak256(address), proof)
    if leaf is None:
        return None
    try:
        nonce, balance, storage_root, code_hash = rlp.decode_list(leaf, 4)
        return Account(
            rlp.decode_int(nonce, 64),
            rlp.decode_int(balance),
            rlp.decode_sized(storage_root, 32),
            rlp.decode_sized(code_hash, 32),
        )
    except RlpError as error:
        raise ProofError(f"account in the proof is malformed: {error}") from None


def verify_storage(storage_root: Hash, slot: Hash, proof: Iterable[bytes]) -> int:
    """Return the slot's value that a `storageProof` entry of eth_getProof proves, 0 if empty. Raises ProofError."""
    leaf = verify_proof(storage_root, keccak256(slot), proof)
    if leaf is None:
        return 0
    try:
        return rlp.decode_int(rlp.decode(leaf))
    except RlpError as error:
        raise ProofError(f"storage value in the proof is malformed: {error}") from None


class StorageProof(msgspec.Struct):
    """The proof of a slot in an answer to eth_getProof."""

    proof: list[str] | None = None


class AccountProof(msgspec.Struct, rename="camel"):
    """The answer to eth_getProof, as far as it proves something; methods raise ProofError."""

    account_proof: list[str] | None = None
    storage_proof: list[StorageProof] | None = None

    def account(self, state_root: Hash, address: Address) -> Account | None:
        """Return the account, None if it is proven absent."""
        return verify_account(state_root, address, _nodes(self.account_proof))

    def value(self, storage_root: Hash, slot: Hash) -> int:
        """Return the value of a slot that it is about."""
        nodes = [node for entry in self.storage_proof or () for node in _nodes(entry.proof)]
        return verify_storage(storage_root, slot, nodes)


def _nodes(texts: Iterable[str] | None) -> list[bytes]:
    try:
        return [from_hex(text) for text in texts or ()]
    except HexError as error:
        raise ProofError(f"a node of the proof is malformed: {error}") from None


def _fetch(nodes: dict[Hash, bytes], reference: bytes) -> list[Any]:
    raw = nodes.get(reference)
    if raw is None:
        raise ProofError(f"the proof has no node 0x{reference.hex()[:64]}")
    return decoded_node(raw)


def decoded_node(raw: bytes) -> list[Any]:
    """Return a node by its encoding. Raises ProofError, as `checked_node` does."""
    try:
        return checked_node(rlp.decode_list(raw))
    except RlpError as error:
        raise ProofError(f"a node of the proof is malformed: {error}") from None


def checked_node(node: list[Any]) -> list[Any]:
    """Return a node of one of the two forms: 16 children and a value, or a path and one child or value."""
    if len(node) == 17 and type(node[16]) is bytes:
        return node
    if len(node) == 2 and type(node[0]) is bytes and node[0]:
        flag = node[0][0] >> 4
        if flag in (0, 1) or (flag in (2, 3) and type(node[1]) is bytes):
            return node
    raise ProofError("a node of the proof is neither branch, extension nor leaf")


def unpack_path(path: bytes) -> tuple[str, bool]:
    """Return the nibbles of an encoded path, and whether it ends at a leaf."""
    nibbles = path.hex()
    flag = int(nibbles[0], 16)
    return nibbles[1 if flag & 1 else 2 :], flag >= 2
