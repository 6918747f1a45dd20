"""Distances of node ids, and endpoints as text."""

import pytest

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.discv5.enr import (
    MAX_RECORD_BYTES,
    AdvertisedEndpoint,
    Endpoint,
    EnrError,
    LocalEnr,
    OpStackEntry,
    decode_enr,
    decode_opstack,
    parse_enr,
    sign_enr,
)
from rollup_node.stages.protocol import rlp, secp256k1
from rollup_node.stages.protocol.keccak import keccak256
from tests.support.p2p.discv5_nodes import endpoint, record_of, secret_of

SECRET = secret_of("enr")
KEY = secp256k1.public_key(SECRET)


def signed(*content: bytes) -> bytes:
    """Return a record of any content with a valid signature."""
    signature = secp256k1.sign_recoverable(keccak256(rlp.encode_list(content)), SECRET)[:64]
    return rlp.encode_list([rlp.encode_bytes(signature), *content])


def pair(name: bytes, value: bytes) -> list[bytes]:
    return [rlp.encode_bytes(name), rlp.encode_bytes(value)]


SEQ = rlp.encode_int(7)
ID, SECP = pair(b"id", b"v4"), pair(b"secp256k1", KEY)


def test_the_text_may_be_padded_or_in_standard_base64() -> None:
    record = record_of("padded")
    assert parse_enr(record.text + "==") == record
    assert parse_enr(record.text.replace("-", "+").replace("_", "/")) == record


def test_opstack_has_chain_id_and_version() -> None:
    assert OpStackEntry(901).encode() == bytes.fromhex("850700")
    assert decode_opstack(bytes.fromhex("850700")) == OpStackEntry(901, 0)
    assert decode_opstack(bytes.fromhex("850701ffff")) == OpStackEntry(901, 1)
    for damaged in ("", "85", "8507", "8080", "ff" * 11):
        assert decode_opstack(bytes.fromhex(damaged)) is None


def test_both_ip_versions() -> None:
    six = parse_ip("2001:db8::1")
    values = {b"ip6": six.packed, b"udp": b"\x24\x06", b"tcp6": b"\x10"}
    record = sign_enr(SECRET, 1, values)
    assert record.udp(6) == Endpoint(six, 9222)
    assert record.tcp(6) == Endpoint(six, 16)
    assert record.udp(4) is None and record.contact((4,)) is None
    contact = record.contact()
    assert contact is not None and str(contact.endpoint) == "[2001:db8::1]:9222"


@pytest.mark.parametrize(
    "values", [{b"ip": bytes(3)}, {b"ip": bytes(4)}, {b"ip": b"\xe0\0\0\1"}, {b"udp": b""}, {b"udp": b"\1\2\3"}]
)
def test_unusable_addresses_are_ignored(values: dict[bytes, bytes]) -> None:
    usable = {b"ip": b"\x7f\0\0\1", b"udp": b"\x24\x06"}
    assert sign_enr(SECRET, 1, {**usable, **values}).udp(4) is None


def test_list_values_are_accepted() -> None:
    record = decode_enr(signed(SEQ, rlp.encode_bytes(b"eth"), rlp.encode_list([b"\x01"]), *ID, *SECP))
    assert record.value(b"eth") is None and record.value(b"id") == b"v4"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "node record"),
        (b"\x80", "node record"),
        (signed(SEQ, *SECP, *ID), "not in order"),
        (signed(SEQ, *ID, *ID, *SECP), "not in order"),
        (signed(SEQ, *pair(b"id", b"v5"), *SECP), "another identity scheme"),
        (signed(SEQ, *SECP), "another identity scheme"),
        (signed(SEQ, *ID), "without a public key"),
        (signed(SEQ, *ID, *pair(b"secp256k1", bytes(33))), "invalid public key"),
        (signed(SEQ, *ID, *pair(b"secp256k1", KEY[:32])), "expected 33 bytes"),
        (signed(rlp.encode_bytes(b"\0\1"), *ID, *SECP), "leading zero"),
        (signed(rlp.encode_int(1 << 64), *ID, *SECP), "64 bits"),
        (signed(SEQ, *ID, *SECP, rlp.encode_bytes(b"z")), "no value"),
        (signed(SEQ, rlp.encode_list([]), rlp.encode_bytes(b""), *ID, *SECP), "not in order"),
        (signed(SEQ, *ID, *SECP, *pair(b"z", bytes(MAX_RECORD_BYTES))), "more than 300"),
    ],
)
def test_malformed_records_are_rejected(raw: bytes, problem: str) -> None:
    with pytest.raises(EnrError, match=problem):
        decode_enr(raw)


def test_a_record_with_a_flipped_bit_is_rejected() -> None:
    raw = record_of("whole").raw
    for at in range(0, len(raw) * 8, 7):
        changed = bytearray(raw)
        changed[at >> 3] ^= 1 << (at & 7)
        with pytest.raises(EnrError):
            decode_enr(bytes(changed))


@pytest.mark.parametrize("text", ["", "enr:", "enr:!", "enode://x", "enr:" + "A" * 500, "enr:é", "enr:AAAAA"])
def test_malformed_texts_are_rejected(text: str) -> None:
    with pytest.raises(EnrError):
        parse_enr(text)


def test_signing_a_record_that_is_too_long_fails() -> None:
    with pytest.raises(EnrError, match="more than 300"):
        sign_enr(SECRET, 1, {b"z": bytes(200)})


OTHER_SECRET = secret_of("local")
ADVERTISED = AdvertisedEndpoint(901, parse_ip("127.0.0.1"), 9222, 9223)


def test_ports_are_omitted_without_an_address() -> None:
    record = LocalEnr(OTHER_SECRET, AdvertisedEndpoint(901, None, 9222, 9222), 5).enr
    assert sorted(record.pairs) == [b"id", b"opstack", b"secp256k1"]
    no_port = LocalEnr(OTHER_SECRET, AdvertisedEndpoint(901, parse_ip("127.0.0.1"), 9222, 0), 5).enr
    assert no_port.tcp(4) is None and no_port.udp(4) is not None


def test_a_change_increments_the_sequence_number() -> None:
    local = LocalEnr(OTHER_SECRET, ADVERTISED, 5)
    assert not local.update(ADVERTISED) and local.enr.seq == 5
    assert local.set_endpoint(endpoint("127.0.0.9", 7)) and local.enr.seq == 6
    assert local.enr.udp(4) == endpoint("127.0.0.9", 7)
    assert local.enr.tcp(4) == endpoint("127.0.0.9", 9223)
    assert not local.set_endpoint(endpoint("127.0.0.9", 7))


def test_the_sequence_number_rises_over_restarts() -> None:
    former = LocalEnr(OTHER_SECRET, ADVERTISED, 100).enr
    assert LocalEnr(OTHER_SECRET, ADVERTISED, 5000, former).enr is former
    other = AdvertisedEndpoint(902, ADVERTISED.ip, 9222, 9223)
    assert LocalEnr(OTHER_SECRET, other, 5000, former).enr.seq == 5000
    assert LocalEnr(OTHER_SECRET, other, 50, former).enr.seq == 101
