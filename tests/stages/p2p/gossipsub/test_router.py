"""The router with scripted peers: subscriptions, messages from arrival to forwarding, queues."""

import pytest

from rollup_node.stages.p2p.gossipsub.params import FLOODSUB, MESHSUB_10, MESHSUB_11, GossipParams
from rollup_node.stages.p2p.gossipsub.peers import TraceEvent
from rollup_node.stages.p2p.gossipsub.router import MalformedRpc
from rollup_node.stages.p2p.gossipsub.rpc import (
    ControlMessage,
    Prune,
    PubsubMessage,
    Rpc,
    Subscription,
    decode_rpc,
    encode_rpc,
)
from rollup_node.stages.p2p.gossipsub.validation_queue import UnvalidatedMessage, ValidationResult
from tests.support.p2p.gossip_routers import OTHER_TOPIC, TOPIC, RouterHarness, compressed, id_of, read_frames

LARGE = bytes(range(256)) * 8


def test_hello_has_our_topics(harness: RouterHarness) -> None:
    harness.router.add_peer(b"a", MESHSUB_11, True, ["10.0.0.1"])
    assert harness.router.take_ready() == [b"a"] and harness.router.take_ready() == []
    assert harness.sent_to(b"a").subscriptions == [Subscription(TOPIC, True)]
    assert harness.sent_to(b"a").rpcs == [] and harness.router.take_event_counts()[TraceEvent.JOIN] == 1


def test_only_our_topics_are_joined(harness: RouterHarness) -> None:
    a = harness.add_peer("a", joins=False)
    harness.receive(a, Rpc(subscriptions=[Subscription(f"/t/{n}", True) for n in range(1000)]))
    harness.receive(a, Rpc(subscriptions=[Subscription(TOPIC, True)]))
    assert set(harness.router.peers.topics) == {TOPIC}
    harness.receive(a, Rpc(subscriptions=[Subscription(TOPIC, False), Subscription(TOPIC, True)]))
    assert list(harness.router.peers.topic_peers(TOPIC)) == [a], "contradictory subscriptions in one RPC are ignored"
    harness.receive(a, Rpc(subscriptions=[Subscription(TOPIC, False)]))
    assert list(harness.router.peers.topic_peers(TOPIC)) == []


def test_a_message_is_forwarded_after_its_validation_result(harness: RouterHarness) -> None:
    a, b, c = harness.add_members(3)
    result = harness.receive_message(a, b"block")
    assert result == [UnvalidatedMessage(id_of(b"block"), TOPIC, a, b"block")]
    assert not harness.sent_to(b).messages
    assert harness.router.report_validation_result(result[0].id, ValidationResult.ACCEPT, harness.now) == 2
    assert harness.sent_to(b).messages == harness.sent_to(c).messages == [PubsubMessage(TOPIC, compressed(b"block"))]
    assert not harness.sent_to(a).messages
    assert harness.router.report_validation_result(result[0].id, ValidationResult.ACCEPT, harness.now) == 0, (
        "a second result changes nothing"
    )


@pytest.mark.parametrize("result", [ValidationResult.IGNORE, ValidationResult.REJECT])
def test_ignored_and_rejected_messages_are_not_forwarded(harness: RouterHarness, result: ValidationResult) -> None:
    a, b = harness.add_members(2)
    (incoming,) = harness.receive_message(a, b"block")
    assert harness.router.report_validation_result(incoming.id, result, harness.now) == 0
    assert not harness.sent_to(b).messages and harness.receive_message(b, b"block") == []
    harness.receive_control(b, iwant=[incoming.id])
    assert not harness.sent_to(b).messages
    assert harness.router.take_event_counts()[TraceEvent.REJECT_MESSAGE] == 1
    assert harness.scorer.score(a) == 0.0, "topics are not scored"


def test_messages_of_other_topics_are_ignored(harness: RouterHarness) -> None:
    (a,) = harness.add_members(1)
    assert harness.receive_message(a, b"block", OTHER_TOPIC) == [] == harness.receive_message(a, b"block", "/else")


def test_signed_messages_are_rejected_without_validation(harness: RouterHarness) -> None:
    a, b = harness.add_members(2)
    raw = encode_rpc(Rpc(messages=[PubsubMessage(TOPIC, compressed(b"block"))]))
    authored = raw[:1] + bytes([raw[1] + 3]) + b"\x0a\x01z" + raw[2:]
    assert decode_rpc(authored).messages[0].is_signed
    assert harness.router.receive_rpc(a, authored, harness.now) == []
    assert harness.router.take_event_counts()[TraceEvent.REJECT_MESSAGE] == 1
    assert len(harness.receive_message(b, b"block")) == 1


def test_validation_times_out_to_ignore(harness: RouterHarness) -> None:
    a, b = harness.add_members(2)
    (incoming,) = harness.receive_message(a, b"block")
    harness.heartbeats(7)
    assert len(harness.router.validation_queue.pending) == 0
    assert harness.router.report_validation_result(incoming.id, ValidationResult.ACCEPT, harness.now) == 0
    assert not harness.sent_to(b).messages


def test_publishing_to_the_mesh(harness: RouterHarness) -> None:
    members = harness.add_members(8)
    non_member = harness.add_peer("out")
    assert harness.router.publish(TOPIC, compressed(b"own"), harness.now) == 8
    assert all(harness.sent_to(peer).messages == [PubsubMessage(TOPIC, compressed(b"own"))] for peer in members)
    assert not harness.sent_to(non_member).messages
    assert harness.router.publish(TOPIC, compressed(b"own"), harness.now) is None
    counts = harness.router.take_event_counts()
    assert (counts[TraceEvent.PUBLISH_MESSAGE], counts[TraceEvent.DELIVER_MESSAGE]) == (1, 1)
    assert harness.receive_message(members[0], b"own") == [], "our own message is not delivered to us"


def test_publishing_is_flooded_while_the_mesh_is_small(harness: RouterHarness) -> None:
    harness.add_members(2)
    non_member = harness.add_peer("out")
    bad = harness.add_peer("bad")
    harness.scorer.add_penalty(bad, 8)
    assert harness.router.publish(TOPIC, compressed(b"own"), harness.now) == 3
    assert harness.sent_to(non_member).messages and not harness.sent_to(bad).messages


def test_publishing_is_flooded_where_that_is_configured() -> None:
    harness = RouterHarness(GossipParams(flood_publish=True))
    harness.add_members(8)
    harness.add_peer("out")
    assert harness.router.publish(TOPIC, compressed(b"own"), harness.now) == 9


def test_floodsub_peers_get_everything_and_are_in_no_mesh(harness: RouterHarness) -> None:
    (a,) = harness.add_members(1)
    old = harness.add_peer("old", protocol=FLOODSUB)
    harness.accept(a, b"block")
    assert harness.sent_to(old).messages
    harness.heartbeats(3)
    assert old not in harness.mesh and not harness.sent_to(old).rpcs


def test_idontwant_is_sent_for_large_messages(harness: RouterHarness) -> None:
    a, b, c = harness.add_members(3)
    old = harness.add_peer("old", protocol=MESHSUB_11)
    harness.receive_control(old, graft=[TOPIC])
    content = b"".join(bytes([n]) + LARGE[n:] for n in range(0, 200, 9))
    assert len(compressed(content)) >= 1024
    (incoming,) = harness.receive_message(a, content)
    assert harness.sent_to(b).idontwant == harness.sent_to(c).idontwant == [incoming.id]
    assert not harness.sent_to(a).idontwant and not harness.sent_to(old).idontwant
    harness.receive_message(a, b"small")
    assert not harness.sent_to(b).rpcs


def test_messages_are_not_sent_after_idontwant(harness: RouterHarness) -> None:
    a, b, c = harness.add_members(3)
    harness.receive_control(b, idontwant=[id_of(b"block")])
    assert harness.accept(a, b"block") == 1 and not harness.sent_to(b).messages
    harness.receive_control(b, idontwant=[id_of(b"later")])
    harness.heartbeats(3)
    assert harness.accept(a, b"later") == 2, "IDONTWANT expires after three heartbeats"
    assert harness.sent_to(c).messages


def test_queues_are_bounded_and_prune_is_sent_later() -> None:
    harness = RouterHarness(GossipParams(outbound_queue_size=4))
    a, b = harness.add_members(2)
    for number in range(6):
        harness.accept(a, bytes([number]))
    assert harness.router.take_event_counts()[TraceEvent.DROP_RPC] == 2
    harness.router.meshes.backoff.add(TOPIC, b, 60.0, harness.now)
    harness.router.meshes.remove_peer(b)
    for _ in range(5):
        harness.receive_control(b, graft=[TOPIC])
    assert harness.router.peers.states[b].pending_prunes == {TOPIC: Prune(TOPIC, 60)}
    assert len(harness.sent_to(b).messages) == 4
    harness.heartbeats()
    assert harness.sent_to(b).prune == [Prune(TOPIC, 60)]
    harness.heartbeats()
    assert not harness.sent_to(b).prune


def test_a_graft_that_found_no_room_is_sent_while_it_holds() -> None:
    harness = RouterHarness(GossipParams(outbound_queue_size=1))
    a, b = harness.add_peer("a"), harness.add_peer("b")
    for peer in (a, b):
        harness.router.peers.send(peer, Rpc(subscriptions=[Subscription(TOPIC, True)]))
    harness.heartbeats()
    assert set(harness.mesh) == {a, b}
    harness.sent_to(a)
    harness.sent_to(b)
    harness.receive_control(b, prune=[Prune(TOPIC, 60)])
    harness.heartbeats()
    assert harness.sent_to(a).graft == [TOPIC] and harness.sent_to(b).graft == []


def test_frames_are_shared_between_queues(harness: RouterHarness) -> None:
    a, b, c = harness.add_members(3)
    harness.accept(a, b"block")
    assert harness.router.next_frame(b) is harness.router.next_frame(c)


def test_a_frame_above_the_limit_is_not_sent(harness: RouterHarness) -> None:
    harness.add_members(8)
    payload = bytes(10 << 20)
    assert harness.router.publish(TOPIC, b"\xff" + payload, harness.now) == 0


def test_a_graylisted_peer_is_ignored(harness: RouterHarness) -> None:
    a, b = harness.add_members(2)
    harness.scorer.add_penalty(a, 8)
    assert harness.receive_message(a, b"block") == []
    harness.receive(a, Rpc(subscriptions=[Subscription(TOPIC, False)], control=ControlMessage(graft=[TOPIC])))
    assert a not in harness.mesh and list(harness.router.peers.topic_peers(TOPIC)) == [b]
    assert len(harness.receive_message(b, b"block")) == 1


def test_subscriptions_before_add_peer_are_kept(harness: RouterHarness) -> None:
    early = Rpc([Subscription(TOPIC, True), Subscription("/else", True)], [PubsubMessage(TOPIC, compressed(b"block"))])
    assert harness.receive(b"early", early) == []
    harness.add_peer("early", joins=False)
    assert list(harness.router.peers.topic_peers(TOPIC)) == [b"early"]
    for number in range(1100):
        harness.receive(number.to_bytes(4, "big"), early)
    harness.router.remove_peer((1098).to_bytes(4, "big"), harness.now)
    for number in (99, 100, 1098, 1099):
        harness.router.add_peer(number.to_bytes(4, "big"), MESHSUB_11, False, ["10.0.0.1"])
    kept = [number.to_bytes(4, "big") for number in (100, 1099)]
    assert list(harness.router.peers.topic_peers(TOPIC)) == [b"early", *kept], (
        "of the last thousand peers, unless removed"
    )


def test_peers_that_reconnect_and_leave(harness: RouterHarness) -> None:
    a, b = harness.add_members(2)
    harness.router.add_peer(a, MESHSUB_10, True, ["10.0.0.1"])
    assert harness.mesh == [b] and list(harness.router.peers.topic_peers(TOPIC)) == [b, a], "its subscriptions are kept"
    assert harness.sent_to(a).subscriptions == [Subscription(TOPIC, True)]
    harness.router.remove_peer(a, harness.now)
    harness.router.remove_peer(a, harness.now)
    assert harness.router.next_frame(a) is None and harness.router.receive_rpc(a, b"", harness.now) == []
    (incoming,) = harness.receive_message(b, b"block")
    harness.router.remove_peer(b, harness.now)
    assert harness.router.report_validation_result(incoming.id, ValidationResult.REJECT, harness.now) == 0
    counts = harness.router.take_event_counts()
    assert (counts[TraceEvent.ADD_PEER], counts[TraceEvent.REMOVE_PEER]) == (
        3,
        3,
    ) and not harness.router.take_event_counts()


def test_malformed_rpcs_are_reported(harness: RouterHarness) -> None:
    (a,) = harness.add_members(1)
    result = harness.router.receive_rpc(a, b"\x12\x05ab", harness.now)
    assert isinstance(result, MalformedRpc) and "ends within" in result.error
    assert read_frames([]) == []
