"""The seen cache against a simple model, and its bounds."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.p2p.gossipsub.seen_cache import SeenCache


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
