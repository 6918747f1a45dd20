"""Handshakes between two channels, step by step."""

import pytest

from rollup_node.stages.p2p.discv5 import messages, packets
from rollup_node.stages.p2p.discv5.enr import Enr
from rollup_node.stages.p2p.discv5.messages import Ping
from rollup_node.stages.p2p.discv5.packet_codec import AuthenticMessage, PacketCodec, PacketDrop
from rollup_node.stages.p2p.discv5.packets import MessagePacket, WhoAreYou
from tests.support.discv5_nodes import contact_of, endpoint, record_of, secret_of, seeded

A_AT, B_AT = endpoint("127.0.0.1"), endpoint("127.0.0.2")
A_RECORD, B_RECORD = record_of("a", "127.0.0.1"), record_of("b", "127.0.0.2")
PING = Ping(b"\x01", 1)
PLAIN = messages.encode(PING)
NOW = 100.0


class Two:
    """Channels of the nodes a and b; a begins."""

    def __init__(self) -> None:
        self.a, self.b = PacketCodec(secret_of("a"), seeded("a")), PacketCodec(secret_of("b"), seeded("b"))

    def challenge(self, known: Enr | None = None, now: float = NOW) -> WhoAreYou:
        knock = self.a.encode_random(self.b.node_id)
        received = self.b.decode(knock.datagram, A_AT, now)
        assert isinstance(received, MessagePacket) and received.nonce == knock.nonce
        datagram = self.b.encode_whoareyou(received, A_AT, contact_of(known) if known else None, now)
        assert isinstance(datagram, bytes) and len(datagram) < len(knock.datagram)
        whoareyou = self.a.decode(datagram, B_AT, now)
        assert isinstance(whoareyou, WhoAreYou) and whoareyou.nonce == knock.nonce
        return whoareyou

    def handshake(self, whoareyou: WhoAreYou, record: Enr = A_RECORD, plain: bytes = PLAIN) -> bytes:
        datagram = self.a.encode_handshake(contact_of(B_RECORD), whoareyou, record, plain)
        assert datagram is not None
        return datagram


def test_a_handshake_with_an_unknown_node_carries_the_record() -> None:
    two = Two()
    datagram = two.handshake(two.challenge())
    assert two.b.decode(datagram, A_AT, NOW) == AuthenticMessage(two.a.node_id, A_AT, PING, A_RECORD)
    for one, other, at, seen in ((two.b, two.a, A_AT, B_AT), (two.a, two.b, B_AT, A_AT)):
        sealed = one.encode_message(other.node_id, at, PLAIN)
        assert sealed is not None
        assert other.decode(sealed.datagram, seen, NOW) == AuthenticMessage(one.node_id, seen, PING, None)


def test_a_known_record_is_not_sent_again() -> None:
    two = Two()
    known, unknown = two.handshake(two.challenge(A_RECORD)), two.handshake(two.challenge())
    assert len(unknown) - len(known) == len(A_RECORD.raw)
    assert two.b.decode(known, A_AT, NOW) == AuthenticMessage(two.a.node_id, A_AT, PING, A_RECORD)


def test_a_newer_record_is_sent() -> None:
    two = Two()
    newer = record_of("a", "127.0.0.1", 9999, seq=2)
    received = two.b.decode(two.handshake(two.challenge(A_RECORD), newer), A_AT, NOW)
    assert isinstance(received, AuthenticMessage) and received.record == newer


def test_a_handshake_works_once_in_time_and_from_one_address() -> None:
    two = Two()
    datagram = two.handshake(two.challenge())
    assert two.b.decode(datagram, B_AT, NOW) is PacketDrop.UNSOLICITED
    assert two.b.decode(datagram, A_AT, NOW + 2) is PacketDrop.UNSOLICITED
    assert isinstance(two.b.decode(datagram, A_AT, NOW), AuthenticMessage)
    assert two.b.decode(datagram, A_AT, NOW) is PacketDrop.UNSOLICITED


@pytest.mark.parametrize("record", [record_of("else"), record_of("a", "127.0.0.1", 1, seq=9)])
def test_the_record_of_a_handshake_must_be_the_senders(record: Enr) -> None:
    two = Two()
    datagram = two.handshake(two.challenge(), record)
    expected = record.node_id == two.a.node_id
    assert isinstance(two.b.decode(datagram, A_AT, NOW), AuthenticMessage) == expected


def test_an_unknown_node_without_a_record_is_dropped_and_may_retry() -> None:
    two = Two()
    whoareyou = two.challenge()
    without = two.handshake(whoareyou._replace(enr_seq=A_RECORD.seq))
    assert two.b.decode(without, A_AT, NOW) is PacketDrop.BAD_HANDSHAKE
    assert isinstance(two.b.decode(two.handshake(whoareyou), A_AT, NOW), AuthenticMessage)


@pytest.mark.parametrize("part", ["signature", "ephemeral_key", "record", "sealed", "data"])
def test_a_handshake_with_a_changed_byte_is_dropped(part: str) -> None:
    two = Two()
    whoareyou = two.challenge()
    datagram = two.handshake(whoareyou)
    at = {"signature": 16 + 23 + 34, "ephemeral_key": 16 + 23 + 34 + 64 + 5, "record": 16 + 23 + 34 + 97 + 40}
    index = at.get(part, len(datagram) - 1 if part == "sealed" else 0)
    changed = bytearray(datagram)
    changed[index] ^= 1
    assert two.b.decode(bytes(changed), A_AT, NOW) in (PacketDrop.BAD_HANDSHAKE, PacketDrop.NOT_A_PACKET)
    assert len(two.b.sessions) == 0
    assert isinstance(two.b.decode(datagram, A_AT, NOW), AuthenticMessage)


def test_a_handshake_may_answer_any_of_the_last_challenges() -> None:
    two = Two()
    first, second = two.challenge(), two.challenge()
    assert isinstance(two.b.decode(two.handshake(first), A_AT, NOW), AuthenticMessage)
    assert two.b.decode(two.handshake(second), A_AT, NOW) is PacketDrop.UNSOLICITED


def test_a_message_with_our_own_id_is_dropped() -> None:
    two = Two()
    mirror = PacketCodec(secret_of("b"), seeded("mirror"))
    assert two.b.decode(mirror.encode_random(two.b.node_id).datagram, A_AT, NOW) is PacketDrop.OWN_ID


def test_a_handshake_with_a_malformed_message_establishes_the_session_only() -> None:
    two = Two()
    assert two.b.decode(two.handshake(two.challenge(), plain=b"\x09"), A_AT, NOW) is PacketDrop.NOT_A_MESSAGE
    assert len(two.b.sessions) == 1


def test_a_node_with_an_invalid_key_is_not_answered() -> None:
    two = Two()
    contact = contact_of(B_RECORD)._replace(public_key=bytes(33))
    assert two.a.encode_handshake(contact, two.challenge(), A_RECORD, PLAIN) is None


def test_challenges_are_limited_per_address_and_in_total() -> None:
    two = Two()
    knock = two.b.decode(two.a.encode_random(two.b.node_id).datagram, A_AT, NOW)
    assert isinstance(knock, MessagePacket)
    one = [two.b.encode_whoareyou(knock, A_AT, None, NOW) for _ in range(100)]
    assert sum(isinstance(found, bytes) for found in one) == 60
    many = [two.b.encode_whoareyou(knock, endpoint(f"127.0.{n >> 8}.{n & 255}"), None, NOW) for n in range(2000)]
    assert sum(isinstance(found, bytes) for found in many) == 540
    known = contact_of(record_of("friend", "127.8.8.8"))
    assert isinstance(two.b.encode_whoareyou(knock, known.endpoint, known, NOW), bytes)
    assert two.b.encode_whoareyou(knock, endpoint("127.8.8.9"), known, NOW) is PacketDrop.TOO_MANY_CHALLENGES


def test_without_a_session_no_message_is_encrypted() -> None:
    two = Two()
    assert two.a.encode_message(two.b.node_id, B_AT, PLAIN) is None
    assert len(two.a.encode_random(two.b.node_id).datagram) >= packets.MIN_PACKET_BYTES
