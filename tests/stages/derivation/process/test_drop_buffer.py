"""The drops that can be asked for, and how much of them is kept."""

from rollup_node.stages.derivation.process.drop_buffer import PAGE, DropBuffer
from rollup_node.stages.messages.derivation import Drop, DropEffect, DropsRequest


def _history(count: int, kept: int = 1000) -> DropBuffer:
    history = DropBuffer(kept)
    for number in range(count):
        history.add(Drop("V1", str(number), None, False, DropEffect.DROPPED, "l1_window_empty", {}))
    return history


def _texts(history: DropBuffer, first: int) -> tuple[int, list[int], int]:
    found = history.answer(DropsRequest(7, first))
    assert found.id == 7
    return found.first, [int(drop.text) for drop in found.drops], found.total


def test_pages_follow_each_other() -> None:
    history, read = _history(2 * PAGE + 5), []
    while len(read) < history.total:
        first, page, total = _texts(history, len(read))
        assert (first, total) == (len(read), 2 * PAGE + 5)
        read += page
    assert read == list(range(2 * PAGE + 5))
    assert _texts(history, len(read)) == (len(read), [], len(read))


def test_old_ones_are_forgotten() -> None:
    history = _history(25, kept=10)
    assert _texts(history, 0) == (15, list(range(15, 25)), 25)
    assert _texts(history, 20) == (20, list(range(20, 25)), 25)


def test_a_number_that_there_is_not() -> None:
    assert _texts(_history(3), 50) == (3, [], 3)
    assert _texts(_history(3), -5) == (0, [0, 1, 2], 3)
    assert _texts(_history(0), 0) == (0, [], 0)


def test_it_is_full_of_what_nobody_had() -> None:
    history = _history(9, kept=10)
    assert not history.is_full
    history.add(Drop("V1", "9", None, False, DropEffect.DROPPED, "l1_window_empty", {}))
    assert history.is_full
    history.answer(DropsRequest(1, 0))
    assert history.is_full
    history.answer(DropsRequest(2, 4))
    assert not history.is_full
    history.answer(DropsRequest(3, 1))
    assert not history.is_full, "a repeated older question takes nothing back"
