"""The block cache and fetch plan against chains that grow, reorganise and fail."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.l1.prefetch_window import (
    FIRST_BLOCKS,
    FIRST_PAUSE,
    MAX_BLOCKS,
    MAX_PAUSE,
    SLOW_SECONDS,
    WANTED_RATE,
    BlockRange,
    Fetch,
    FetchFailure,
    HeldAnswers,
    PrefetchWindow,
    blocks_per_request,
    grouped,
    memory_of,
)
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.protocol.types import HEADER_MEMORY, InboxTransaction, L1Block
from tests.support.chains.fake_l1_chain import FakeL1Chain

SIZE = 1000
REFUSED = Problem(None, "", "refused")


def window(max_blocks: int = 900, max_bytes: int = 1 << 30, rollups: int = 1) -> PrefetchWindow:
    return PrefetchWindow(max_blocks, max_bytes, rollups)


def started(target: PrefetchWindow, *ranges: BlockRange, room: int = 99, now: float = 0.0) -> list[int]:
    return [fetch.number for fetch in target.plan(ranges, room, now)]


def fill(target: PrefetchWindow, chain: FakeL1Chain, *ranges: BlockRange, room: int = 8, now: float = 0.0) -> list[int]:
    """Fetch until nothing more is planned; the numbers fetched."""
    fetched = []
    while fetches := target.plan(ranges, room, now):
        for fetch in fetches:
            fetched.append(fetch.number)
            target.fetched(fetch, (chain.block(fetch.number),), SIZE, now)
    return fetched


def cached(target: PrefetchWindow) -> list[int]:
    return [number for number in range(200) if target.get(number) is not None]


def test_blocks_that_clients_wait_for_come_first() -> None:
    """And none is begun twice."""
    w, ranges = window(), (BlockRange(10, 20), BlockRange(100, 101))
    assert w.plan(ranges, 5, 0.0) == [Fetch(number, 0) for number in (10, 100, 11, 101, 12)]
    assert started(w, *ranges, room=2) == [13, 14] and started(w, *ranges, room=0) == []


def test_a_failure_is_retried_after_growing_pauses_and_delays_nothing_else() -> None:
    w, chain, now, wanted = window(), FakeL1Chain(30), 0.0, BlockRange(10, 12)
    pauses = []
    for attempts in range(1, 10):
        first, *others = w.plan([wanted], 9, now)
        assert first.number == 10 and w.next_retry([wanted], now) is None, "nothing is due while that is fetched"
        for other in others:
            w.fetched(other, (chain.block(other.number),), SIZE, now)
        w.failed(first, REFUSED, now)
        pauses.append(w.next_retry([wanted], now) or 0.0)
        assert w.failure(10) == FetchFailure(REFUSED, attempts, now + pauses[-1])
        now += pauses[-1]
        assert started(w, wanted, now=now - 0.001) == [] and w.next_retry([wanted], now + 5) == 0.0
    assert pauses == [min(MAX_PAUSE, FIRST_PAUSE * 2**n) for n in range(9)] and cached(w) == [11, 12]
    assert fill(w, chain, wanted, now=now) == [10] and w.failure(10) is None


def test_of_blocks_that_failed_only_the_first_is_tried_again() -> None:
    """Of each range; and what no client wants any more is forgotten."""
    w, now = window(), 0.0
    wanted, later, last = BlockRange(10, 40), BlockRange(30, 50), BlockRange(40, 41)
    for fetch in w.plan([wanted, later], 99, now):
        w.failed(fetch, REFUSED, now)
    for _ in range(9):
        pause = w.next_retry([wanted], now)
        assert pause is not None and pause > 0
        now += pause
        (first,) = w.plan([wanted, later], 1, now)
        assert first.number == 10 and w.next_retry([wanted], now) is None
        w.failed(first, REFUSED, now)
    assert w.next_retry([wanted, later, last], now) == 0.0, "30 and 40 are due since long"
    assert started(w, wanted, last, now=now) == [40] and w.failure(42) is None and w.failure(41) is not None
    chain = FakeL1Chain(60)
    assert fill(w, chain, wanted, now=now + MAX_PAUSE) == [*range(10, 40)]


def test_a_block_that_l1_did_not_have_is_fetched_again_after_the_next_head() -> None:
    w, chain = window(), FakeL1Chain(11)
    for number in (10, 11):
        (fetch,) = w.plan([BlockRange(10, 11)], 1, 0.0)
        w.failed(fetch, None if number == 10 else REFUSED, 0.0)
    assert started(w, BlockRange(10, 11)) == []
    w.update_head(chain.ref(chain.head), False, -1)
    assert started(w, BlockRange(10, 11)) == [10] and w.failure(11) is not None


@pytest.mark.parametrize(
    ("most", "room", "begun"),
    [
        ({"max_blocks": 10}, 99, [10, 1, 0]),
        ({"max_blocks": 10}, 1, [1] * 11 + [0]),
        ({"max_blocks": 0}, 99, [1, 1, 0]),
        ({"max_bytes": 10 * SIZE}, 1, [1] * 6 + [0]),
        ({"max_bytes": 10 * SIZE + 1}, 1, [1] * 7 + [0]),
    ],
)
def test_prefetching_stops_where_it_would_fill_the_cache(most: dict[str, int], room: int, begun: list[int]) -> None:
    """With all that may be begun at a time, which is `room`, or as many as the cache has blocks."""
    w, chain, wanted = window(**most), FakeL1Chain(90), BlockRange(10, 80)
    for count in begun:
        fetches = w.plan([wanted], room, 0.0)
        assert len(fetches) == count
        for fetch in fetches:
            w.fetched(fetch, (chain.block(fetch.number),), SIZE, 0.0)
    assert w.bytes == len(w) * SIZE and started(w, wanted, BlockRange(81, 90)) == [81], "it is waited for"


def test_a_client_that_takes_nothing_does_not_keep_others_from_prefetching() -> None:
    """It holds its share and what nobody else needs; the others get theirs [LHD32]."""
    chain = FakeL1Chain(200)
    w = window(900, 60 * SIZE, rollups=2)
    stuck, other, _ = ranges = BlockRange(1, 99), BlockRange(100, 140), BlockRange(150, 190)
    assert fill(w, chain, stuck, room=1) == [*range(1, 32)], "half of the cache, and the one that it waits for"
    assert fill(w, chain, *ranges, room=1) == [100, 150, *range(101, 116), *range(151, 166)]
    w.trim(ranges)
    kept = cached(w)
    assert w.bytes <= 60 * SIZE and kept == [*range(1, len(kept) - 31), *range(100, 116), *range(150, 166)]
    one = window(900, 60 * SIZE)
    fill(one, chain, stuck)
    assert started(one, stuck, other) == [100], "as ever with one rollup"


@pytest.mark.option("l1.cache-size", by="max_blocks")
def test_trimming_drops_acknowledged_blocks_first_and_then_the_farthest() -> None:
    """An eighth, and never the one that a client waits for."""
    chain = FakeL1Chain(100)
    w = window(max_blocks=5)
    for wanted in (BlockRange(10, 14), BlockRange(20, 22)):
        fill(w, chain, wanted)
    w.trim([BlockRange(20, 22)])
    assert cached(w) == [13, 14, 20, 21, 22]
    w.trim([BlockRange(14, 19)])
    assert len(w) == 5, "it is within its bounds"
    small = window(max_blocks=2)
    fill(small, chain, BlockRange(10, 14))
    small.trim([BlockRange(11, 14)])
    assert cached(small) == [11, 12]
    bytes_ = window(max_bytes=16 * SIZE)
    for first in (10, 30):
        fill(bytes_, chain, BlockRange(first, first + 7))
    bytes_.trim([BlockRange(40, 50)])
    assert len(bytes_) == 16
    fill(bytes_, chain, BlockRange(40, 40))
    bytes_.trim([BlockRange(40, 50)])
    assert cached(bytes_) == [*range(13, 18), *range(30, 38), 40]


def test_trimming_keeps_what_a_client_far_behind_needs_next() -> None:
    """First go the blocks below all clients, then those that it needs last; what others want now stays [LHD32]."""
    chain = FakeL1Chain(100)
    w = window(max_blocks=16)
    for first, last in ((5, 12), (20, 25), (40, 49)):
        fill(w, chain, BlockRange(first, last))
    w.trim([BlockRange(10, 14), BlockRange(48, 49)])
    assert cached(w) == [10, 11, 12, 20, 21, 22, 23, 24, 25, 40, 41, 42, 48, 49]


def test_a_block_is_kept_as_each_rollup_sees_it() -> None:
    """[LHD32]"""
    chain, w = FakeL1Chain(20), window()
    (fetch,) = w.plan([BlockRange(10, 10)], 1, 0.0)
    own = chain.block(10)
    other = msgspec.structs.replace(own, inbox=(InboxTransaction(2, bytes(20), bytes(500), ()),))
    w.fetched(fetch, (own, other), memory_of((own, other)), 0.0)
    assert (w.get(10), w.get(10, 1), w.bytes) == (own, other, own.memory + other.memory - HEADER_MEMORY)


@pytest.mark.fault("F9")
def test_a_reorg_costs_as_many_fetches_as_it_is_deep() -> None:
    w, chain = window(), FakeL1Chain(80)
    fill(w, chain, BlockRange(10, 79))
    chain.reorg(depth=3, length=4)
    assert w.update_head(chain.ref(chain.head), True, -1)
    assert w.get(10) is None
    assert sorted(fill(w, chain, BlockRange(10, 80))) == [10, 76, 77, 78, 79, 80]
    assert all(w.get(n) == chain.block(n) for n in range(10, 81))


def test_finalized_blocks_stay_verified() -> None:
    w, chain = window(), FakeL1Chain(80)
    fill(w, chain, BlockRange(10, 79))
    chain.reorg(depth=3, length=4)
    assert w.update_head(chain.ref(chain.head), True, 60)
    assert w.get(60) is not None
    assert w.get(61) is None


def test_the_block_of_a_fetch_from_before_a_reorg_is_unverified() -> None:
    w, chain = window(), FakeL1Chain(20)
    (old,) = w.plan([BlockRange(18, 18)], 1, 0.0)
    stale = chain.block(18)
    chain.reorg(depth=3, length=4)
    w.update_head(chain.ref(chain.head), True, -1)
    assert not w.fetched(old, (stale,), SIZE, 0.0)
    assert w.get(18) is None
    fill(w, chain, BlockRange(18, 20))
    assert w.get(18) == chain.block(18)


@pytest.mark.parametrize(
    ("apart", "pauses"),
    [(0.0, [None, None, 0.5, 1.0, 2.0, 4.0, 8.0, None]), (4.9, [None, None, 0.5]), (5.0, [None] * 4)],
)
def test_endpoints_that_contradict_each_other_lead_to_a_cool_down(apart: float, pauses: list[float | None]) -> None:
    """After two conflicts, which may be two reorgs, within five seconds of each other: a pause is such a time, too."""
    w, one, two = window(), FakeL1Chain(30), FakeL1Chain(30)
    two.reorg(depth=20, length=20)
    wanted, now = BlockRange(15, 16), 0.0
    fill(w, one, BlockRange(15, 15))
    for index, pause in enumerate(pauses):
        (fetch,) = w.plan([wanted], 1, now)
        assert w.fetched(fetch, ((one if index % 2 else two).block(fetch.number),), SIZE, now)
        assert w.next_retry([wanted], now) == pause
        now += pause or apart
        assert pause is None or started(w, wanted, now=now - 0.001) == []


@settings(max_examples=60)
@given(data=st.data())
def test_the_window_converges_on_the_chain_whatever_happens(data: st.DataObject) -> None:
    w = PrefetchWindow(data.draw(st.sampled_from([12, 900]), label="max blocks"), 1 << 30)
    chain, now = FakeL1Chain(20), 0.0
    running: list[tuple[Fetch, L1Block | None]] = []
    wanted = BlockRange(data.draw(st.integers(1, 10), label="first"), 40)
    shown = chain.ref(chain.head)

    def visible() -> BlockRange:
        return BlockRange(wanted.first, max(wanted.first, min(wanted.last, shown.number)))

    for action in data.draw(st.lists(st.sampled_from("fffffgrhx"), max_size=40), label="actions"):
        now += 0.1
        if action == "f":
            for fetch in w.plan([visible()], 3, now):
                known = chain.block(fetch.number) if fetch.number <= chain.head else None
                running.append((fetch, known))
        elif action == "g":
            chain.extend(data.draw(st.integers(1, 3)))
        elif action == "r":
            chain.reorg(data.draw(st.integers(1, 8)), data.draw(st.integers(1, 9)))
        elif action == "h":
            reorged = chain.hash(min(shown.number, chain.head)) != shown.hash
            shown = chain.ref(chain.head)
            w.update_head(shown, reorged, -1)
        if running and action in "x":
            fetch, result = running.pop(data.draw(st.integers(0, len(running) - 1)))
            if result is None or data.draw(st.booleans()):
                w.failed(fetch, REFUSED, now)
            else:
                w.fetched(fetch, (result,), SIZE, now)
        held = {n: block for n in range(60) if (block := w.get(n)) is not None}
        assert all(held[n].header.parent_hash == held[n - 1].header.hash for n in held if n - 1 in held)
        assert w.bytes == len(w) * SIZE
        w.trim([visible()])

    chain.extend(1)
    for fetch, result in running:
        if result is None:
            w.failed(fetch, None, now)
        else:
            w.fetched(fetch, (result,), SIZE, now)
    w.update_head(chain.ref(chain.head), True, -1)
    for first in range(wanted.first, chain.head + 1):
        for _ in range(200):
            if w.get(first) == chain.block(first):
                break
            now += 1.0
            goal = BlockRange(first, min(first + 20, chain.head))
            for fetch in w.plan([goal], 4, now):
                w.fetched(fetch, (chain.block(fetch.number),), SIZE, now)
            w.trim([goal])
        assert w.get(first) == chain.block(first)


@pytest.mark.parametrize(
    ("latency", "concurrency", "max_batch", "expected"),
    [
        (None, 10, 20, 1),
        (0.0, 10, 20, 1),
        (0.02, 10, 20, 1),
        (0.1, 10, 20, 3),
        (0.1, 100, 20, 1),
        (0.1, 1, 20, MAX_BLOCKS),
        (SLOW_SECONDS, 10, 20, MAX_BLOCKS),
        (SLOW_SECONDS, 10, 2, 2),
        (SLOW_SECONDS, 10, 0, 1),
        (SLOW_SECONDS + 0.1, 10, 20, 1),
    ],
)
def test_as_many_blocks_as_the_wanted_rate_takes(
    latency: float | None, concurrency: int, max_batch: int, expected: int
) -> None:
    assert WANTED_RATE == 300
    assert blocks_per_request(latency, concurrency, max_batch) == expected


@pytest.mark.parametrize(
    ("fetches", "requests", "expected"),
    [(0, 4, []), (3, 4, [1, 1, 1]), (4, 4, [1] * 4), (5, 4, [1, 2, 2]), (10, 4, [1, 3, 3, 3]), (3, 1, [3])],
)
def test_the_most_urgent_block_goes_alone_where_others_have_a_request(
    fetches: int, requests: int, expected: list[int]
) -> None:
    groups = grouped([Fetch(number, 0) for number in range(fetches)], requests)
    assert [len(group) for group in groups] == expected


def settled(most: int, size: int) -> HeldAnswers:
    """Return it after many blocks of that size."""
    held = HeldAnswers(most)
    for _ in range(50):
        held.hold(1, size)
        held.end(1)
    return held


def test_a_few_blocks_are_fetched_before_any_size_is_known() -> None:
    held = HeldAnswers(12_000)
    for number in range(FIRST_BLOCKS):
        assert held.room == FIRST_BLOCKS - number
        held.hold(number)
    assert held.room == 0
    # Others, as large as expected, are not begun when the first answer comes and is larger.
    held.hold(0, 4000)
    assert held.room == 0


def test_awaited_answers_count_as_the_last_ones() -> None:
    """Receipts count with their block; a failure says nothing; and one is fetched however large it may be."""
    held = settled(1000, 100)
    for number, size, room in ((0, 0, 9), (1, 0, 8), (2, 0, 7), (3, 0, 6), (0, 50, 6), (1, 0, 6), (0, 200, 1)):
        held.hold(number, size)
        assert held.room == room, (number, size)
    for size, answers, room in ((50, [50, 250, 0], 4), (10, [0], 100), (10, [30], 33), (1, [1], 1000), (1, [5000], 1)):
        held = settled(1000, size)
        for answer in answers:
            held.hold(2, answer)
        held.end(2)
        assert held.room == room, (size, answers)
