"""Headers, and the lists in a block's tries, decoded: a node only makes them, to compare their hashes."""

from collections.abc import Callable
from typing import Any

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.headers import HEADER_FIELDS, REQUIRED_FIELDS, Header, HeaderError, HeaderField
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, ProofError, checked_node, decoded_node, unpack_path
from rollup_node.stages.protocol.rlp import RlpError, encode_int
from rollup_node.stages.protocol.types import Hash

_LONGEST_INDEX = 10
"""Nibbles of the encoding of an index below 2^32."""
_MOST_NODES = 1 << 20
"""No block has so many transactions. A trie of few nodes that name each other again and again has no end."""


def decode_header(raw: bytes) -> Header:
    """Return the header in an RLP list; only canonical encodings are accepted. Raises HeaderError."""
    try:
        items = rlp.decode_list(raw)
        if not REQUIRED_FIELDS <= len(items) <= len(HEADER_FIELDS):
            raise HeaderError(f"header of {len(items)} fields")
        last = len(items) - 1
        values: list[Any] = [
            # An empty string is an absent field, but for a number it may be 0: that is how a present 0 is encoded.
            None if item == b"" and REQUIRED_FIELDS <= index < last and not field.bits else _decode_item(item, field)
            for index, (item, field) in enumerate(zip(items, HEADER_FIELDS, strict=False))
        ]
    except RlpError as error:
        raise HeaderError(f"malformed header: {error}") from None
    return Header(*values)


def _decode_item(item: Any, field: HeaderField) -> Any:
    if field.bits:
        return rlp.decode_int(item, field.bits)
    if field.size:
        return rlp.decode_sized(item, field.size)
    if type(item) is not bytes:
        raise RlpError("expected bytes, got a list")
    return item


def ordered_values(root: Hash, node_of: Callable[[Hash], bytes]) -> list[bytes]:
    """Return the values of the trie that `ordered_root` is the root of.

    `node_of` returns the encoded node of a hash, which it has checked. Raises ProofError for a malformed node, and
    where the keys are not those of a list."""
    if root == EMPTY_ROOT:
        return []
    values: dict[str, bytes] = {}
    waiting: list[tuple[str, Any]] = [("", root)]
    visited = 0
    while waiting:
        path, child = waiting.pop()
        node = checked_node(child) if isinstance(child, list) else decoded_node(node_of(child))
        visited += 1
        if len(path) > _LONGEST_INDEX or visited > _MOST_NODES:
            raise ProofError("the trie is larger than that of a list")
        if len(node) == 17:
            waiting += [(f"{path}{nibble:x}", item) for nibble, item in enumerate(node[:16]) if item]
            continue
        nibbles, is_leaf = unpack_path(node[0])
        if is_leaf:
            values[path + nibbles] = node[1]
        else:
            waiting.append((path + nibbles, node[1]))
    try:
        return [values[encode_int(index).hex()] for index in range(len(values))]
    except KeyError:
        raise ProofError("the keys of the trie are not those of a list") from None
