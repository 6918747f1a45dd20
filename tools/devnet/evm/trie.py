"""An incremental Merkle Patricia trie over nodes by hash.

Nodes are never removed, so all committed roots stay readable. A change creates only the nodes on its key's path."""

from typing import Any, TypeAlias

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.types import Hash

_NIBBLES = bytes(int(chr(code), 16) if chr(code) in "0123456789abcdef" else 0 for code in range(256))
_DIGITS = b"0123456789abcdef" + bytes(240)
_CACHED_NODES = 8192


class MissingNode(Exception):
    """A node under the root is not in the store."""


class Leaf:
    """A leaf node; `path` has one nibble per byte."""

    __slots__ = ("path", "value")

    def __init__(self, path: bytes, value: bytes) -> None:
        self.path = path
        self.value = value


class Extension:
    """An extension node: the part of the path that all keys below share."""

    __slots__ = ("child", "path")

    def __init__(self, path: bytes, child: "Reference") -> None:
        self.path = path
        self.child = child


class Branch:
    """A branch node: sixteen children, and the value of the key that ends here."""

    __slots__ = ("children", "value")

    def __init__(self, children: list["Reference"], value: bytes) -> None:
        self.children = children
        self.value = value


Node = Leaf | Extension | Branch
Reference: TypeAlias = "bytes | Node | None"


class TrieNodeStore:
    """Encoded nodes by hash, with a cache of decoded ones."""

    def __init__(self, nodes: dict[Hash, bytes] | None = None) -> None:
        self.nodes: dict[Hash, bytes] = {} if nodes is None else nodes
        self._decoded: dict[Hash, Node] = {}

    def encoded(self, node_hash: Hash) -> bytes:
        """Return the RLP of a node. Raises MissingNode."""
        try:
            return self.nodes[node_hash]
        except KeyError:
            raise MissingNode(f"trie node 0x{node_hash.hex()} is not in the store") from None

    def node(self, node_hash: Hash) -> Node:
        """Return a decoded node, which is shared and must not be changed. Raises MissingNode."""
        node = self._decoded.get(node_hash)
        if node is None:
            node = _from_items(rlp.decode(self.encoded(node_hash)))
            self._remember(node_hash, node)
        return node

    def put(self, encoded: bytes, node: Node) -> Hash:
        """Store a node under its hash."""
        node_hash = keccak256(encoded)
        self.nodes[node_hash] = encoded
        self._remember(node_hash, node)
        return node_hash

    def _remember(self, node_hash: Hash, node: Node) -> None:
        if len(self._decoded) >= _CACHED_NODES:
            self._decoded.clear()  # cheaper than an LRU, and refilled within a block
        self._decoded[node_hash] = node


class Trie:
    """A trie on top of a committed root; changes stay in memory until `commit`."""

    def __init__(self, store: TrieNodeStore, root: Hash = EMPTY_ROOT) -> None:
        self._store = store
        self._root: Reference = None if root == EMPTY_ROOT else root

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
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
        """Set the value of a key; an empty value or None removes the key."""
        path = nibbles(key)
        self._root = self._insert(self._root, path, value) if value else self._remove(self._root, path)

    def commit(self) -> Hash:
        """Store all new nodes; the root hash."""
        if self._root is None:
            return EMPTY_ROOT
        if not isinstance(self._root, bytes):
            self._root = self._store.put(rlp.encode(self._items(self._root)), self._root)
        return self._root

    def prove(self, key: bytes) -> list[bytes]:
        """Return the encoded nodes from the root towards a key, as of eth_getProof. The trie must be committed."""
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
        _attach(branch, node, shared)
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
        """Return a branch after a removal, collapsed where only one child or the value is left."""
        taken = [index for index, child in enumerate(children) if child is not None]
        if len(taken) + bool(value) > 1:
            return Branch(children, value)
        if value:
            return Leaf(b"", value)
        return self._join(bytes(taken[:1]), children[taken[0]]) if taken else None

    def _join(self, path: bytes, child: Reference) -> Reference:
        """Return the node below `path`, merged with it where it is a leaf or an extension."""
        if child is None:
            return None
        node = self._load(child)
        if isinstance(node, Branch):
            return Extension(path, child)
        if isinstance(node, Leaf):
            return Leaf(path + node.path, node.value)
        return Extension(path + node.path, node.child)

    def _items(self, node: Node) -> list[Any]:
        """Return the RLP items of a node; its children are stored and replaced by their hashes."""
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
        """Return the new reference of a child, and the item for it in its parent's encoding."""
        if child is None or isinstance(child, bytes):
            return child, child or b""
        items = self._items(child)
        encoded = rlp.encode(items)
        if len(encoded) < 32:  # a short node is part of its parent instead of referenced by hash
            return child, items
        node_hash = self._store.put(encoded, child)
        return node_hash, node_hash


def nibbles(key: bytes) -> bytes:
    """Return a key with one nibble per byte."""
    return key.hex().encode().translate(_NIBBLES)


def hex_prefix(path: bytes, leaf: bool) -> bytes:
    """Return a path in hex-prefix encoding, with the flag that marks leaves."""
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


def _attach(branch: Branch, node: Leaf | Extension, shared: int) -> None:
    """Attach a leaf or extension to the branch that splits its path after `shared` nibbles."""
    if isinstance(node, Leaf):
        if shared == len(node.path):
            branch.value = node.value
        else:
            branch.children[node.path[shared]] = Leaf(node.path[shared + 1 :], node.value)
        return
    rest = node.path[shared + 1 :]
    branch.children[node.path[shared]] = Extension(rest, node.child) if rest else node.child
