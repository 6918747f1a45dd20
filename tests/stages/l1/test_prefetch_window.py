"""The block cache and fetch plan against chains that grow, reorganise and fail."""

from collections.abc import Sequence

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


def window(max_blocks: int = 900, max_bytes: int = 1 << 30) -> PrefetchWindow:
    return PrefetchWindow(max_blocks, max_bytes)


def fill(target: PrefetchWindow, chain: FakeL1Chain, wanted: BlockRange, now: float = 0.0) -> list[int]:
    """Fetch until nothing more is planned; the numbers fetched."""
    fetched = []
    while fetches := target.plan([wanted], 8, now):
        for fetch in fetches:
            fetched.append(fetch.number)
            target.fetched(fetch, (chain.block(fetch.number),), SIZE, now)
    return fetched


def numbers(fetches: list[Fetch]) -> list[int]:
    return [fetch.number for fetch in fetches]


def test_blocks_that_clients_wait_for_come_first() -> None:
    assert numbers(window().plan([BlockRange(10, 20), BlockRange(100, 101)], 5, 0.0)) == [10, 100, 11, 101, 12]


def test_a_failure_is_retried_after_growing_pauses_and_delays_nothing_else() -> None:
    w, chain, now = window(), FakeL1Chain(30), 0.0
    pauses = []
    for _ in range(9):
        first, *others = w.plan([BlockRange(10, 12)], 9, now)
        assert first.number == 10
        for other in others:
            w.fetched(other, (chain.block(other.number),), SIZE, now)
        w.failed(first, REFUSED, now)
        failure = w.failure(10)
        assert failure is not None and failure.error is REFUSED
        assert w.plan([BlockRange(10, 12)], 9, now) == []
        pause = w.next_retry([BlockRange(10, 12)], now)
        assert pause is not None
        pauses.append(pause)
        now += pause
    assert pauses == [min(MAX_PAUSE, FIRST_PAUSE * 2**n) for n in range(9)]
    assert w.get(11) == chain.block(11)
    assert w.get(12) == chain.block(12)


def test_of_blocks_that_failed_only_the_first_is_tried_again() -> None:
    w, wanted, now = window(), BlockRange(10, 40), 0.0
    for fetch in w.plan([wanted], 99, now):
        w.failed(fetch, REFUSED, now)
    tried = []
    for _ in range(9):
        pause = w.next_retry([wanted], now)
        assert pause is not None and pause > 0
        now += pause
        (first,) = w.plan([wanted], 99, now)
        assert w.next_retry([wanted], now) is None, "nothing else is due while that is fetched"
        tried.append(first.number)
        w.failed(first, REFUSED, now)
    assert tried == [10] * 9
    chain = FakeL1Chain(50)
    (first,) = w.plan([wanted], 99, now := now + MAX_PAUSE)
    w.fetched(first, (chain.block(10),), SIZE, now)
    assert fill(w, chain, wanted, now) == list(range(11, 41))


def test_a_block_that_l1_did_not_have_is_fetched_again_after_the_next_head() -> None:
    w, chain = window(), FakeL1Chain(11)
    (fetch,) = w.plan([BlockRange(10, 10)], 9, 0.0)
    w.failed(fetch, None, 0.0)
    assert w.plan([BlockRange(10, 10)], 9, 0.0) == []
    w.update_head(chain.ref(chain.head), False, -1)
    assert numbers(w.plan([BlockRange(10, 10)], 9, 0.0)) == [10]


def test_a_client_that_takes_nothing_does_not_keep_others_from_prefetching() -> None:
    """It holds its share and what nobody else needs; the others get theirs [LHD32]."""
    chain = FakeL1Chain(200)
    w = PrefetchWindow(900, 60 * SIZE, rollups=3)
    stuck, other, third = BlockRange(1, 99), BlockRange(100, 140), BlockRange(150, 190)
    assert 31 <= len(fill(w, chain, stuck)) < 40, "half of the cache, and the one that it waits for"
    fetched = [fetch.number for fetch in w.plan([stuck, other, third], 30, 0.0)]
    assert fetched[:2] == [100, 150] and not [number for number in fetched if number < 100]
    for number in fetched:
        w.fetched(Fetch(number, 0), (chain.block(number),), SIZE, 0.0)
    w.trim([stuck, other, third])
    assert {1, 100, 150} <= {number for number in range(200) if w.get(number) is not None}
    assert w.bytes <= 60 * SIZE
    one = PrefetchWindow(900, 60 * SIZE)
    fill(one, chain, stuck)
    assert numbers(one.plan([stuck, other], 30, 0.0)) == [100], "as ever with one rollup"


@pytest.mark.option("l1.cache-size", by="max_blocks")
def test_trimming_drops_acknowledged_blocks_first_and_then_the_farthest() -> None:
    w, chain = window(max_blocks=5), FakeL1Chain(100)
    fill(w, chain, BlockRange(10, 14))
    fill(w, chain, BlockRange(20, 22))
    w.trim([BlockRange(20, 22)])
    assert len(w) == 5
    assert [n for n in range(100) if w.get(n)] == [13, 14, 20, 21, 22]
    small, chain = window(max_blocks=2), FakeL1Chain(100)
    fill(small, chain, BlockRange(10, 14))
    small.trim([BlockRange(11, 14)])
    assert small.get(11) is not None
    assert len(small) == 2


def test_trimming_keeps_what_a_client_far_behind_needs_next() -> None:
    """First go the blocks below all clients, then those that it needs last; what others want now stays [LHD32]."""
    chain = FakeL1Chain(100)
    w = window(max_blocks=16)
    for first, last in ((5, 12), (20, 25), (40, 49)):
        fill(w, chain, BlockRange(first, last))
    w.trim([BlockRange(10, 14), BlockRange(48, 49)])
    kept = [number for number in range(100) if w.get(number) is not None]
    assert kept == [10, 11, 12, 20, 21, 22, 23, 24, 25, 40, 41, 42, 48, 49]


def test_a_block_is_kept_as_each_rollup_sees_it() -> None:
    """[LHD32]"""
    chain, w = FakeL1Chain(20), window()
    (fetch,) = w.plan([BlockRange(10, 10)], 1, 0.0)
    own = chain.block(10)
    other = msgspec.structs.replace(own, inbox=(InboxTransaction(2, bytes(20), bytes(500), ()),))
    w.fetched(fetch, (own, other), memory_of((own, other)), 0.0)
    assert (w.get(10), w.get(10, 1), w.bytes) == (own, other, own.memory + other.memory - HEADER_MEMORY)


def test_a_block_that_does_not_link_makes_those_below_unverified() -> None:
    w, chain = window(), FakeL1Chain(30)
    fill(w, chain, BlockRange(10, 20))
    chain.reorg(depth=12, length=12)
    (fetch,) = w.plan([BlockRange(21, 21)], 1, 0.0)
    assert w.fetched(fetch, (chain.block(21),), SIZE, 0.0)
    assert all(w.get(n) is None for n in range(10, 21))
    assert sorted(fill(w, chain, BlockRange(10, 29))) == [10, 17, 18, 19, 20, *range(22, 30)]
    assert all(w.get(n) == chain.block(n) for n in range(10, 30))


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


def test_a_head_that_links_changes_nothing() -> None:
    w, chain = window(), FakeL1Chain(20)
    fill(w, chain, BlockRange(10, 19))
    chain.extend(1)
    assert not w.update_head(chain.ref(chain.head), False, -1)
    assert not w.update_head(chain.ref(chain.head), True, -1)
    assert len(w) == 10


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


def test_endpoints_that_contradict_each_other_lead_to_a_cool_down() -> None:
    w, one, two = window(), FakeL1Chain(30), FakeL1Chain(30)
    two.reorg(depth=20, length=20)
    fetches = 0
    now = 0.0
    while now < 60:
        for fetch in w.plan([BlockRange(15, 16)], 1, now):
            chain = one if fetches % 2 else two
            fetches += 1
            w.fetched(fetch, (chain.block(fetch.number),), SIZE, now)
        now += 0.05
    assert fetches < 60


@settings(max_examples=100)
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


def sizes(groups: Sequence[Sequence[Fetch]]) -> list[int]:
    return [len(group) for group in groups]


@pytest.mark.parametrize(
    ("fetches", "requests", "expected"),
    [(0, 4, []), (3, 4, [1, 1, 1]), (4, 4, [1] * 4), (5, 4, [1, 2, 2]), (10, 4, [1, 3, 3, 3]), (3, 1, [3])],
)
def test_the_most_urgent_block_goes_alone_where_others_have_a_request(
    fetches: int, requests: int, expected: list[int]
) -> None:
    assert sizes(grouped([Fetch(number, 0) for number in range(fetches)], requests)) == expected


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
    held = settled(1000, 100)
    assert held.room == 10
    for number in range(4):
        held.hold(number)
    assert held.room == 6
    held.hold(0, 50)
    assert held.room == 6
    held.hold(1)
    assert held.room == 6, "forgotten while its receipts are asked for"
    held.hold(0, 200)
    assert held.room == 1, "each may be as large"


def test_receipts_count_with_their_block() -> None:
    """The most that was held at a time is what the next ones are expected to take."""
    held = settled(1000, 50)
    held.hold(1, 50)
    held.hold(1, 250)
    held.hold(1)
    held.end(1)
    assert held.room == 4


def test_what_is_expected_follows_the_answers() -> None:
    held = settled(1000, 10)
    assert held.room >= 80
    # One that failed says nothing.
    held.hold(2)
    held.end(2)
    assert held.room >= 80


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=50))
def test_at_least_one_block_is_fetched_and_no_more_than_fit(sizes: list[int]) -> None:
    held = HeldAnswers(1000)
    for size in sizes:
        held.hold(0, size)
        held.end(0)
    assert held.room >= 1
    begun = 0
    while held.room:
        begun += 1
        held.hold(begun)
    assert begun == 1 or begun * min(sizes) <= 1000
    for number in range(1, begun + 1):
        held.end(number)
    assert held.room >= 1
