import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.encoding import protobuf
from rollup_node.stages.p2p.encoding.protobuf import Fields, ProtobufError

FIELD = st.integers(1, (1 << 29) - 1)


@given(FIELD, st.integers(0, (1 << 64) - 1), FIELD, st.binary(max_size=300))
def test_what_is_written_is_read(first: int, number: int, second: int, raw: bytes) -> None:
    found = protobuf.parse(protobuf.number(first, number) + protobuf.data(second, raw))
    if first == second:
        assert found.raw(second) == raw
        return
    assert (found.number(first), found.raw(second)) == (number, raw)
    assert first in found and second in found


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        found = protobuf.parse(raw)
    except ProtobufError:
        return
    assert isinstance(found, Fields)


def test_repeated_fields_and_text() -> None:
    found = protobuf.parse(protobuf.data(4, "a") + protobuf.data(4, "ö") + protobuf.number(1, 0))
    assert found.all_raw(4) == [b"a", "ö".encode()]
    assert found.text(4) == "ö"
    assert found.number(1) == 0
    assert found.number(2) is None and found.raw(2) is None and found.all_raw(2) == []


def test_fixed_width_fields_are_read_over() -> None:
    found = protobuf.parse(bytes.fromhex("0d01000000110200000000000000") + protobuf.number(3, 7))
    assert (found.number(1), found.number(2), found.number(3)) == (1, 2, 7)


@pytest.mark.parametrize(
    "raw",
    [
        "0a",
        "0a05616263",
        "08",
        "0880",
        "0b",
        "0f00",
        "0d0000",
        "11000000",
        "0001",
        "80808080808080808080",
        "12ffffffffffffffffff01",
    ],
)
def test_damaged_messages_are_refused(raw: str) -> None:
    with pytest.raises(ProtobufError):
        protobuf.parse(bytes.fromhex(raw))


def test_the_number_of_fields_is_bounded() -> None:
    assert protobuf.parse(protobuf.number(1, 1) * 10, most_fields=10).number(1) == 1
    with pytest.raises(ProtobufError, match="more than 10 fields"):
        protobuf.parse(protobuf.number(1, 1) * 11, most_fields=10)


def test_the_first_fields_are_read_whatever_follows() -> None:
    first = protobuf.number(1, 1) + protobuf.data(2, "x")
    for more in (b"", protobuf.number(3, 3) * 100, protobuf.number(3, 3) + b"\x0f", b"\x1b\x08\x01\x1c"):
        found = protobuf.parse_first(first + more, 3)
        assert found.number(1) == 1 and found.text(2) == "x" and len(found) <= 3
    with pytest.raises(ProtobufError):
        protobuf.parse_first(first + b"\x0f", 3)


def test_a_field_of_another_type_is_refused() -> None:
    found = protobuf.parse(protobuf.number(1, 1) + protobuf.data(2, b"\xff"))
    for read in (lambda: found.raw(1), lambda: found.number(2), lambda: found.all_raw(1), lambda: found.text(2)):
        with pytest.raises(ProtobufError):
            read()
