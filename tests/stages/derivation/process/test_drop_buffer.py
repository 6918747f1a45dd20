"""Pages of drops, and how many are kept."""

from rollup_node.stages.derivation.process.drop_buffer import PAGE, DropBuffer
from rollup_node.stages.messages.derivation import Drop, DropEffect, DropsRequest


def _buffer(count: int, kept: int = 1000) -> DropBuffer:
    buffer = DropBuffer(kept)
    for number in range(count):
        _add(buffer, number)
    return buffer


def _add(buffer: DropBuffer, number: int) -> None:
    buffer.add(Drop("V1", str(number), None, False, DropEffect.DROPPED, "l1_window_empty", {}))


def _page(buffer: DropBuffer, first: int) -> tuple[int, list[int], int]:
    found = buffer.answer(DropsRequest(7, first))
    assert found.id == 7
    return found.first, [int(drop.text) for drop in found.drops], found.total


def test_pages_follow_each_other() -> None:
    buffer = _buffer(2 * PAGE + 5)
    read: list[int] = []
    while len(read) < buffer.total:
        first, page, total = _page(buffer, len(read))
        assert (first, total) == (len(read), 2 * PAGE + 5)
        read += page
    assert read == list(range(2 * PAGE + 5))
    assert _page(buffer, len(read)) == (len(read), [], len(read))


def test_the_oldest_drops_go() -> None:
    buffer = _buffer(25, kept=10)
    assert _page(buffer, 0) == (15, list(range(15, 25)), 25)
    assert _page(buffer, 20) == (20, list(range(20, 25)), 25)


def test_numbers_that_do_not_exist() -> None:
    assert _page(_buffer(3), 50) == (3, [], 3)
    assert _page(_buffer(3), -5) == (0, [0, 1, 2], 3)
    assert _page(_buffer(0), 0) == (0, [], 0)


def test_the_buffer_is_full_of_drops_that_no_reader_has() -> None:
    buffer = _buffer(9, kept=10)
    assert not buffer.is_full
    _add(buffer, 9)
    assert buffer.is_full
    _page(buffer, 0)
    assert buffer.is_full
    _page(buffer, 4)
    assert not buffer.is_full
    _page(buffer, 1)
    assert not buffer.is_full, "a repeated older request changes nothing"
