"""Responses for repeated requests are bounded in number and bytes."""

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.engine.process.response_cache import ResponseCache

PEER = ProcessId(0, 1)


def test_the_oldest_make_room_in_number_and_bytes() -> None:
    cache: ResponseCache[str] = ResponseCache(3, 100)
    for number in range(5):
        cache.add((PEER, number), str(number), 10)
    assert [cache.get((PEER, number)) for number in range(5)] == [None, None, "2", "3", "4"]
    assert (len(cache), cache.size) == (3, 30)
    cache.add((PEER, 5), "5", 85)
    assert [cache.get((PEER, number)) for number in (3, 4, 5)] == [None, "4", "5"]
    assert (len(cache), cache.size) == (2, 95)


def test_a_response_that_is_too_large_is_not_kept_and_one_again_counts_once() -> None:
    cache: ResponseCache[str] = ResponseCache(3, 100)
    cache.add((PEER, 1), "first", 60)
    cache.add((PEER, 2), "large", 101)
    assert cache.get((PEER, 1)) == "first" and cache.get((PEER, 2)) is None
    cache.add((PEER, 1), "again", 70)
    assert (cache.get((PEER, 1)), len(cache), cache.size) == ("again", 1, 70)
    cache.add((PEER, 1), "large", 101)
    assert (cache.get((PEER, 1)), len(cache), cache.size) == (None, 0, 0)
