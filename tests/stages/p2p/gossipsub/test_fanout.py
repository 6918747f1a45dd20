"""Publishing to a topic that is not joined."""

from rollup_node.stages.p2p.gossipsub.rpc import Rpc, Subscription
from tests.support.p2p.gossip_routers import OTHER_TOPIC, RouterHarness, compressed


def with_subscribers(count: int) -> tuple[RouterHarness, list[bytes]]:
    harness = RouterHarness()
    peers = [harness.add_peer(f"{number:03}", joins=False) for number in range(count)]
    for peer in peers:
        harness.receive(peer, Rpc(subscriptions=[Subscription(OTHER_TOPIC, True)]))
    return harness, peers


def receivers(harness: RouterHarness, peers: list[bytes], content: bytes) -> set[bytes]:
    assert harness.router.publish(OTHER_TOPIC, compressed(content), harness.now) is not None
    return {peer for peer in peers if harness.sent_to(peer).messages}


def test_fanout_peers_stay_while_publishing_goes_on() -> None:
    harness, peers = with_subscribers(30)
    first = receivers(harness, peers, b"1")
    assert len(first) == 8
    for number in range(5):
        harness.heartbeats(20)
        assert receivers(harness, peers, bytes([number])) == first
    harness.heartbeats(49)
    assert OTHER_TOPIC not in harness.router.fanout.members


def test_fanout_peers_that_left_or_have_bad_scores_are_replaced() -> None:
    harness, peers = with_subscribers(30)
    first = list(receivers(harness, peers, b"1"))
    harness.receive(first[0], Rpc(subscriptions=[Subscription(OTHER_TOPIC, False)]))
    harness.scorer.add_penalty(first[1], 8)
    harness.router.remove_peer(first[2], harness.now)
    harness.heartbeats()
    later = receivers(harness, [peer for peer in peers if peer != first[2]], b"2")
    assert len(later) == 8 and not later & set(first[:3])


def test_joining_turns_the_fanout_into_a_mesh() -> None:
    harness, peers = with_subscribers(30)
    first = receivers(harness, peers, b"1")
    harness.router.join(OTHER_TOPIC)
    assert set(harness.router.meshes.members[OTHER_TOPIC]) == first
    assert harness.router.fanout.members == {}


def test_without_subscribers_the_fanout_is_empty() -> None:
    harness = RouterHarness()
    assert harness.router.publish(OTHER_TOPIC, compressed(b"1"), harness.now) == 0
    harness.heartbeats(3)
