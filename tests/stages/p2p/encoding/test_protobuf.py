"""Protobuf fields: round trips, malformed messages, bounds."""

import pytest

from rollup_node.stages.p2p.encoding import protobuf
from rollup_node.stages.p2p.encoding.protobuf import ProtobufError


def test_fixed_width_fields_are_accepted() -> None:
    fields = protobuf.parse(bytes.fromhex("0d01000000110200000000000000") + protobuf.varint_field(3, 7))
    assert (fields.varint(1), fields.varint(2), fields.varint(3)) == (1, 2, 7)


@pytest.mark.parametrize(
    "raw",
    [
        "0a",
        "0a05616263",
        "08",
        "0880",
        "0b",
        "0f00",
        "0d000000",
        "1100000000000000",
        "0001",
        "80808080808080808080",
        "12ffffffffffffffffff01",
    ],
)
def test_damaged_messages_are_rejected(raw: str) -> None:
    with pytest.raises(ProtobufError):
        protobuf.parse(bytes.fromhex(raw))


def test_the_number_of_fields_is_bounded() -> None:
    assert protobuf.parse(protobuf.varint_field(1, 1) * 10, max_fields=10).varint(1) == 1
    with pytest.raises(ProtobufError, match="more than 10 fields"):
        protobuf.parse(protobuf.varint_field(1, 1) * 11, max_fields=10)


def test_a_prefix_is_parsed_whatever_follows() -> None:
    first = protobuf.varint_field(1, 1) + protobuf.bytes_field(2, "x")
    for more in (b"", protobuf.varint_field(3, 3) * 100, protobuf.varint_field(3, 3) + b"\x0f", b"\x1b\x08\x01\x1c"):
        fields = protobuf.parse_prefix(first + more, 3)
        assert fields.varint(1) == 1 and fields.bytes_value(2) == b"x" and len(fields) <= 3
    with pytest.raises(ProtobufError):
        protobuf.parse_prefix(first + b"\x0f", 3)


def test_a_field_of_another_type_is_rejected() -> None:
    fields = protobuf.parse(protobuf.varint_field(1, 1) + protobuf.bytes_field(2, b"\xff"))
    for read in (lambda: fields.bytes_value(1), lambda: fields.varint(2), lambda: fields.repeated_bytes(1)):
        with pytest.raises(ProtobufError):
            read()
