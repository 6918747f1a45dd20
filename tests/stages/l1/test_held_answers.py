"""How many blocks may be fetched, by the bytes that their answers take."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1.held_answers import FIRST_BLOCKS, HeldAnswers


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
