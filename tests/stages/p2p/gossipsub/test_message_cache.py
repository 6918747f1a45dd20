"""The message cache."""

from hashlib import sha256

from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.p2p.gossipsub.message_cache import (
    CachedMessage,
    MessageCache,
    SeenCache,
    message_id,
)

A, B = b"a" * 20, b"b" * 20


def test_messages_are_announced_for_three_windows_and_cached_for_twelve() -> None:
    cache = MessageCache(12, 3)
    cache.put(A, CachedMessage("t", b"frame"))
    for age in range(13):
        assert cache.gossip_ids("t") == ([A] if age < 3 else [])
        assert cache.gossip_ids("u") == []
        for_peer = cache.get_for_peer(A, b"peer")
        assert for_peer == ((CachedMessage("t", b"frame"), age + 1) if age < 12 else None)
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


TOPIC = "/optimism/10/3/blocks"


def test_op_node_ids_include_the_topic() -> None:
    content = b"a block"
    data = snappy.compress(content)
    expected = sha256(b"\x01\0\0\0" + len(TOPIC).to_bytes(8, "little") + TOPIC.encode() + content).digest()[:20]
    assert message_id(TOPIC, data, content) == expected


def test_undecompressable_data_is_hashed_raw() -> None:
    data = b"\xff\xff"
    content = snappy.decompress(data)
    expected = sha256(bytes(4) + len(TOPIC).to_bytes(8, "little") + TOPIC.encode() + data).digest()[:20]
    assert message_id(TOPIC, data, content) == expected


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 40), st.booleans()), max_size=60))
def test_against_a_model(steps: list[tuple[int, float, bool]]) -> None:
    cache: SeenCache[int] = SeenCache(65.0, 1000)
    expiries: dict[int, float] = {}
    now = 0.0
    for key, pause, expire in steps:
        now += pause
        if expire:
            cache.remove_expired(now)
        known = expiries.get(key, 0.0) > now
        assert cache.has(key, now) == known
        assert cache.add(key, now) == (not known)
        if not known:
            expiries[key] = now + 65.0
        assert len(cache) >= sum(end > now for end in expiries.values())


def test_the_cache_is_bounded_and_expires() -> None:
    cache: SeenCache[int] = SeenCache(65.0, 100)
    for key in range(1000):
        cache.add(key, key / 1000)
    assert len(cache) == 100 and cache.has(999, 1.0) and not cache.has(0, 1.0)
    cache.remove_expired(65.95)
    assert len(cache) == 49
    cache.remove_expired(100.0)
    assert len(cache) == 0
