"""A cache is bounded in number and bytes."""

from rollup_node.stages.protocol.bounded_cache import BoundedCache


def filled(cache: BoundedCache[int, str], *entries: tuple[int, int]) -> list[int]:
    """Put values by key and size; the keys that are cached then."""
    for key, size in entries:
        cache.put(key, str(key), size)
    return [key for key in range(10) if cache.peek(key) == str(key)]


def test_the_least_recently_used_go_first() -> None:
    cache: BoundedCache[int, str] = BoundedCache(100, 3)
    assert filled(cache, *((key, 10) for key in range(5))) == [2, 3, 4]
    assert (len(cache), cache.bytes) == (3, 30)
    assert cache.get(2) == "2" and cache.get(0) is None
    assert filled(cache, (5, 10)) == [2, 4, 5]
    assert filled(cache, (6, 85)) == [5, 6]
    assert 5 in cache and 4 not in cache and cache.bytes == 95


def test_a_look_is_no_use() -> None:
    cache: BoundedCache[int, str] = BoundedCache(20)
    filled(cache, (1, 10), (2, 10))
    assert cache.peek(1) == "1" and filled(cache, (3, 10)) == [2, 3]


def test_the_newest_stays_whatever_its_size() -> None:
    cache: BoundedCache[int, str] = BoundedCache(100)
    assert filled(cache, (1, 60), (2, 101)) == [2]
    assert filled(cache, (3, 1)) == [3]


def test_one_that_is_too_large_is_not_kept_where_that_is_asked_for() -> None:
    cache: BoundedCache[int, str] = BoundedCache(100, keeps_newest=False)
    assert filled(cache, (1, 60), (2, 101)) == [1]
    cache.put(1, "large", 101)
    assert (cache.get(1), len(cache), cache.bytes) == (None, 0, 0)
