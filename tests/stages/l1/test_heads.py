"""Heads: how polled blocks become head, safe and finalized."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1.heads import PATIENCE, RING_SIZE, HeadChange, Heads
from rollup_node.stages.protocol.types import L1BlockRef


def block(number: int, branch: int = 0, fork_at: int = 0) -> L1BlockRef:
    """A block of a branch that leaves branch 0 at `fork_at` (its first own block)."""

    def hash_of(n: int) -> bytes:
        return (branch if n >= fork_at else 0).to_bytes(4, "big") + (n + 1).to_bytes(28, "big")

    return L1BlockRef(hash_of(number), number, hash_of(number - 1), 12 * number)


def test_heads_advance_one_by_one_and_over_gaps() -> None:
    heads = Heads()
    assert [heads.saw_head(block(n)) for n in (5, 6, 6, 7, 20)] == [
        HeadChange.ADVANCED,
        HeadChange.ADVANCED,
        HeadChange.SAME,
        HeadChange.ADVANCED,
        HeadChange.ADVANCED,
    ]
    assert heads.head == block(20)
    assert heads.at(20) == block(20)
    assert heads.at(7) is None


def test_a_reorg_keeps_what_the_new_head_stands_on() -> None:
    heads = Heads()
    for n in range(1, 11):
        heads.saw_head(block(n))
    assert heads.saw_head(block(9, branch=1, fork_at=9)) is HeadChange.REORGED
    assert heads.undone == 2
    assert heads.head == block(9, 1, 9)
    assert heads.at(8) == block(8)
    assert heads.at(9) == block(9, 1, 9)
    assert heads.at(10) is None


def test_a_deeper_reorg_clears_the_ring() -> None:
    heads = Heads()
    for n in range(1, 11):
        heads.saw_head(block(n))
    assert heads.saw_head(block(11, branch=1, fork_at=8)) is HeadChange.REORGED
    assert heads.at(7) is None
    assert heads.at(11) == block(11, 1, 8)


def test_an_ancestor_is_a_lagging_endpoint_until_it_persists() -> None:
    heads = Heads()
    for n in range(1, 11):
        heads.saw_head(block(n))
    assert [heads.saw_head(block(8)) for _ in range(PATIENCE)] == [
        *[HeadChange.BEHIND] * (PATIENCE - 1),
        HeadChange.REORGED,
    ]
    assert heads.head == block(8)
    assert heads.at(9) is None
    heads.saw_head(block(9))
    assert heads.saw_head(block(8)) is HeadChange.BEHIND
    assert heads.saw_head(block(9)) is HeadChange.SAME
    assert heads.saw_head(block(8)) is HeadChange.BEHIND


def test_a_head_below_the_finalized_block_is_refused() -> None:
    heads = Heads()
    heads.saw_head(block(100))
    assert heads.saw_finalized(block(64)) is None
    assert heads.saw_head(block(50)) is HeadChange.BELOW_FINALIZED
    assert heads.head == block(100)


def test_finality_never_goes_back() -> None:
    heads = Heads()
    assert heads.saw_finalized(block(0)) is None
    assert heads.saw_finalized(block(64)) is None
    assert "went back from 64" in str(heads.saw_finalized(block(32)))
    assert "another chain" in str(heads.saw_finalized(block(64, branch=2)))
    assert heads.finalized == block(64)


def test_the_safe_block_may_go_back() -> None:
    heads = Heads()
    assert heads.saw_safe(block(64))
    assert not heads.saw_safe(block(64))
    assert heads.saw_safe(block(32))
    assert heads.safe == block(32)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 2)), max_size=60))
def test_the_ring_always_links(seen: list[tuple[int, int]]) -> None:
    heads = Heads()
    for number, branch in seen:
        heads.saw_head(block(number, branch, fork_at=5 * branch))
        assert heads.head is not None
        assert heads.at(heads.head.number) == heads.head
        for n in range(1, 31):
            ref, parent = heads.at(n), heads.at(n - 1)
            assert ref is None or parent is None or ref.parent_hash == parent.hash
            assert ref is None or n <= heads.head.number


def test_the_ring_is_bounded() -> None:
    heads = Heads()
    for n in range(RING_SIZE + 5):
        heads.saw_head(block(n))
    assert heads.at(4) is None
    assert heads.at(5) is not None
