"""Encoding and decoding of Gossipsub RPCs."""

import pytest

from rollup_node.stages.p2p.encoding import protobuf
from rollup_node.stages.p2p.gossipsub.rpc import (
    MAX_FIELDS,
    ControlMessage,
    IHave,
    Prune,
    PubsubMessage,
    Rpc,
    RpcDecodeError,
    Subscription,
    decode_rpc,
    encode_rpc,
)


def as_lists(rpc: Rpc) -> object:
    """Return the parts with all sequences as lists, to compare."""
    control = rpc.control
    return (
        list(rpc.subscriptions),
        list(rpc.messages),
        [(have.topic, list(have.ids)) for have in control.ihave],
        [list(part) for part in (control.iwant, control.graft, control.prune, control.idontwant)],
    )


def test_known_encodings() -> None:
    """Written by hand from the protobuf definition in the Gossipsub specification."""
    encodings = {
        b"\x0a\x07\x08\x01\x12\x03t/0": Rpc(subscriptions=[Subscription("t/0", True)]),
        b"\x12\x09\x12\x02hi\x22\x03t/0": Rpc(messages=[PubsubMessage("t/0", b"hi")]),
        b"\x1a\x0b\x0a\x09\x0a\x03t/0\x12\x02id": Rpc(control=ControlMessage(ihave=[IHave("t/0", [b"id"])])),
        b"\x1a\x06\x12\x04\x0a\x02id": Rpc(control=ControlMessage(iwant=[b"id"])),
        b"\x1a\x07\x1a\x05\x0a\x03t/0": Rpc(control=ControlMessage(graft=["t/0"])),
        b"\x1a\x09\x22\x07\x0a\x03t/0\x18\x3c": Rpc(control=ControlMessage(prune=[Prune("t/0", 60)])),
        b"\x1a\x06\x2a\x04\x0a\x02id": Rpc(control=ControlMessage(idontwant=[b"id"])),
    }
    for raw, rpc in encodings.items():
        assert encode_rpc(rpc) == raw
        assert as_lists(decode_rpc(raw)) == as_lists(rpc)


@pytest.mark.parametrize("field", [1, 3, 5, 6])
@pytest.mark.parametrize("value", [b"", b"x"])
def test_signed_messages_are_marked(field: int, value: bytes) -> None:
    message = protobuf.bytes_field(2, b"data") + protobuf.bytes_field(4, "t")
    assert not decode_rpc(protobuf.bytes_field(2, message)).messages[0].is_signed
    assert decode_rpc(protobuf.bytes_field(2, message + protobuf.bytes_field(field, value))).messages[0].is_signed


def test_missing_and_non_utf8_topics() -> None:
    assert decode_rpc(protobuf.bytes_field(2, b"")).messages == (PubsubMessage("", b""),)
    decoded = decode_rpc(protobuf.bytes_field(2, protobuf.bytes_field(4, b"\xff\xfe")))
    assert decoded.messages[0].topic == "\ufffd\ufffd"
    assert decode_rpc(protobuf.bytes_field(9, b"unknown") + protobuf.varint_field(10, 5)) == Rpc(
        control=ControlMessage([], [], [], [], [])
    )


def test_repeated_control_parts_are_merged() -> None:
    raw = b"".join(encode_rpc(Rpc(control=ControlMessage(graft=[topic]))) for topic in "ab")
    assert list(decode_rpc(raw).control.graft) == ["a", "b"]


@pytest.mark.parametrize(
    "raw",
    [
        b"\x12",
        b"\x12\x05ab",
        protobuf.varint_field(2, 7),
        protobuf.bytes_field(3, b"\x0a\x7f"),
        protobuf.bytes_field(3, protobuf.bytes_field(1, protobuf.bytes_field(2, bytes(65)))),
        protobuf.bytes_field(3, protobuf.bytes_field(2, protobuf.bytes_field(1, bytes(65)))),
        protobuf.bytes_field(1, protobuf.bytes_field(1, b"not a number")),
        b"\x0b\x00",
    ],
)
def test_malformed_rpcs_are_rejected(raw: bytes) -> None:
    with pytest.raises(RpcDecodeError):
        decode_rpc(raw)


def test_fields_are_bounded_over_all_parts() -> None:
    raw = protobuf.bytes_field(3, protobuf.bytes_field(2, protobuf.bytes_field(1, b"i") * (MAX_FIELDS - 2)))
    assert len(decode_rpc(raw).control.iwant) == MAX_FIELDS - 2
    for parts in (1, 2, 5):
        share = protobuf.bytes_field(2, protobuf.bytes_field(1, b"i") * (MAX_FIELDS // parts))
        with pytest.raises(RpcDecodeError, match="fields"):
            decode_rpc(protobuf.bytes_field(3, share * parts))
    with pytest.raises(RpcDecodeError, match="fields"):
        decode_rpc(protobuf.bytes_field(2, b"") * (MAX_FIELDS + 1))


def test_fields_appended_to_a_valid_message_are_ignored() -> None:
    """Other nodes forward fields unknown to them: an honest peer must not be disconnected for them."""
    good = protobuf.bytes_field(2, b"block") + protobuf.bytes_field(4, "topic")
    group = b"\x7b\x08\x01\x7c"
    for more in (protobuf.varint_field(15, 1) * (MAX_FIELDS + 1), group, protobuf.varint_field(15, 1) + group * 10):
        decoded = decode_rpc(protobuf.bytes_field(2, good + more))
        assert as_lists(decoded) == as_lists(Rpc(messages=[PubsubMessage("topic", b"block")]))
    with pytest.raises(RpcDecodeError, match="more than"):
        decode_rpc(protobuf.bytes_field(2, good + protobuf.varint_field(15, 1) * 100) * (MAX_FIELDS // 20))
