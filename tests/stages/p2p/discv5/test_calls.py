"""Requests to nodes, and their responses."""

from typing import NamedTuple

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.discv5 import messages
from rollup_node.stages.p2p.discv5.calls import (
    CALL_TIMEOUT,
    ActiveCalls,
    DiscoveryPurpose,
    DiscoveryResult,
    OutgoingCall,
)
from rollup_node.stages.p2p.discv5.enr import log_distance
from rollup_node.stages.p2p.discv5.packet_codec import AuthenticMessage, PacketCodec, PacketDrop
from rollup_node.stages.p2p.discv5.packets import MessagePacket, WhoAreYou
from tests.support.p2p.discv5_nodes import contact_of, endpoint, record_of, secret_of, seeded

LOCAL_ENR = record_of("own")
PEER = record_of("peer", "127.0.0.2")
CONTACT = contact_of(PEER)
STRANGER = endpoint("127.0.0.3")
CHALLENGE = bytes(63)
OTHERS = [record_of(number, f"127.1.0.{number}") for number in range(1, 30)]


def active_calls() -> ActiveCalls:
    random = seeded("calls")
    return ActiveCalls(PacketCodec(secret_of("own"), random), random)


def response(message: messages.Discv5Message, at: object = CONTACT.endpoint) -> AuthenticMessage:
    return AuthenticMessage(PEER.node_id, at, message, None)  # type: ignore[arg-type]


def submitted_call(distances: tuple[int, ...] = ()) -> tuple[ActiveCalls, OutgoingCall]:
    calls, call = active_calls(), OutgoingCall(CONTACT, DiscoveryPurpose.REVALIDATE, distances)
    assert calls.submit(call, 1, 10.0)
    return calls, call


class Challenged(NamedTuple):
    """A call to a node that is about to answer our challenge of time 10.0."""

    calls: ActiveCalls
    call: OutgoingCall
    codec: PacketCodec
    peer: PacketCodec
    whoareyou: WhoAreYou


def challenged() -> Challenged:
    codec = PacketCodec(secret_of("own"), seeded("codec"))
    calls, call = ActiveCalls(codec, seeded("calls")), OutgoingCall(CONTACT, DiscoveryPurpose.REVALIDATE)
    peer = PacketCodec(secret_of("peer"), seeded("peer"))
    packet = codec.decode(peer.encode_random(codec.node_id).datagram, CONTACT.endpoint, 10.0)
    assert isinstance(packet, MessagePacket)
    challenge = codec.encode_whoareyou(packet, CONTACT.endpoint, None, 10.0)
    assert isinstance(challenge, bytes) and calls.submit(call, 1, 10.0)
    whoareyou = peer.decode(challenge, endpoint("127.0.0.1"), 10.0)
    assert isinstance(whoareyou, WhoAreYou)
    return Challenged(calls, call, codec, peer, whoareyou)


def test_a_request_waits_for_the_handshake_that_was_asked_for() -> None:
    calls, call, codec, peer, whoareyou = challenged()
    assert calls.has_call(PEER.node_id) and not calls.outbox
    calls.session_established(OTHERS[0].node_id, 10.1)
    assert not calls.outbox
    plaintext = messages.encode(messages.Ping(b"\x01", 1))
    handshake = peer.encode_handshake(contact_of(LOCAL_ENR), whoareyou, PEER, plaintext)
    assert handshake is not None
    assert isinstance(codec.decode(handshake, CONTACT.endpoint, 10.1), AuthenticMessage)
    calls.session_established(PEER.node_id, 10.1)
    (sent,) = calls.outbox
    received = peer.decode(sent.datagram, contact_of(LOCAL_ENR).endpoint, 10.1)
    assert isinstance(received, AuthenticMessage) and received.message.request_id == call.request_id
    calls.session_established(PEER.node_id, 10.2)
    assert len(calls.outbox) == 1


def test_a_request_waits_for_a_handshake_no_longer_than_for_a_response() -> None:
    calls, call, *_ = challenged()
    assert calls.expire(LOCAL_ENR, 10.0 + CALL_TIMEOUT / 2) == [] and not calls.outbox
    assert calls.expire(LOCAL_ENR, 10.0 + CALL_TIMEOUT) == []
    assert len(calls.outbox) == 1
    assert calls.expire(LOCAL_ENR, 10.1 + 2 * CALL_TIMEOUT) == [DiscoveryResult(call, False)]


def test_unsolicited_responses_are_dropped() -> None:
    calls, call = submitted_call()
    address = parse_ip("127.0.0.1")
    for wrong in (
        response(messages.Pong(b"other", 1, address, 9222)),
        response(messages.Pong(call.request_id, 1, address, 9222), STRANGER),
        response(messages.Nodes(call.request_id, 1, ())),
        response(messages.TalkResponse(call.request_id, b"")),
    ):
        assert calls.handle_response(wrong, LOCAL_ENR, 10.1) is PacketDrop.UNSOLICITED
    assert calls.count(DiscoveryPurpose.REVALIDATE) == 1


def test_part_of_the_responses_counts_after_the_timeout() -> None:
    calls, call = submitted_call((256,))
    first = response(messages.Nodes(call.request_id, 9, ()))
    assert calls.handle_response(first, LOCAL_ENR, 10.1) is None
    assert calls.expire(LOCAL_ENR, 10.2) == []
    assert calls.expire(LOCAL_ENR, 10.0 + CALL_TIMEOUT) == [DiscoveryResult(call, True)]


def test_invalid_and_unrequested_records_are_skipped() -> None:
    at_other_distance = next(record for record in OTHERS if log_distance(record.node_id, PEER.node_id) < 256)
    at_distance = next(record for record in OTHERS if log_distance(record.node_id, PEER.node_id) == 256)
    calls, call = submitted_call((256,))
    raws = (at_other_distance.raw, b"\xc0", at_distance.raw[:-1] + b"\0", at_distance.raw)
    assert calls.handle_response(
        response(messages.Nodes(call.request_id, 0, raws)), LOCAL_ENR, 10.1
    ) == DiscoveryResult(call, True)
    assert list(call.records.values()) == [at_distance]


def test_at_most_sixteen_records_are_accepted() -> None:
    records = [record for record in map(record_of, range(100, 160)) if log_distance(record.node_id, PEER.node_id) > 250]
    calls, call = submitted_call(tuple(range(250, 257)))
    for start in range(0, len(records), 3):
        part = messages.Nodes(call.request_id, 255, tuple(record.raw for record in records[start : start + 3]))
        if calls.handle_response(response(part), LOCAL_ENR, 10.1) is not None:
            break
    assert call.responses == 16 and len(call.records) == 16


def test_one_request_at_a_time_is_sent_to_a_node() -> None:
    calls, first = submitted_call()
    others = [OutgoingCall(CONTACT, DiscoveryPurpose.FETCH, (0,)) for _ in range(6)]
    assert [calls.submit(call, 1, 10.0) for call in others] == [True] * 4 + [False] * 2
    assert len(calls.outbox) == 1 and len(calls) == 1
    assert [result.call for result in calls.expire(LOCAL_ENR, 11.0)] == [first]
    assert len(calls.outbox) == 2
    for number in range(4):
        assert [result.call for result in calls.expire(LOCAL_ENR, 12.0 + number)] == [others[number]]
    assert len(calls) == 0 and not calls._queued and not calls._by_nonce


def test_a_whoareyou_is_answered_once_and_from_the_right_address() -> None:
    calls, call = submitted_call()
    whoareyou = WhoAreYou(call.nonce, 0, CHALLENGE)
    assert not calls.handle_whoareyou(whoareyou, STRANGER, LOCAL_ENR, 10.5)
    assert not calls.handle_whoareyou(whoareyou._replace(nonce=bytes(12)), CONTACT.endpoint, LOCAL_ENR, 10.5)
    assert calls.handle_whoareyou(whoareyou, CONTACT.endpoint, LOCAL_ENR, 10.5)
    assert not calls.handle_whoareyou(whoareyou, CONTACT.endpoint, LOCAL_ENR, 10.5)
    assert len(calls.outbox) == 2 and call.deadline == 10.5 + CALL_TIMEOUT


def test_request_ids_do_not_begin_with_zero() -> None:
    calls = ActiveCalls(PacketCodec(secret_of("own"), seeded("x")), bytes)
    call = OutgoingCall(CONTACT, DiscoveryPurpose.REVALIDATE)
    calls.submit(call, 1, 10.0)
    assert call.request_id == b"\x01" + bytes(7)
