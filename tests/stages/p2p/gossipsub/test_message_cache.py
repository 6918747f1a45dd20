"""The message cache."""

from rollup_node.stages.p2p.gossipsub.message_cache import CachedMessage, MessageCache

A, B = b"a" * 20, b"b" * 20


def test_messages_are_announced_for_three_windows_and_cached_for_twelve() -> None:
    cache = MessageCache(12, 3)
    cache.put(A, CachedMessage("t", b"frame"))
    for age in range(13):
        assert cache.gossip_ids("t") == ([A] if age < 3 else [])
        assert cache.gossip_ids("u") == []
        found = cache.get_for_peer(A, b"peer")
        assert found == ((CachedMessage("t", b"frame"), age + 1) if age < 12 else None)
        cache.shift()
    assert len(cache) == 0


def test_requests_are_counted_per_peer() -> None:
    cache = MessageCache(2, 1)
    for _ in range(3):
        cache.put(A, CachedMessage("t", b"frame"))
    assert cache.gossip_ids("t") == [A] and len(cache) == 1
    assert [cache.get_for_peer(A, peer) for peer in (b"p", b"q", b"p")] == [
        (CachedMessage("t", b"frame"), times) for times in (1, 1, 2)
    ]
    assert cache.get_for_peer(B, b"p") is None
    cache.shift()
    cache.shift()
    assert len(cache) == 0
