"""The send queue of one peer."""

from rollup_node.stages.p2p.gossipsub.rpc_queue import RpcQueue


def test_order_and_bounds() -> None:
    queue = RpcQueue(3, 100)
    assert queue.push(b"one") and queue.push(b"two") and queue.push(b"now", urgent=True)
    assert not queue.push(b"four") and not queue.push(b"four", urgent=True)
    assert queue.bytes == 9 and len(queue) == 3
    assert [queue.pop() for _ in range(4)] == [b"now", b"one", b"two", None]
    assert queue.push(bytes(60)) and not queue.push(bytes(41)) and queue.push(bytes(40))
    assert queue.bytes == 100
