"""The wire test vectors of the discv5 specification, and EIP-778's example record (discv5.json names the sources)."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.addresses.peer_id import node_id
from rollup_node.stages.p2p.discv5 import messages, packets
from rollup_node.stages.p2p.discv5.enr import Endpoint, decode_enr, parse_enr, sign_enr
from rollup_node.stages.protocol import secp256k1

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "discv5.json").read_text())
IV = bytes(16)


def raw(*names: str) -> bytes:
    result: Any = VECTORS
    for name in names:
        result = result[name]
    return bytes.fromhex(result)


SECRET_A, SECRET_B, NODE_A, NODE_B = (raw(name) for name in ("secret_a", "secret_b", "node_a", "node_b"))
PACKETS = VECTORS["packets"]
MESSAGE, WHOAREYOU, *HANDSHAKES = PACKETS


def ping(vector: dict[str, Any]) -> messages.Ping:
    return messages.Ping(bytes.fromhex(vector["ping"]["request_id"]), vector["ping"]["record_seq"])


def test_all_packet_kinds_have_vectors() -> None:
    assert [vector["kind"] for vector in PACKETS] == ["message", "whoareyou", "handshake", "handshake"]


def test_node_ids_of_the_keys() -> None:
    assert node_id(secp256k1.public_key(SECRET_A)) == NODE_A
    assert node_id(secp256k1.public_key(SECRET_B)) == NODE_B


def test_message_packet() -> None:
    datagram, key = bytes.fromhex(MESSAGE["packet"]), bytes.fromhex(MESSAGE["read_key"])
    packet = packets.decode(datagram, NODE_B)
    assert isinstance(packet, packets.MessagePacket)
    assert (packet.source, packet.nonce) == (NODE_A, bytes.fromhex(MESSAGE["nonce"]))
    plain = packets.decrypt(key, packet.nonce, packet.ciphertext, packet.authenticated_data)
    assert plain is not None and messages.decode(plain) == ping(MESSAGE)
    header = packets.message_header(NODE_A, NODE_B, packet.nonce, IV)
    assert header.packet(packets.encrypt(key, packet.nonce, messages.encode(ping(MESSAGE)), header.data)) == datagram


def test_whoareyou_packet() -> None:
    datagram, challenge = bytes.fromhex(WHOAREYOU["packet"]), bytes.fromhex(WHOAREYOU["challenge"])
    packet = packets.decode(datagram, NODE_B)
    assert packet == packets.WhoAreYou(bytes.fromhex(WHOAREYOU["nonce"]), WHOAREYOU["record_seq"], challenge)
    header = packets.whoareyou_header(NODE_B, packet.nonce, challenge[39:55], WHOAREYOU["record_seq"], IV)
    assert header.data == challenge
    assert header.packet() == datagram


@pytest.mark.parametrize("vector", HANDSHAKES, ids=["known record", "with record"])
def test_handshake_packet(vector: dict[str, Any]) -> None:
    datagram, challenge = bytes.fromhex(vector["packet"]), bytes.fromhex(vector["challenge"])
    packet = packets.decode(datagram, NODE_B)
    assert isinstance(packet, packets.HandshakePacket)
    assert packet.source == NODE_A and packet.ephemeral_public_key == bytes.fromhex(vector["ephemeral_key"])
    assert bool(packet.record) == vector["has_record"]
    if packet.record:
        assert decode_enr(packet.record).node_id == NODE_A
    digest = packets.id_signature_hash(challenge, packet.ephemeral_public_key, NODE_B)
    assert secp256k1.verify_compact(secp256k1.public_key(SECRET_A), digest, packet.id_signature)
    key, _ = packets.derive_keys(
        secp256k1.multiply_point(packet.ephemeral_public_key, SECRET_B), challenge, NODE_A, NODE_B
    )
    assert key == bytes.fromhex(vector["read_key"])
    plain = packets.decrypt(key, packet.nonce, packet.ciphertext, packet.authenticated_data)
    assert plain is not None and messages.decode(plain) == ping(vector)
    header = packets.handshake_header(
        *(NODE_A, NODE_B, packet.nonce, IV),
        signature=secp256k1.sign_recoverable(digest, SECRET_A)[:64],
        ephemeral_key=secp256k1.public_key(bytes.fromhex(vector["ephemeral_secret"])),
        record=packet.record,
    )
    assert header.packet(packets.encrypt(key, packet.nonce, messages.encode(ping(vector)), header.data)) == datagram


def test_ecdh() -> None:
    assert secp256k1.multiply_point(raw("ecdh", "public_key"), raw("ecdh", "secret")) == raw("ecdh", "shared")


def test_key_derivation() -> None:
    def value(name: str) -> bytes:
        return raw("key_derivation", name)

    shared = secp256k1.multiply_point(value("public_key"), value("ephemeral_secret"))
    keys = packets.derive_keys(shared, value("challenge"), value("node_a"), value("node_b"))
    assert keys == (value("initiator_key"), value("recipient_key"))


def test_identity_signature() -> None:
    def value(name: str) -> bytes:
        return raw("identity_signature", name)

    digest = packets.id_signature_hash(value("challenge"), value("ephemeral_key"), value("node_b"))
    assert secp256k1.sign_recoverable(digest, value("secret"))[:64] == value("signature")
    assert secp256k1.verify_compact(secp256k1.public_key(value("secret")), digest, value("signature"))


def test_message_encryption() -> None:
    key, nonce, plain, data, sealed = (raw("seal", name) for name in ("key", "nonce", "plain", "data", "sealed"))
    assert packets.encrypt(key, nonce, plain, data) == sealed
    assert packets.decrypt(key, nonce, sealed, data) == plain


def test_the_example_of_a_node_record() -> None:
    vector = VECTORS["record"]
    record = parse_enr(vector["text"])
    endpoint = Endpoint(parse_ip(vector["ip"]), vector["udp"])
    assert (record.node_id.hex(), record.seq, record.udp(4)) == (vector["node"], vector["seq"], endpoint)
    assert record.text == vector["text"]
    values = {b"ip": endpoint.ip.packed, b"udp": endpoint.port.to_bytes(2, "big")}
    assert sign_enr(bytes.fromhex(vector["secret"]), vector["seq"], values) == record
