"""The router's state per peer: features of protocols, budgets, topics, queues."""

from rollup_node.stages.p2p.gossipsub.params import (
    MESHSUB_12,
    GossipParams,
)
from rollup_node.stages.p2p.gossipsub.peers import GossipPeer, RpcQueue


def test_idontwant_is_bounded_and_expires() -> None:
    params = GossipParams(max_idontwant_messages=2, idontwant_message_ttl=2)
    peer = GossipPeer(MESHSUB_12, True, params)
    peer.handle_idontwant([b"1", b"2", b"3"], params)
    assert set(peer.unwanted) == {b"1", b"2"}
    peer.start_heartbeat(params)
    peer.handle_idontwant([b"3"], params)
    assert set(peer.unwanted) == {b"1", b"2", b"3"}
    peer.start_heartbeat(params)
    assert set(peer.unwanted) == {b"3"}


def test_order_and_bounds() -> None:
    queue = RpcQueue(3, 100)
    assert queue.push(b"one") and queue.push(b"two") and queue.push(b"now", urgent=True)
    assert not queue.push(b"four") and not queue.push(b"four", urgent=True)
    assert queue.bytes == 9 and len(queue) == 3
    assert [queue.pop() for _ in range(4)] == [b"now", b"one", b"two", None]
    assert queue.push(bytes(60)) and not queue.push(bytes(41)) and queue.push(bytes(40))
    assert queue.bytes == 100
