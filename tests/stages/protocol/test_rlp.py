"""RLP against the reference package; encodings that are not canonical are refused."""

from typing import Any

import pytest
import rlp as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.rlp import RlpError

STRINGS = st.builds(
    lambda first, size: bytes((first,)) + b"\xab" * (size - 1) if size else b"",
    st.integers(0, 255),
    st.integers(0, 70) | st.integers(250, 260),
)
ITEMS = st.recursive(STRINGS, lambda inner: st.lists(inner, max_size=8), max_leaves=12)


def plain(item: Any) -> Any:
    return item if isinstance(item, bytes) else [plain(entry) for entry in item]


@given(st.binary(max_size=60))
def test_the_same_encodings_as_in_the_reference_are_accepted(data: bytes) -> None:
    try:
        expected = plain(reference.decode(data, strict=True))
    except reference.exceptions.RLPException:
        expected = None
    try:
        result = rlp.decode(data)
    except RlpError:
        result = None
    assert result == expected
    if result is not None:
        assert rlp.encode(result) == data


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        ("", "no bytes"),
        ("8101", "single byte"),
        ("c28101", "single byte"),
        ("82ff", "cut off"),
        ("c2ff", "cut off"),
        ("c281", "cut off"),
        ("b800", "shortest form"),
        ("b837" + "11" * 55, "shortest form"),
        ("b90038" + "11" * 56, "shortest form"),
        ("f800", "shortest form"),
        ("f837" + "11" * 55, "shortest form"),
        ("b8", "length cut off"),
        ("bbffffffff", "cut off"),
        ("bfffffffffffffffff", "cut off"),
        ("ffffffffffffffffff", "cut off"),
        ("0000", "after the item"),
        ("c000", "after the item"),
    ],
)
def test_encodings_that_are_not_canonical(encoded: str, reason: str) -> None:
    with pytest.raises(RlpError, match=reason):
        rlp.decode(bytes.fromhex(encoded))


def test_deep_nesting_is_refused_without_recursion() -> None:
    nested: Any = []
    for _ in range(rlp.MAX_DEPTH - 1):
        nested = [nested]
    assert rlp.decode(rlp.encode(nested)) == nested
    body = b"\xc0"
    for _ in range(3000):
        body = rlp.wrap_list(body)
    with pytest.raises(RlpError, match="nested deeper"):
        rlp.decode(body)


@settings(max_examples=30)
@given(st.lists(ITEMS, max_size=3))
def test_split_gives_the_raw_items(items: list[Any]) -> None:
    encoded = [rlp.encode(item) for item in items]
    whole = rlp.encode_list(encoded)
    assert rlp.split(whole) == encoded
    assert rlp.split(b"\x02" + whole, 1) == encoded


@pytest.mark.parametrize(
    ("item", "bits"), [(b"\x00", 64), (b"\x00\x01", 64), (b"\x01" * 9, 64), (b"\x01" * 33, 256), ([], 64)]
)
def test_malformed_integers(item: Any, bits: int) -> None:
    with pytest.raises(RlpError):
        rlp.decode_int(item, bits)


def test_sizes_and_counts_are_checked() -> None:
    assert rlp.decode_sized(b"ab", 2) == b"ab"
    for item in (b"a", b"abc", [b"a", b"b"]):
        with pytest.raises(RlpError, match="expected 2 bytes"):
            rlp.decode_sized(item, 2)
    assert rlp.decode_list(b"\xc2\x01\x02", 2) == [b"\x01", b"\x02"]
    with pytest.raises(RlpError, match="list of 3 items, got 2"):
        rlp.decode_list(b"\xc2\x01\x02", 3)
    with pytest.raises(RlpError, match="expected a list"):
        rlp.decode_list(b"\x05")
