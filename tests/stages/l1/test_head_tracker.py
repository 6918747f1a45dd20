"""How polled blocks become head, safe and finalized."""

import pytest

from rollup_node.stages.l1.head_tracker import (
    MAX_RECENT,
    ROLLBACK_POLLS,
    HeadChange,
    HeadTracker,
    NewestBlock,
)
from rollup_node.stages.protocol.types import L1BlockRef
from tests.support.chains.fake_l1_chain import BLOCK_TIME, FakeL1Chain


def block(number: int, branch: int = 0, fork_at: int = 0) -> L1BlockRef:
    """Return a block of a branch that leaves branch 0 at `fork_at` (its first own block)."""

    def hash_of(n: int) -> bytes:
        return (branch if n >= fork_at else 0).to_bytes(4, "big") + (n + 1).to_bytes(28, "big")

    return L1BlockRef(hash_of(number), number, hash_of(number - 1), 12 * number)


def at(tracker: HeadTracker, number: int) -> L1BlockRef | None:
    """Return the recent head of that number, if it was polled and is canonical."""
    return tracker._recent.get(number)


@pytest.fixture
def tracker() -> HeadTracker:
    return HeadTracker()


def test_a_reorg_keeps_the_ancestors_of_the_new_head(tracker: HeadTracker) -> None:
    for n in range(1, 11):
        tracker.update_head(block(n))
    assert tracker.update_head(block(9, branch=1, fork_at=9)) is HeadChange.REORGED
    assert tracker.reorg_depth == 2
    assert tracker.head == block(9, 1, 9)
    assert at(tracker, 8) == block(8)
    assert at(tracker, 9) == block(9, 1, 9)
    assert at(tracker, 10) is None


def test_an_ancestor_is_a_lagging_endpoint_until_it_persists(tracker: HeadTracker) -> None:
    for n in range(1, 11):
        tracker.update_head(block(n))
    assert [tracker.update_head(block(8)) for _ in range(ROLLBACK_POLLS)] == [
        *[HeadChange.BEHIND] * (ROLLBACK_POLLS - 1),
        HeadChange.REORGED,
    ]
    assert tracker.head == block(8)
    assert at(tracker, 9) is None
    tracker.update_head(block(9))
    assert tracker.update_head(block(8)) is HeadChange.BEHIND
    assert tracker.update_head(block(9)) is HeadChange.SAME
    assert tracker.update_head(block(8)) is HeadChange.BEHIND


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_what_may_be_an_ancestor_is_a_lagging_endpoint_too(tracker: HeadTracker, depth: int) -> None:
    """After a start, and after polls that have missed a block, the heads before the last are not known."""
    tracker.update_head(block(80))
    for n in (100, 101, 103):
        assert tracker.update_head(block(n)) is HeadChange.ADVANCED
        assert tracker.update_head(block(n - depth)) is HeadChange.BEHIND
        assert tracker.update_head(block(n)) is HeadChange.SAME
    polls = [tracker.update_head(block(103 - depth)) for _ in range(ROLLBACK_POLLS)]
    assert polls == [*[HeadChange.BEHIND] * (ROLLBACK_POLLS - 1), HeadChange.REORGED]


def test_a_block_in_the_place_of_the_parent_is_a_reorg(tracker: HeadTracker) -> None:
    tracker.update_head(block(100))
    assert tracker.update_head(block(99, branch=1, fork_at=99)) is HeadChange.REORGED


def test_a_head_below_the_finalized_block_is_refused(tracker: HeadTracker) -> None:
    tracker.update_head(block(100))
    assert tracker.update_finalized(block(64)) is None
    assert tracker.update_head(block(50)) is HeadChange.BELOW_FINALIZED
    assert tracker.head == block(100)


@pytest.mark.fault("F10")
@pytest.mark.condition("C8")
def test_finality_never_goes_back(tracker: HeadTracker) -> None:
    assert tracker.update_finalized(block(0)) is None
    assert tracker.update_finalized(block(64)) is None
    assert "went back from 64" in str(tracker.update_finalized(block(32)))
    assert "another chain" in str(tracker.update_finalized(block(64, branch=2)))
    assert tracker.finalized == block(64)


def test_a_finalized_block_above_the_head_or_beside_its_chain_is_refused(tracker: HeadTracker) -> None:
    """[LHD23]"""
    for n in range(90, 101):
        tracker.update_head(block(n))
    assert "above the head" in str(tracker.update_finalized(block(101)))
    assert "not on the chain of the head" in str(tracker.update_finalized(block(95, branch=2)))
    assert tracker.finalized is None
    assert tracker.update_finalized(block(95)) is None


def test_after_finality_is_dropped_any_chain_is_taken(tracker: HeadTracker) -> None:
    """[LHD23]"""
    tracker.update_head(block(100))
    tracker.update_safe(block(80))
    tracker.update_finalized(block(64))
    tracker.drop_finalized()
    assert (tracker.head, tracker.safe, tracker.finalized, at(tracker, 100)) == (None, None, None, None)
    assert tracker.update_head(block(50, branch=3)) is HeadChange.ADVANCED
    assert tracker.update_finalized(block(40, branch=3)) is None


def test_the_safe_block_may_go_back(tracker: HeadTracker) -> None:
    assert tracker.update_safe(block(64))
    assert not tracker.update_safe(block(64))
    assert tracker.update_safe(block(32))
    assert tracker.safe == block(32)


def test_recent_heads_are_bounded(tracker: HeadTracker) -> None:
    for n in range(MAX_RECENT + 5):
        tracker.update_head(block(n))
    assert at(tracker, 4) is None
    assert at(tracker, 5) is not None
    assert tracker.update_head(block(MAX_RECENT + 9)) is HeadChange.ADVANCED
    assert at(tracker, MAX_RECENT + 4) is None, "a gap is between them"


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
