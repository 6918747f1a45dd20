"""The answer to a poll of the head that has the whole block."""

import pytest

from rollup_node.stages.l1.newest_block import NewestBlock, NewestBody
from tests.support.chains.fake_l1_chain import BLOCK_TIME, FakeL1Chain

CHAIN = FakeL1Chain(10)


@pytest.mark.parametrize(
    ("interval", "heads", "notified", "awaited", "expected"),
    (
        (BLOCK_TIME, (5, 6), False, 7, True),
        (BLOCK_TIME / 2, (5, 6), False, 7, True),
        (BLOCK_TIME / 2 - 0.1, (5, 6), False, 7, False),
        (BLOCK_TIME / 2, (2, 6), False, 7, True),
        (BLOCK_TIME, (5, 6), False, 6, False),
        (BLOCK_TIME, (6,), False, 7, False),
        (BLOCK_TIME, (6, 5), False, 6, False),
        (0.0, (6,), True, 7, True),
        (0.0, (6,), True, 8, False),
        (BLOCK_TIME, (), True, 0, False),
    ),
)
def test_when_a_poll_asks_for_the_block(
    interval: float, heads: tuple[int, ...], notified: bool, awaited: int, expected: bool
) -> None:
    """[LHD25] `heads` are polled one after the other, `awaited` is the block that a client wants next."""
    newest = NewestBlock[str](interval, lambda number: number == awaited)
    head = None
    for number in heads:
        newest.advanced(head, CHAIN.ref(number))
        head = CHAIN.ref(number)
    assert newest.pays(head, notified) is expected


def test_an_answer_is_returned_once_and_replaced_by_the_next() -> None:
    newest = NewestBlock[str](12.0, lambda number: True)
    first, second = NewestBody("a", 1, b"1"), NewestBody("b", 2, b"2")
    newest.put(first)
    assert newest.take(2) is None
    assert newest.take(1) == first and newest.take(1) is None
    newest.put(first)
    newest.put(second)
    assert newest.take(1) is None and newest.take(2) == second
    newest.put(first)
    newest.put(None)
    assert newest.take(1) is None
