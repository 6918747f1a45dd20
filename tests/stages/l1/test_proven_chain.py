"""Links of L1 blocks to a proven head [LCP14, LCP15]."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1 import proven_chain
from rollup_node.stages.l1.proven_chain import BATCH, REACH, ProvenChain, Standing
from rollup_node.stages.protocol.types import L1BlockRef
from tests.support.chains.fake_l1_chain import FakeL1Chain


def link(chain: ProvenChain, l1: FakeL1Chain, lowest: int) -> int:
    """Follow the links as far as they are wanted; the number of steps."""
    steps = 0
    while numbers := chain.missing(lowest):
        assert len(numbers) <= BATCH
        assert chain.extend([l1.ref(number) for number in numbers])
        steps += 1
    return steps


def standings(chain: ProvenChain, l1: FakeL1Chain, *numbers: int) -> list[Standing]:
    return [chain.standing(number, l1.hash(number)) for number in numbers]


def test_without_a_head_nothing_is_proven() -> None:
    chain, l1 = ProvenChain(), FakeL1Chain(3)
    assert standings(chain, l1, 0, 2) == [Standing.BEYOND] * 2
    assert not chain.missing(0)


def test_blocks_are_proven_down_to_where_the_links_reach() -> None:
    chain, l1 = ProvenChain(), FakeL1Chain(300)
    chain.advance(l1.ref(290))
    assert standings(chain, l1, 291, 290, 289, 288) == [
        Standing.BEYOND,
        Standing.PROVEN,
        Standing.PROVEN,
        Standing.WAITING,
    ]
    assert chain.standing(289, b"\1" * 32) is Standing.FORGED
    assert link(chain, l1, 40) == 2
    assert standings(chain, l1, 40, 39, 38) == [Standing.PROVEN, Standing.WAITING, Standing.WAITING]
    assert link(chain, l1, 0) == 1 and standings(chain, l1, 0) == [Standing.PROVEN]


def test_a_head_that_skips_blocks_needs_only_the_links_between() -> None:
    chain, l1 = ProvenChain(), FakeL1Chain(300)
    chain.advance(l1.ref(200))
    link(chain, l1, 100)
    chain.advance(l1.ref(201))
    assert not chain.missing(100)
    chain.advance(l1.ref(210))
    assert chain.missing(100) == range(202, 210)
    assert link(chain, l1, 100) == 1
    assert standings(chain, l1, 100, 205) == [Standing.PROVEN] * 2


def test_after_a_reorg_the_blocks_below_the_fork_stay_proven() -> None:
    chain, l1, old = ProvenChain(), FakeL1Chain(300), FakeL1Chain(300)
    chain.advance(old.ref(290))
    link(chain, old, 100)
    l1.reorg(30, 40)
    chain.advance(l1.ref(300))
    assert link(chain, l1, 100) <= 4
    assert standings(chain, l1, 100, 269, 270, 300) == [Standing.PROVEN] * 4
    assert standings(chain, old, 269, 270, 290) == [Standing.PROVEN, Standing.FORGED, Standing.FORGED]


def test_what_was_known_before_a_reorg_may_have_gaps() -> None:
    """After a restart the kept block and the newest head are known, and what is between them is not wanted yet."""
    chain, l1 = ProvenChain(), FakeL1Chain(43)
    for number in (38, 42):
        chain.advance(l1.ref(number))
    l1.reorg(1, 2)
    chain.advance(l1.ref(43))
    link(chain, l1, 37)
    assert standings(chain, l1, *range(37, 44)) == [Standing.PROVEN] * 7


def test_a_head_that_goes_back_forgets_those_above() -> None:
    chain, l1 = ProvenChain(), FakeL1Chain(300)
    for number in (200, 201, 202, 201):
        chain.advance(l1.ref(number))
    assert standings(chain, l1, 200, 201, 202) == [Standing.PROVEN, Standing.PROVEN, Standing.BEYOND]


def test_what_does_not_link_proves_nothing() -> None:
    chain, l1 = ProvenChain(), FakeL1Chain(300)
    chain.advance(l1.ref(290))
    other = FakeL1Chain(100)
    other.reorg(99, 290)
    numbers = chain.missing(280)
    for refs in ([other.ref(number) for number in numbers], [l1.ref(number) for number in numbers][:-1]):
        assert not chain.extend(refs)
    broken = [l1.ref(number) for number in numbers]
    broken[2] = other.ref(numbers[2])
    assert not chain.extend(broken)
    assert standings(chain, l1, numbers[3]) == [Standing.PROVEN]
    assert chain.standing(numbers[2], other.hash(numbers[2])) is Standing.FORGED


def test_blocks_are_kept_down_to_the_reach() -> None:
    """In about two megabytes; one farther below is used without a proof [LCP16]."""
    chain = ProvenChain()
    parent = b"\0" * 32
    for number in range(1, REACH + 50):
        block_hash = number.to_bytes(32, "big")
        chain.advance(L1BlockRef(block_hash, number, parent, 0))
        parent = block_hash
    assert len(chain) == REACH + 1
    assert chain.standing(48, (48).to_bytes(32, "big")) is Standing.FAR
    assert chain.standing(49, (49).to_bytes(32, "big")) is Standing.PROVEN


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 9), st.booleans()), max_size=12), st.integers(0, 30))
def test_after_any_heads_and_reorgs_exactly_the_chain_of_the_head_is_proven(
    steps: list[tuple[int, int, bool]], lowest: int
) -> None:
    """Whether links were wanted after each head, or are only now."""
    chain, l1 = ProvenChain(), FakeL1Chain(32)
    stale: list[L1BlockRef] = []
    for extended, depth, is_wanted in steps:
        if depth:
            stale += [l1.ref(number) for number in range(len(l1.headers) - depth, len(l1.headers))]
            l1.reorg(depth, depth + extended)
        else:
            l1.extend(extended)
        chain.advance(l1.ref(l1.head))
        if not is_wanted:
            continue
        link(chain, l1, lowest)
        assert all(result is Standing.PROVEN for result in standings(chain, l1, *range(lowest, l1.head + 1)))
        canonical = {l1.hash(number) for number in range(l1.head + 1)}
        for ref in stale:
            if ref.hash not in canonical:
                assert chain.standing(ref.number, ref.hash) is not Standing.PROVEN


def test_the_reach_is_more_than_a_sequencing_window() -> None:
    assert proven_chain.REACH > 2 * 3600
