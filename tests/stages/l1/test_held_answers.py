"""How many blocks may be fetched, by the bytes that their answers take."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1.held_answers import HeldAnswers


def test_the_first_blocks_are_asked_for_before_any_size_is_known() -> None:
    held = HeldAnswers(1000)
    assert held.room == 1000
    for number in range(20):
        held.hold(number)
    assert held.room == 1000


def test_awaited_answers_count_as_the_last_ones() -> None:
    held = HeldAnswers(1000)
    held.hold(1, 100)
    held.end(1)
    assert held.room == 10
    for number in range(4):
        held.hold(number)
    assert held.room == 6
    held.hold(0, 400)
    assert held.room == 3
    # A block that is forgotten while its receipts are asked for counts as others do.
    held.hold(0)
    assert held.room == 6


def test_receipts_count_with_their_block() -> None:
    """The most that was held at a time is what the next ones are expected to take."""
    held = HeldAnswers(1000)
    held.hold(1, 50)
    held.hold(1, 250)
    held.hold(1)
    held.end(1)
    assert held.room == 4


def test_what_is_expected_follows_the_answers() -> None:
    held = HeldAnswers(1000)
    for size in [100] + 20 * [10]:
        held.hold(1, size)
        held.end(1)
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
