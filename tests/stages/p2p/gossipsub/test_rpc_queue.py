"""The queue of one peer."""

from rollup_node.stages.p2p.gossipsub.rpc_queue import RpcQueue


def test_order_and_bounds() -> None:
    outbox = RpcQueue(3, 100)
    assert outbox.push(b"one") and outbox.push(b"two") and outbox.push(b"now", urgent=True)
    assert not outbox.push(b"four") and not outbox.push(b"four", urgent=True)
    assert outbox.bytes == 9 and len(outbox) == 3
    assert [outbox.pop() for _ in range(4)] == [b"now", b"one", b"two", None]
    assert outbox.push(bytes(60)) and not outbox.push(bytes(41)) and outbox.push(bytes(40))
    assert outbox.bytes == 100
