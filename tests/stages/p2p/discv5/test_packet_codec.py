"""Handshakes between two packet codecs, step by step."""

import pytest

from rollup_node.stages.p2p.discv5 import messages
from rollup_node.stages.p2p.discv5.enr import Enr
from rollup_node.stages.p2p.discv5.messages import Ping
from rollup_node.stages.p2p.discv5.packet_codec import AuthenticMessage, PacketCodec, PacketDrop
from rollup_node.stages.p2p.discv5.packets import MessagePacket, WhoAreYou
from tests.support.p2p.discv5_nodes import contact_of, endpoint, record_of, secret_of, seeded

A_ENDPOINT, B_ENDPOINT = endpoint("127.0.0.1"), endpoint("127.0.0.2")
A_RECORD, B_RECORD = record_of("a", "127.0.0.1"), record_of("b", "127.0.0.2")
PING = Ping(b"\x01", 1)
PLAINTEXT = messages.encode(PING)
NOW = 100.0


class CodecPair:
    """The codecs of nodes a and b; a initiates."""

    def __init__(self) -> None:
        self.a, self.b = PacketCodec(secret_of("a"), seeded("a")), PacketCodec(secret_of("b"), seeded("b"))

    def challenge(self, known: Enr | None = None, now: float = NOW) -> WhoAreYou:
        packet = self.a.encode_random(self.b.node_id)
        received = self.b.decode(packet.datagram, A_ENDPOINT, now)
        assert isinstance(received, MessagePacket) and received.nonce == packet.nonce
        datagram = self.b.encode_whoareyou(received, A_ENDPOINT, contact_of(known) if known else None, now)
        assert isinstance(datagram, bytes) and len(datagram) < len(packet.datagram)
        whoareyou = self.a.decode(datagram, B_ENDPOINT, now)
        assert isinstance(whoareyou, WhoAreYou) and whoareyou.nonce == packet.nonce
        return whoareyou

    def handshake(self, whoareyou: WhoAreYou, record: Enr = A_RECORD, plaintext: bytes = PLAINTEXT) -> bytes:
        datagram = self.a.encode_handshake(contact_of(B_RECORD), whoareyou, record, plaintext)
        assert datagram is not None
        return datagram


@pytest.fixture
def pair() -> CodecPair:
    return CodecPair()


def test_a_handshake_with_an_unknown_node_carries_the_record(pair: CodecPair) -> None:
    datagram = pair.handshake(pair.challenge())
    assert pair.b.decode(datagram, A_ENDPOINT, NOW) == AuthenticMessage(pair.a.node_id, A_ENDPOINT, PING, A_RECORD)
    for one, other, at, seen in ((pair.b, pair.a, A_ENDPOINT, B_ENDPOINT), (pair.a, pair.b, B_ENDPOINT, A_ENDPOINT)):
        packet = one.encode_message(other.node_id, at, PLAINTEXT)
        assert packet is not None
        assert other.decode(packet.datagram, seen, NOW) == AuthenticMessage(one.node_id, seen, PING, None)


def test_a_handshake_works_once_in_time_and_from_one_address(pair: CodecPair) -> None:
    datagram = pair.handshake(pair.challenge())
    assert pair.b.decode(datagram, B_ENDPOINT, NOW) is PacketDrop.UNSOLICITED
    assert pair.b.decode(datagram, A_ENDPOINT, NOW + 2) is PacketDrop.UNSOLICITED
    assert isinstance(pair.b.decode(datagram, A_ENDPOINT, NOW), AuthenticMessage)
    assert pair.b.decode(datagram, A_ENDPOINT, NOW) is PacketDrop.UNSOLICITED


def test_an_unknown_node_without_a_record_is_dropped_and_may_retry(pair: CodecPair) -> None:
    whoareyou = pair.challenge()
    without_record = pair.handshake(whoareyou._replace(enr_seq=A_RECORD.seq))
    assert pair.b.decode(without_record, A_ENDPOINT, NOW) is PacketDrop.BAD_HANDSHAKE
    assert isinstance(pair.b.decode(pair.handshake(whoareyou), A_ENDPOINT, NOW), AuthenticMessage)


@pytest.mark.parametrize("part", ["signature", "ephemeral_key", "record", "ciphertext", "data"])
def test_a_handshake_with_a_changed_byte_is_dropped(pair: CodecPair, part: str) -> None:
    whoareyou = pair.challenge()
    datagram = pair.handshake(whoareyou)
    at = {"signature": 16 + 23 + 34, "ephemeral_key": 16 + 23 + 34 + 64 + 5, "record": 16 + 23 + 34 + 97 + 40}
    index = at.get(part, len(datagram) - 1 if part == "ciphertext" else 0)
    changed = bytearray(datagram)
    changed[index] ^= 1
    assert pair.b.decode(bytes(changed), A_ENDPOINT, NOW) in (PacketDrop.BAD_HANDSHAKE, PacketDrop.NOT_A_PACKET)
    assert len(pair.b.sessions) == 0
    assert isinstance(pair.b.decode(datagram, A_ENDPOINT, NOW), AuthenticMessage)


def test_a_message_with_our_own_id_is_dropped(pair: CodecPair) -> None:
    mirror = PacketCodec(secret_of("b"), seeded("mirror"))
    assert pair.b.decode(mirror.encode_random(pair.b.node_id).datagram, A_ENDPOINT, NOW) is PacketDrop.OWN_ID


def test_a_handshake_with_a_malformed_message_establishes_the_session_only(pair: CodecPair) -> None:
    handshake = pair.handshake(pair.challenge(), plaintext=b"\x09")
    assert pair.b.decode(handshake, A_ENDPOINT, NOW) is PacketDrop.NOT_A_MESSAGE
    assert len(pair.b.sessions) == 1


def test_a_node_with_an_invalid_key_is_not_answered(pair: CodecPair) -> None:
    contact = contact_of(B_RECORD)._replace(public_key=bytes(33))
    assert pair.a.encode_handshake(contact, pair.challenge(), A_RECORD, PLAINTEXT) is None


def test_challenges_are_limited_per_address_and_in_total(pair: CodecPair) -> None:
    packet = pair.b.decode(pair.a.encode_random(pair.b.node_id).datagram, A_ENDPOINT, NOW)
    assert isinstance(packet, MessagePacket)
    one = [pair.b.encode_whoareyou(packet, A_ENDPOINT, None, NOW) for _ in range(100)]
    assert sum(isinstance(result, bytes) for result in one) == 60
    many = [pair.b.encode_whoareyou(packet, endpoint(f"127.0.{n >> 8}.{n & 255}"), None, NOW) for n in range(2000)]
    assert sum(isinstance(result, bytes) for result in many) == 540
    known = contact_of(record_of("known", "127.8.8.8"))
    assert isinstance(pair.b.encode_whoareyou(packet, known.endpoint, known, NOW), bytes)
    assert pair.b.encode_whoareyou(packet, endpoint("127.8.8.9"), known, NOW) is PacketDrop.TOO_MANY_CHALLENGES
