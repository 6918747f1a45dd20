"""Needs of blobs: repeated asks, order, retries, and a cache bounded in bytes."""

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.blobs.blob_requests import (
    FORGET_SECONDS,
    LONGEST_PAUSE,
    MAX_NEEDS,
    URGENT_SECONDS,
    ContentCache,
    Needs,
)
from rollup_node.stages.messages.blobs import BlobContent, BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.protocol.types import BlobRef, L1BlockRef

PEER = ProcessId(3, 1)


def block(number: int) -> L1BlockRef:
    return L1BlockRef(number.to_bytes(32, "big"), number, bytes(32), 12 * number)


def content(name: int, size: int = 10) -> BlobContent:
    return BlobContent(bytes([name]) * 32, bytes(size), None)


def want(number: int, names: list[int], urgent: bool = False) -> BlobsRequest:
    return BlobsRequest(block(number), tuple(BlobRef(i, bytes([n]) * 32) for i, n in enumerate(names)), urgent)


def test_a_need_is_met_in_the_order_asked_for_with_repetitions() -> None:
    needs = Needs(1 << 20)
    need = needs.ask(PEER, want(1, [7, 8, 7]), 0.0)
    assert need.answer() is None
    assert [ref.hash[0] for ref in need.missing] == [7, 8]
    need.take([content(8), content(9)])
    assert [ref.hash[0] for ref in need.missing] == [7]
    need.take([content(7)])
    answer = need.answer()
    assert isinstance(answer, BlobsResponse)
    assert [each.hash[0] for each in answer.contents] == [7, 8, 7]
    needs.done(need)
    assert len(needs) == 0


def test_the_same_ask_is_the_same_need_and_may_become_urgent() -> None:
    needs = Needs(1 << 20)
    first = needs.ask(PEER, want(1, [7]), 0.0)
    again = needs.ask(ProcessId(3, 2), want(1, [7], urgent=True), 1.0)
    assert again is first
    assert first.urgent
    assert first.askers == {3: ProcessId(3, 2)}
    assert needs.ask(PEER, want(1, [8]), 1.0) is not first


def test_what_is_cached_is_had_at_once() -> None:
    needs = Needs(1 << 20)
    needs.cache.put(content(7))
    assert isinstance(needs.ask(PEER, want(1, [7]), 0.0).answer(), BlobsResponse)


def test_urgent_needs_come_first_then_the_lowest_block() -> None:
    needs = Needs(1 << 20)
    for number, urgent in ((5, False), (9, True), (3, False)):
        needs.ask(PEER, want(number, [number], urgent), 0.0)
    assert [need.block.number for need in needs.due(0.0)] == [9, 3, 5]
    for need in needs:
        need.is_running = need.block.number == 3
    assert [need.block.number for need in needs.due(0.0)] == [9, 5]


def test_failures_are_told_and_retried_after_growing_pauses() -> None:
    needs = Needs(1 << 20)
    need = needs.ask(PEER, want(1, [7]), 0.0)
    now, pauses = 0.0, []
    for _ in range(8):
        need.failed("gone", True, now)
        assert need.answer() == BlobsUnavailable(block(1).hash, True, "gone")
        assert needs.due(now) == []
        pause = needs.next_retry(now)
        assert pause is not None
        pauses.append(pause)
        now += pause
        assert needs.due(now) == [need]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]
    assert needs.next_retry(now) is None


def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    needs = Needs(1 << 20)
    needs.ask(PEER, want(1, [7]), 0.0)
    running = needs.ask(PEER, want(2, [8]), 0.0)
    running.is_running = True
    needs.ask(PEER, want(3, [9]), 50.0)
    needs.forget(FORGET_SECONDS + 1)
    assert [need.block.number for need in needs] == [2, 3]


def test_what_is_not_asked_for_again_is_no_longer_urgent() -> None:
    needs = Needs(1 << 20)
    needs.ask(PEER, want(1, [7], urgent=True), 0.0)
    again = needs.ask(PEER, want(2, [8], urgent=True), 0.0)
    needs.ask(PEER, want(2, [8], urgent=True), 1.0)
    needs.forget(URGENT_SECONDS + 0.5)
    assert [need for need in needs if need.urgent] == [again]
    assert [need.block.number for need in needs] == [1, 2]


def test_needs_are_bounded_in_number() -> None:
    needs = Needs(1 << 20)
    for number in range(MAX_NEEDS + 10):
        needs.ask(PEER, want(number, [7], urgent=number < 3), float(number) / 1000)
    needs.forget(1.0)
    assert len(needs) == MAX_NEEDS
    kept = {need.block.number for need in needs}
    assert {0, 1, 2} <= kept
    assert 3 not in kept


def test_the_cache_drops_what_was_not_used_for_longest() -> None:
    cache = ContentCache(3_300)
    for name in range(3):
        cache.put(content(name, 700))
    assert cache.get(bytes([0]) * 32) is not None
    cache.put(content(0, 700))
    assert cache.bytes == 3_000
    cache.put(content(3, 700))
    assert cache.get(bytes([1]) * 32) is None
    assert cache.get(bytes([0]) * 32) is not None
    assert (len(cache), cache.bytes) == (3, 3_000)
    cache.put(content(4, 1_000_000))
    assert len(cache) == 1
