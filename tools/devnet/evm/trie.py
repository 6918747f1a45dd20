"""An incremental Merkle Patricia trie over a store of nodes by hash. Nothing is ever removed from the store, so every
root that was committed stays readable, and a change costs only the nodes on its way."""

from typing import Any, TypeAlias

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.types import Hash

_NIBBLES = bytes(int(chr(code), 16) if chr(code) in "0123456789abcdef" else 0 for code in range(256))
_DIGITS = b"0123456789abcdef" + bytes(240)
_CACHED_NODES = 8192


class MissingNode(Exception):
    """The store lacks a node that the root commits to."""


class Leaf:
    """The end of a path; `path` holds one nibble a byte."""

    __slots__ = ("path", "value")

    def __init__(self, path: bytes, value: bytes) -> None:
        self.path = path
        self.value = value


class Extension:
    """A stretch of path that all keys below share."""

    __slots__ = ("child", "path")

    def __init__(self, path: bytes, child: "Reference") -> None:
        self.path = path
        self.child = child


class Branch:
    """Sixteen ways on, and the value of the key that ends here."""

    __slots__ = ("children", "value")

    def __init__(self, children: list["Reference"], value: bytes) -> None:
        self.children = children
        self.value = value


Node = Leaf | Extension | Branch
Reference: TypeAlias = "bytes | Node | None"


class TrieNodeStore:
    """Encoded nodes by hash, with the most used ones kept decoded."""

    def __init__(self, nodes: dict[Hash, bytes] | None = None) -> None:
        self.nodes: dict[Hash, bytes] = {} if nodes is None else nodes
        self._decoded: dict[Hash, Node] = {}

    def encoded(self, node_hash: Hash) -> bytes:
        """The node's RLP; MissingNode where the store lacks it."""
        try:
            return self.nodes[node_hash]
        except KeyError:
            raise MissingNode(f"trie node 0x{node_hash.hex()} is not in the store") from None

    def node(self, node_hash: Hash) -> Node:
        """The decoded node; it is shared and must not be changed."""
        node = self._decoded.get(node_hash)
        if node is None:
            node = _from_items(rlp.decode(self.encoded(node_hash)))
            self._remember(node_hash, node)
        return node

    def put(self, encoded: bytes, node: Node) -> Hash:
        """Stores a node under its hash."""
        node_hash = keccak256(encoded)
        self.nodes[node_hash] = encoded
        self._remember(node_hash, node)
        return node_hash

    def _remember(self, node_hash: Hash, node: Node) -> None:
        if len(self._decoded) >= _CACHED_NODES:
            self._decoded.clear()
        self._decoded[node_hash] = node


class Trie:
    """One trie, from a committed root on. Changes stay in memory until `commit`."""

    def __init__(self, store: TrieNodeStore, root: Hash = EMPTY_ROOT) -> None:
        self._store = store
        self._root: Reference = None if root == EMPTY_ROOT else root

    def get(self, key: bytes) -> bytes | None:
        """The value under a key."""
        path, at, reference = nibbles(key), 0, self._root
        while reference is not None:
            node = self._load(reference)
            if isinstance(node, Branch):
                if at == len(path):
                    return node.value or None
                reference = node.children[path[at]]
                at += 1
            elif isinstance(node, Leaf):
                return node.value if node.path == path[at:] else None
            else:
                end = at + len(node.path)
                if path[at:end] != node.path:
                    return None
                at, reference = end, node.child
        return None

    def set(self, key: bytes, value: bytes | None) -> None:
        """Puts a value under a key; an empty one or None takes the key out."""
        path = nibbles(key)
        self._root = self._insert(self._root, path, value) if value else self._remove(self._root, path)

    def commit(self) -> Hash:
        """Stores all new nodes; the root."""
        if self._root is None:
            return EMPTY_ROOT
        if not isinstance(self._root, bytes):
            self._root = self._store.put(rlp.encode(self._items(self._root)), self._root)
        return self._root

    def prove(self, key: bytes) -> list[bytes]:
        """The encoded nodes from the root towards a key, as eth_getProof lists them. Only of a committed trie."""
        path, at, reference, proof = nibbles(key), 0, self._root, []
        while reference is not None:
            if isinstance(reference, bytes):
                proof.append(self._store.encoded(reference))
            node = self._load(reference)
            if isinstance(node, Branch):
                reference = node.children[path[at]] if at < len(path) else None
                at += 1
            elif isinstance(node, Extension) and path[at : at + len(node.path)] == node.path:
                at, reference = at + len(node.path), node.child
            else:
                reference = None
        return proof

    def _load(self, reference: bytes | Node) -> Node:
        return self._store.node(reference) if isinstance(reference, bytes) else reference

    def _insert(self, reference: Reference, path: bytes, value: bytes) -> Node:
        if reference is None:
            return Leaf(path, value)
        node = self._load(reference)
        if isinstance(node, Branch):
            children = node.children.copy()
            if not path:
                return Branch(children, value)
            children[path[0]] = self._insert(children[path[0]], path[1:], value)
            return Branch(children, node.value)
        shared = _shared_length(node.path, path)
        if isinstance(node, Leaf):
            if shared == len(node.path) == len(path):
                return Leaf(path, value)
        elif shared == len(node.path):
            return Extension(node.path, self._insert(node.child, path[shared:], value))
        branch = Branch([None] * 16, b"")
        _hang(branch, node, shared)
        if shared == len(path):
            branch.value = value
        else:
            branch.children[path[shared]] = Leaf(path[shared + 1 :], value)
        return Extension(path[:shared], branch) if shared else branch

    def _remove(self, reference: Reference, path: bytes) -> Reference:
        if reference is None:
            return None
        node = self._load(reference)
        if isinstance(node, Leaf):
            return None if node.path == path else reference
        if isinstance(node, Extension):
            size = len(node.path)
            if path[:size] != node.path:
                return reference
            child = self._remove(node.child, path[size:])
            return reference if child is node.child else self._join(node.path, child)
        value, children = node.value, node.children
        if path:
            child = self._remove(children[path[0]], path[1:])
            if child is children[path[0]]:
                return reference
            children = children.copy()
            children[path[0]] = child
        elif value:
            value = b""
        else:
            return reference
        return self._shrink(children, value)

    def _shrink(self, children: list[Reference], value: bytes) -> Reference:
        """A branch that lost something; with one way left it is no branch any more."""
        taken = [index for index, child in enumerate(children) if child is not None]
        if len(taken) + bool(value) > 1:
            return Branch(children, value)
        if value:
            return Leaf(b"", value)
        return self._join(bytes(taken[:1]), children[taken[0]]) if taken else None

    def _join(self, path: bytes, child: Reference) -> Reference:
        """`path` put before what is left below it."""
        if child is None:
            return None
        node = self._load(child)
        if isinstance(node, Branch):
            return Extension(path, child)
        if isinstance(node, Leaf):
            return Leaf(path + node.path, node.value)
        return Extension(path + node.path, node.child)

    def _items(self, node: Node) -> list[Any]:
        """A node as RLP items; the nodes below it are stored and replaced by their hashes."""
        if isinstance(node, Leaf):
            return [hex_prefix(node.path, leaf=True), node.value]
        if isinstance(node, Extension):
            node.child, item = self._committed(node.child)
            return [hex_prefix(node.path, leaf=False), item]
        items: list[Any] = []
        for index, child in enumerate(node.children):
            if child is None or isinstance(child, bytes):
                items.append(child or b"")
            else:
                node.children[index], item = self._committed(child)
                items.append(item)
        items.append(node.value)
        return items

    def _committed(self, child: Reference) -> tuple[Reference, Any]:
        """A child's reference from now on, and what its parent's encoding holds of it."""
        if child is None or isinstance(child, bytes):
            return child, child or b""
        items = self._items(child)
        encoded = rlp.encode(items)
        if len(encoded) < 32:
            return child, items
        node_hash = self._store.put(encoded, child)
        return node_hash, node_hash


def nibbles(key: bytes) -> bytes:
    """A key as one nibble a byte."""
    return key.hex().encode().translate(_NIBBLES)


def hex_prefix(path: bytes, leaf: bool) -> bytes:
    """A path in its compact form, with the flag that tells leaves from extensions."""
    flag = 2 if leaf else 0
    digits = path.translate(_DIGITS).decode()
    return bytes.fromhex(f"{flag + 1}{digits}" if len(path) & 1 else f"{flag}0{digits}")


def _from_items(items: Any) -> Node:
    if len(items) == 17:
        return Branch([_reference(item) for item in items[:16]], items[16])
    path = nibbles(items[0])
    path, is_leaf = path[2 - (path[0] & 1) :], path[0] >= 2
    return Leaf(path, items[1]) if is_leaf else Extension(path, _reference(items[1]))


def _reference(item: Any) -> Reference:
    if isinstance(item, list):
        return _from_items(item)
    return bytes(item) or None


def _shared_length(one: bytes, other: bytes) -> int:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length


def _hang(branch: Branch, node: Leaf | Extension, shared: int) -> None:
    """Puts a leaf or extension under the branch that splits its path after `shared` nibbles."""
    if isinstance(node, Leaf):
        if shared == len(node.path):
            branch.value = node.value
        else:
            branch.children[node.path[shared]] = Leaf(node.path[shared + 1 :], node.value)
        return
    rest = node.path[shared + 1 :]
    branch.children[node.path[shared]] = Extension(rest, node.child) if rest else node.child
