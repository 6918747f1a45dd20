"""Publishing in a topic that we have not joined."""

from rollup_node.stages.p2p.gossipsub.rpc import Rpc, Subscription
from tests.support.gossip_world import OTHER_TOPIC, World, packed


def with_subscribers(count: int) -> tuple[World, list[bytes]]:
    world = World()
    peers = [world.add(f"{number:03}", joins=False) for number in range(count)]
    for peer in peers:
        world.tell(peer, Rpc(subscriptions=[Subscription(OTHER_TOPIC, True)]))
    return world, peers


def receivers(world: World, peers: list[bytes], content: bytes) -> set[bytes]:
    assert world.router.publish(OTHER_TOPIC, packed(content), world.now) is not None
    return {peer for peer in peers if world.said(peer).messages}


def test_the_same_peers_while_we_go_on_publishing() -> None:
    world, peers = with_subscribers(30)
    first = receivers(world, peers, b"1")
    assert len(first) == 8
    for number in range(5):
        world.beat(20)
        assert receivers(world, peers, bytes([number])) == first
    world.beat(49)
    assert OTHER_TOPIC not in world.router.fanout.members


def test_peers_that_left_or_went_bad_are_replaced() -> None:
    world, peers = with_subscribers(30)
    first = list(receivers(world, peers, b"1"))
    world.tell(first[0], Rpc(subscriptions=[Subscription(OTHER_TOPIC, False)]))
    world.scores.add_penalty(first[1], 8)
    world.router.remove_peer(first[2], world.now)
    world.beat()
    later = receivers(world, [peer for peer in peers if peer != first[2]], b"2")
    assert len(later) == 8 and not later & set(first[:3])


def test_joining_turns_the_fanout_into_a_mesh() -> None:
    world, peers = with_subscribers(30)
    first = receivers(world, peers, b"1")
    world.router.join(OTHER_TOPIC)
    assert set(world.router.meshes.members[OTHER_TOPIC]) == first
    assert world.router.fanout.members == {}


def test_nobody_is_there() -> None:
    world = World()
    assert world.router.publish(OTHER_TOPIC, packed(b"1"), world.now) == 0
    world.beat(3)
