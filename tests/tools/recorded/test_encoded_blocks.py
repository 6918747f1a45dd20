"""Headers and lists come back from their encodings, and nothing else is taken."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import headers, mpt, rlp
from rollup_node.stages.protocol.headers import HeaderError
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ProofError
from rollup_node.tools.recorded.encoded_blocks import decode_header, ordered_values
from tests.stages.protocol.test_headers import header


@given(st.integers(0, 2**256 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=40))
def test_headers_round_trip(base_fee: int, number: int, extra_data: bytes) -> None:
    result = header(8, base_fee=base_fee, number=number, extra_data=extra_data)
    assert decode_header(headers.encode_header(result)) == result


@given(st.binary(max_size=100))
def test_random_bytes_raise_the_modules_error(data: bytes) -> None:
    with pytest.raises(HeaderError):
        decode_header(data)


@pytest.mark.parametrize(
    ("place", "item"), [(0, b"\x01" * 31), (6, b""), (8, b"\x00"), (8, b"\x01" * 9), (12, [b""]), (14, b""), (16, b"x")]
)
def test_each_field_is_checked(place: int, item: Any) -> None:
    items = rlp.decode_list(headers.encode_header(header()))
    items[place] = item
    with pytest.raises(HeaderError):
        decode_header(rlp.encode(items))


@pytest.mark.parametrize("count", [0, 14, 24])
def test_the_number_of_fields_is_bounded(count: int) -> None:
    with pytest.raises(HeaderError, match=f"{count} fields"):
        decode_header(rlp.encode([b""] * count))


@given(st.lists(st.binary(min_size=1, max_size=80), max_size=300))
def test_the_nodes_of_a_list_give_its_values_back(values: list[bytes]) -> None:
    nodes: dict[bytes, bytes] = {}
    root = mpt.ordered_root(values, nodes)
    assert root == mpt.ordered_root(values)
    assert all(keccak256(node) == digest for digest, node in nodes.items())
    assert ordered_values(root, nodes.__getitem__) == values


def test_tries_that_are_no_list_are_refused() -> None:
    nodes: dict[bytes, bytes] = {}
    root = mpt.ordered_root([bytes([index]) * 40 for index in range(3)], nodes)
    with pytest.raises(KeyError):
        ordered_values(root, lambda digest: {root: nodes[root]}[digest])
    with pytest.raises(ProofError):
        ordered_values(root, lambda digest: b"\xc1\x80")
    leaf = rlp.encode([b"\x20\x05", b"x" * 40])
    with pytest.raises(ProofError, match="keys of the trie are not those of a list"):
        ordered_values(keccak256(leaf), lambda digest: leaf)


def test_a_trie_that_names_the_same_nodes_again_and_again_ends() -> None:
    """Few nodes, and more paths than any list has values."""
    node, nodes = rlp.encode([b"\x20", b"x" * 40]), dict[bytes, bytes]()
    for _ in range(12):
        nodes[keccak256(node)] = node
        node = rlp.encode([keccak256(node)] * 16 + [b""])
    nodes[keccak256(node)] = node
    with pytest.raises(ProofError, match="larger than that of a list"):
        ordered_values(keccak256(node), nodes.__getitem__)
