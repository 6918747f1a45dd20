"""The router among peers played by the test: topics, messages from arrival to forwarding, queues."""

import pytest

from rollup_node.stages.p2p.encoding.snappy import SnappyFailure
from rollup_node.stages.p2p.gossipsub.message import UnvalidatedMessage, ValidationResult
from rollup_node.stages.p2p.gossipsub.params import FLOODSUB, MESHSUB_10, MESHSUB_11, GossipParams
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
from rollup_node.stages.p2p.gossipsub.trace_events import TraceEvent
from tests.support.gossip_world import OTHER_TOPIC, TOPIC, World, id_of, packed, read_frames

LARGE = bytes(range(256)) * 8


def test_a_peer_is_told_of_our_topics() -> None:
    world = World()
    world.router.add_peer(b"a", MESHSUB_11, True, ["10.0.0.1"])
    assert world.router.take_ready() == [b"a"] and world.router.take_ready() == []
    assert world.said(b"a").subscriptions == [Subscription(TOPIC, True)]
    world.router.join(OTHER_TOPIC)
    world.router.leave(TOPIC, world.now)
    assert world.said(b"a").subscriptions == [Subscription(OTHER_TOPIC, True), Subscription(TOPIC, False)]
    world.router.join("/somewhere/else")
    assert world.said(b"a").rpcs == [] and world.router.take_event_counts()[TraceEvent.JOIN] == 2


def test_only_allowed_topics_are_kept() -> None:
    world = World()
    a = world.add("a", joins=False)
    world.tell(a, Rpc(subscriptions=[Subscription(f"/t/{n}", True) for n in range(1000)]))
    world.tell(a, Rpc(subscriptions=[Subscription(OTHER_TOPIC, True)]))
    assert set(world.router.peers.topics) == {OTHER_TOPIC}
    world.tell(a, Rpc(subscriptions=[Subscription(OTHER_TOPIC, False), Subscription(OTHER_TOPIC, True)]))
    assert list(world.router.topic_peers(OTHER_TOPIC)) == [a], "what contradicts itself is not heard"
    world.tell(a, Rpc(subscriptions=[Subscription(OTHER_TOPIC, False)]))
    assert list(world.router.topic_peers(OTHER_TOPIC)) == []


def test_who_leaves_the_topic_leaves_the_mesh() -> None:
    world = World()
    a, _ = world.add_members(2)
    world.tell(a, Rpc(subscriptions=[Subscription(TOPIC, False)]))
    assert a not in world.mesh


def test_a_message_is_held_until_the_verdict() -> None:
    world = World()
    a, b, c = world.add_members(3)
    found = world.message(a, b"block")
    assert found == [UnvalidatedMessage(id_of(b"block"), TOPIC, a, b"block")]
    assert not world.said(b).messages
    assert world.router.report_validation_result(found[0].id, ValidationResult.ACCEPT, world.now) == 2
    assert world.said(b).messages == world.said(c).messages == [PubsubMessage(TOPIC, packed(b"block"))]
    assert not world.said(a).messages
    assert world.router.report_validation_result(found[0].id, ValidationResult.ACCEPT, world.now) == 0, (
        "a second verdict changes nothing"
    )


@pytest.mark.parametrize("verdict", [ValidationResult.IGNORE, ValidationResult.REJECT])
def test_what_is_not_accepted_goes_nowhere(verdict: ValidationResult) -> None:
    world = World()
    a, b = world.add_members(2)
    (incoming,) = world.message(a, b"block")
    assert world.router.report_validation_result(incoming.id, verdict, world.now) == 0
    assert not world.said(b).messages and world.message(b, b"block") == []
    world.control(b, iwant=[incoming.id])
    assert not world.said(b).messages
    assert world.router.take_event_counts()[TraceEvent.REJECT_MESSAGE] == 1
    assert world.scores.score(a) == 0.0, "topics are not scored"


def test_brought_by_two_while_it_is_judged_it_is_delivered_once() -> None:
    world = World()
    a, b, c = world.add_members(3)
    (incoming,) = world.message(a, b"block")
    assert world.message(b, b"block") == [] and world.message(b, b"block") == []
    assert world.router.report_validation_result(incoming.id, ValidationResult.ACCEPT, world.now) == 1
    assert world.said(c).messages and not world.said(b).messages
    counts = world.router.take_event_counts()
    assert (counts[TraceEvent.DUPLICATE_MESSAGE], counts[TraceEvent.DELIVER_MESSAGE]) == (2, 1)


def test_several_messages_in_one() -> None:
    world = World()
    a, b = world.add_members(2)
    found = world.tell(a, Rpc(messages=[PubsubMessage(TOPIC, packed(bytes([n]))) for n in range(5)]))
    assert [each.content for each in found] == [bytes([n]) for n in range(5)]
    for each in found:
        world.router.report_validation_result(each.id, ValidationResult.ACCEPT, world.now)
    assert len(world.said(b).messages) == 5


def test_messages_of_topics_not_joined_are_not_heard() -> None:
    world = World()
    (a,) = world.add_members(1)
    assert world.message(a, b"block", OTHER_TOPIC) == [] == world.message(a, b"block", "/else")


def test_what_does_not_decompress_is_judged_as_such() -> None:
    world = World()
    (a,) = world.add_members(1)
    (incoming,) = world.tell(a, Rpc(messages=[PubsubMessage(TOPIC, b"\xff\xff")]))
    assert incoming.content is SnappyFailure.NO_LENGTH


def test_authored_messages_are_refused_unseen() -> None:
    world = World()
    a, b = world.add_members(2)
    raw = encode_rpc(Rpc(messages=[PubsubMessage(TOPIC, packed(b"block"))]))
    authored = raw[:1] + bytes([raw[1] + 3]) + b"\x0a\x01z" + raw[2:]
    assert decode_rpc(authored).messages[0].is_signed
    assert world.router.receive_rpc(a, authored, world.now) == []
    assert world.router.take_event_counts()[TraceEvent.REJECT_MESSAGE] == 1
    assert len(world.message(b, b"block")) == 1


def test_verdicts_that_do_not_come_are_given_up() -> None:
    world = World()
    a, b = world.add_members(2)
    (incoming,) = world.message(a, b"block")
    world.beat(7)
    assert len(world.router.validation_queue.pending) == 0
    assert (
        world.router.report_validation_result(incoming.id, ValidationResult.ACCEPT, world.now) == 0
        and not world.said(b).messages
    )


def test_a_block_that_comes_again() -> None:
    world = World()
    (a,) = world.add_members(1)
    world.accept(a, b"block")
    world.now += 64.9
    assert world.message(a, b"block") == [], "within the seen time it is a duplicate"
    world.now += 0.2
    assert len(world.message(a, b"block")) == 1, "beyond it the validator sees it again"


def test_publishing_to_the_mesh() -> None:
    world = World()
    members = world.add_members(8)
    outsider = world.add("out")
    assert world.router.publish(TOPIC, packed(b"own"), world.now) == 8
    assert all(world.said(peer).messages == [PubsubMessage(TOPIC, packed(b"own"))] for peer in members)
    assert not world.said(outsider).messages
    assert world.router.publish(TOPIC, packed(b"own"), world.now) is None
    assert world.message(members[0], b"own") == [], "our own message does not come back"


def test_publishing_is_flooded_while_the_mesh_is_small() -> None:
    world = World()
    world.add_members(2)
    outsider = world.add("out")
    bad = world.add("bad")
    world.scores.add_penalty(bad, 8)
    assert world.router.publish(TOPIC, packed(b"own"), world.now) == 3
    assert world.said(outsider).messages and not world.said(bad).messages


def test_publishing_is_flooded_where_that_is_configured() -> None:
    world = World(GossipParams(flood_publish=True))
    world.add_members(8)
    world.add("out")
    assert world.router.publish(TOPIC, packed(b"own"), world.now) == 9


def test_floodsub_peers_are_sent_everything_and_are_in_no_mesh() -> None:
    world = World()
    (a,) = world.add_members(1)
    old = world.add("old", protocol=FLOODSUB)
    world.accept(a, b"block")
    assert world.said(old).messages
    world.beat(3)
    assert old not in world.mesh and not world.said(old).rpcs


def test_large_messages_are_not_wanted_from_the_others_at_once() -> None:
    world = World()
    a, b, c = world.add_members(3)
    old = world.add("old", protocol=MESHSUB_11)
    world.control(old, graft=[TOPIC])
    content = b"".join(bytes([n]) + LARGE[n:] for n in range(0, 200, 9))
    assert len(packed(content)) >= 1024
    (incoming,) = world.message(a, content)
    assert world.said(b).idontwant == world.said(c).idontwant == [incoming.id]
    assert not world.said(a).idontwant and not world.said(old).idontwant
    world.message(a, b"small")
    assert not world.said(b).rpcs


def test_what_a_peer_does_not_want_it_is_not_sent() -> None:
    world = World()
    a, b, c = world.add_members(3)
    world.control(b, idontwant=[id_of(b"block")])
    assert world.accept(a, b"block") == 1 and not world.said(b).messages
    world.control(b, idontwant=[id_of(b"later")])
    world.beat(3)
    assert world.accept(a, b"later") == 2, "it is remembered for three heartbeats"
    assert world.said(c).messages


def test_urgent_messages_pass_the_others() -> None:
    world = World()
    a, b = world.add_members(2)
    world.accept(a, b"block")
    content = b"".join(bytes([n]) + LARGE[n:] for n in range(0, 200, 9))
    world.message(a, content)
    rpcs = world.said(b).rpcs
    assert rpcs[0].control.idontwant and rpcs[1].messages


def test_queues_are_bounded_and_what_matters_is_sent_later() -> None:
    world = World(GossipParams(outbound_queue_size=4))
    a, b = world.add_members(2)
    for number in range(6):
        world.accept(a, bytes([number]))
    assert world.router.take_event_counts()[TraceEvent.DROP_RPC] == 2
    world.router.meshes.backoff.add(TOPIC, b, 60.0, world.now)
    world.router.meshes.remove_peer(b)
    for _ in range(5):
        world.control(b, graft=[TOPIC])
    assert world.router.peers.states[b].pending_prunes == {TOPIC: Prune(TOPIC, 60)}
    assert len(world.said(b).messages) == 4
    world.beat()
    assert world.said(b).prune == [Prune(TOPIC, 60)]
    world.beat()
    assert not world.said(b).prune


def test_a_graft_that_found_no_room_is_sent_while_it_is_true() -> None:
    world = World(GossipParams(outbound_queue_size=1))
    a, b = world.add("a"), world.add("b")
    for peer in (a, b):
        world.router.peers.send(peer, Rpc(subscriptions=[Subscription(TOPIC, True)]))
    world.beat()
    assert set(world.mesh) == {a, b}
    world.said(a), world.said(b)
    world.control(b, prune=[Prune(TOPIC, 60)])
    world.beat()
    assert world.said(a).graft == [TOPIC] and world.said(b).graft == []


def test_our_topics_are_told_again_when_the_queue_was_full() -> None:
    world = World(GossipParams(outbound_queue_size=1))
    a = world.add("a")
    world.router.join(OTHER_TOPIC)
    world.router.leave(TOPIC, world.now)
    world.said(a)
    world.beat()
    assert set(world.said(a).subscriptions) == {Subscription(OTHER_TOPIC, True), Subscription(TOPIC, False)}


def test_frames_are_shared_between_queues() -> None:
    world = World()
    a, b, c = world.add_members(3)
    world.accept(a, b"block")
    assert world.router.next_frame(b) is world.router.next_frame(c)


def test_a_message_too_large_for_anybody_is_not_sent() -> None:
    world = World()
    world.add_members(8)
    chance = bytes(10 << 20)
    assert world.router.publish(TOPIC, b"\xff" + chance, world.now) == 0


def test_a_graylisted_peer_is_not_listened_to() -> None:
    world = World()
    a, b = world.add_members(2)
    world.scores.add_penalty(a, 8)
    assert world.message(a, b"block") == []
    world.tell(
        a, Rpc(subscriptions=[Subscription(OTHER_TOPIC, True)], control=ControlMessage(prune=[Prune(TOPIC, 60)]))
    )
    assert a in world.mesh and list(world.router.topic_peers(OTHER_TOPIC)) == [a]
    assert len(world.message(b, b"block")) == 1


def test_topics_told_before_we_can_write() -> None:
    world = World()
    early = Rpc([Subscription(TOPIC, True), Subscription("/else", True)], [PubsubMessage(TOPIC, packed(b"block"))])
    assert world.tell(b"early", early) == []
    world.add("early", joins=False)
    assert list(world.router.topic_peers(TOPIC)) == [b"early"]
    for number in range(1100):
        world.tell(number.to_bytes(4, "big"), early)
    assert len(world.router._early_subscriptions) == 1000
    world.router.remove_peer((1099).to_bytes(4, "big"), world.now)
    assert len(world.router._early_subscriptions) == 999


def test_peers_that_come_again_and_go() -> None:
    world = World()
    a, b = world.add_members(2)
    world.router.add_peer(a, MESHSUB_10, True, ["10.0.0.1"])
    assert world.mesh == [b] and list(world.router.topic_peers(TOPIC)) == [b, a], "it tells its topics only once"
    assert world.said(a).subscriptions == [Subscription(TOPIC, True)]
    world.router.remove_peer(a, world.now)
    world.router.remove_peer(a, world.now)
    assert world.router.next_frame(a) is None and world.router.receive_rpc(a, b"", world.now) == []
    (incoming,) = world.message(b, b"block")
    world.router.remove_peer(b, world.now)
    assert world.router.report_validation_result(incoming.id, ValidationResult.REJECT, world.now) == 0
    counts = world.router.take_event_counts()
    assert (counts[TraceEvent.ADD_PEER], counts[TraceEvent.REMOVE_PEER]) == (
        3,
        3,
    ) and not world.router.take_event_counts()


def test_what_is_malformed_is_said() -> None:
    world = World()
    (a,) = world.add_members(1)
    found = world.router.receive_rpc(a, b"\x12\x05ab", world.now)
    assert isinstance(found, MalformedRpc) and "ends within" in found.error
    assert read_frames([]) == []
