"""Requests and their answers."""

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.discv5 import messages
from rollup_node.stages.p2p.discv5.calls import (
    CALL_TIMEOUT,
    ActiveCalls,
    CallPurpose,
    CallResult,
    OutgoingCall,
    ResponseStatus,
)
from rollup_node.stages.p2p.discv5.contact import log_distance
from rollup_node.stages.p2p.discv5.packet_codec import AuthenticMessage, PacketCodec
from rollup_node.stages.p2p.discv5.packets import WhoAreYou
from tests.support.discv5_nodes import contact_of, endpoint, record_of, secret_of, seeded

OWN = record_of("own")
PEER = record_of("peer", "127.0.0.2")
CONTACT = contact_of(PEER)
STRANGER = endpoint("127.0.0.3")
CHALLENGE = bytes(63)
OTHERS = [record_of(number, f"127.1.0.{number}") for number in range(1, 30)]


def calls() -> ActiveCalls:
    random = seeded("calls")
    return ActiveCalls(PacketCodec(secret_of("own"), random), random)


def delivered(message: messages.Discv5Message, at: object = CONTACT.endpoint) -> AuthenticMessage:
    return AuthenticMessage(PEER.node_id, at, message, None)  # type: ignore[arg-type]


def asked(distances: tuple[int, ...] = ()) -> tuple[ActiveCalls, OutgoingCall]:
    found, call = calls(), OutgoingCall(CONTACT, CallPurpose.REVALIDATE, distances)
    assert found.submit(call, 1, 10.0)
    return found, call


def test_a_ping_is_answered() -> None:
    found, call = asked()
    assert found.outbox[0].endpoint == CONTACT.endpoint and found.has_call(PEER.node_id)
    pong = messages.Pong(call.request_id, 1, parse_ip("127.0.0.1"), 9222)
    assert found.handle_response(delivered(pong), OWN, 10.1) == CallResult(call, True, pong)
    assert found.handle_response(delivered(pong), OWN, 10.1) is ResponseStatus.UNSOLICITED
    assert not found.has_call(PEER.node_id)


def test_unsolicited_responses_are_dropped() -> None:
    found, call = asked()
    address = parse_ip("127.0.0.1")
    for wrong in (
        delivered(messages.Pong(b"other", 1, address, 9222)),
        delivered(messages.Pong(call.request_id, 1, address, 9222), STRANGER),
        delivered(messages.Nodes(call.request_id, 1, ())),
        delivered(messages.TalkResponse(call.request_id, b"")),
    ):
        assert found.handle_response(wrong, OWN, 10.1) is ResponseStatus.UNSOLICITED
    assert found.count(CallPurpose.REVALIDATE) == 1


def test_nodes_responses_come_in_parts() -> None:
    distance = 256
    records = [record for record in OTHERS if log_distance(record.node_id, PEER.node_id) == distance][:4]
    found, call = asked((distance,))
    parts = [
        messages.Nodes(call.request_id, 2, tuple(record.raw for record in half)) for half in (records[:2], records[2:])
    ]
    assert found.handle_response(delivered(parts[0]), OWN, 10.1) is ResponseStatus.INCOMPLETE
    assert found.handle_response(delivered(parts[1]), OWN, 10.2) == CallResult(call, True)
    assert list(call.records.values()) == records


def test_part_of_the_responses_counts_after_the_timeout() -> None:
    found, call = asked((256,))
    assert (
        found.handle_response(delivered(messages.Nodes(call.request_id, 9, ())), OWN, 10.1) is ResponseStatus.INCOMPLETE
    )
    assert found.expire(OWN, 10.2) == []
    assert found.expire(OWN, 10.0 + CALL_TIMEOUT) == [CallResult(call, True)]


def test_invalid_and_unrequested_records_are_skipped() -> None:
    far = next(record for record in OTHERS if log_distance(record.node_id, PEER.node_id) < 256)
    near = next(record for record in OTHERS if log_distance(record.node_id, PEER.node_id) == 256)
    found, call = asked((256,))
    raws = (far.raw, b"\xc0", near.raw[:-1] + b"\0", near.raw)
    assert found.handle_response(delivered(messages.Nodes(call.request_id, 0, raws)), OWN, 10.1) == CallResult(
        call, True
    )
    assert list(call.records.values()) == [near]


def test_at_most_sixteen_records_are_accepted() -> None:
    records = [record for record in map(record_of, range(100, 160)) if log_distance(record.node_id, PEER.node_id) > 250]
    found, call = asked(tuple(range(250, 257)))
    for start in range(0, len(records), 3):
        part = messages.Nodes(call.request_id, 255, tuple(record.raw for record in records[start : start + 3]))
        if found.handle_response(delivered(part), OWN, 10.1) is not ResponseStatus.INCOMPLETE:
            break
    assert call.responses == 16 and len(call.records) == 16


def test_one_request_at_a_time_is_sent_to_a_node() -> None:
    found, first = asked()
    others = [OutgoingCall(CONTACT, CallPurpose.FETCH, (0,)) for _ in range(6)]
    assert [found.submit(call, 1, 10.0) for call in others] == [True] * 4 + [False] * 2
    assert len(found.outbox) == 1 and len(found) == 1
    assert [outcome.call for outcome in found.expire(OWN, 11.0)] == [first]
    assert len(found.outbox) == 2
    for number in range(4):
        assert [outcome.call for outcome in found.expire(OWN, 12.0 + number)] == [others[number]]
    assert len(found) == 0 and not found._queued and not found._by_nonce


def test_a_whoareyou_is_answered_once_and_from_the_right_address() -> None:
    found, call = asked()
    whoareyou = WhoAreYou(call.nonce, 0, CHALLENGE)
    assert not found.handle_whoareyou(whoareyou, STRANGER, OWN, 10.5)
    assert not found.handle_whoareyou(whoareyou._replace(nonce=bytes(12)), CONTACT.endpoint, OWN, 10.5)
    assert found.handle_whoareyou(whoareyou, CONTACT.endpoint, OWN, 10.5)
    assert not found.handle_whoareyou(whoareyou, CONTACT.endpoint, OWN, 10.5)
    assert len(found.outbox) == 2 and call.deadline == 10.5 + CALL_TIMEOUT


def test_request_ids_do_not_begin_with_zero() -> None:
    found = ActiveCalls(PacketCodec(secret_of("own"), seeded("x")), bytes)
    call = OutgoingCall(CONTACT, CallPurpose.REVALIDATE)
    found.submit(call, 1, 10.0)
    assert call.request_id == b"\x01" + bytes(7)
