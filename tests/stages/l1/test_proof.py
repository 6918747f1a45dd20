"""What may be used where heads are proven: links to the proven head, catch-ups, and finality [LCP14 to LCP18]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.l1 import proof as proof_module
from rollup_node.stages.l1.process.proof_poller import STEPS
from rollup_node.stages.l1.proof import (
    BATCH,
    HIDE_SECONDS,
    REACH,
    WAITING_SECONDS,
    CatchUp,
    Proof,
    ProvenChain,
    Standing,
    Unproven,
)
from rollup_node.stages.protocol.types import L1BlockRef
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.timing.manual_clock import ManualClock

HONEST = FakeL1Chain(100)

# --- links to a proven head ------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("heads", [(62, 63), (63,), (66,), (66, 69)])
def test_what_was_proven_before_a_reorg_is_not_forged(heads: tuple[int, ...]) -> None:
    """The new head links to the known blocks, or skips some of them, once or twice."""
    chain, l1, other = ProvenChain(), FakeL1Chain(64), FakeL1Chain(64)
    other._branch = 7
    other.reorg(20, 20)
    chain.advance(l1.ref(50))
    link(chain, l1, 20)
    for number in range(51, 64):
        chain.advance(l1.ref(number))
    before = [l1.ref(number) for number in (62, 63)]
    l1.reorg(2, 10)
    for head in heads:
        chain.advance(l1.ref(head))
    link(chain, l1, 40)
    assert [chain.standing(ref.number, ref.hash) for ref in before] == [Standing.REPLACED] * 2
    assert standings(chain, other, 62, 63) == [Standing.FORGED] * 2
    assert standings(chain, l1, 45, 61, 62, 63) == [Standing.PROVEN] * 4


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


def test_what_was_known_before_is_not_looked_for_below_the_reach() -> None:
    """[LCP15] After days without a proof, the links end as far below the new head as after a start."""
    chain, hashes = ProvenChain(), [number.to_bytes(32, "big") for number in range(3 * REACH)]
    refs = [L1BlockRef(hashes[number], number, hashes[number - 1], 0) for number in range(3 * REACH)]
    chain.advance(refs[100])
    asked = 0
    for head in range(2 * REACH, 2 * REACH + 20):
        chain.advance(refs[head])
        for _ in range(STEPS):
            if numbers := chain.missing(head - REACH // 2):
                assert chain.extend([refs[number] for number in numbers])
                asked += len(numbers)
    assert asked <= REACH // 2 and len(chain) <= REACH + 1
    assert chain.standing(head - REACH // 2 + 20, hashes[head - REACH // 2 + 20]) is Standing.PROVEN


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
    assert REACH > 2 * 3600


# --- blocks that were used unproven ----------------------------------------------------------------------------------

FORGED = FakeL1Chain(60)
FORGED.reorg(30, 40)


def caught_up(chain: FakeL1Chain, first: int, last: int) -> CatchUp:
    """Return what has taken the blocks of a chain unproven."""
    result = CatchUp()
    for number in range(first, last + 1):
        assert result.sent(chain.ref(number), False)
    return result


def test_a_reset_to_a_forged_block_leaves_a_doubt() -> None:
    """What was derived by the blocks before it may be forged, too: until those are sent again."""
    catch_up = caught_up(FORGED, 5, 45)
    assert not catch_up.sent(HONEST.ref(40), False)
    assert catch_up.doubt is not None and "blocks 5 to 39" in catch_up.doubt
    assert catch_up.sent(HONEST.ref(41), True)
    assert catch_up.unproven is not None, "it says nothing"
    catch_up.requested(5, None)
    for number in range(5, 41):
        assert catch_up.sent(HONEST.ref(number), False)
    assert catch_up.doubt is None
    assert catch_up.sent(HONEST.ref(41), True) and catch_up.unproven is None


def test_a_reorg_while_catching_up_goes_on_from_the_fork() -> None:
    catch_up = caught_up(FORGED, 5, 40)
    assert catch_up.sent(HONEST.ref(30), False)
    assert catch_up.unproven == Unproven(5, 30, HONEST.hash(30))
    assert not catch_up.sent(FORGED.ref(31), False)


def restarted(chain: FakeL1Chain, first: int, last: int, *marks: int) -> CatchUp:
    """Return what knows of a former process that has recorded these blocks."""
    return CatchUp(Unproven(first, last, chain.hash(last), tuple((number, chain.hash(number)) for number in marks)))


def test_a_restart_goes_on_where_the_process_before_was() -> None:
    """Once derivation has accepted the next block: it may have been reset, and have other blocks than are recorded."""
    catch_up = restarted(HONEST, 5, 20)
    assert catch_up.sent(HONEST.ref(21), True) and catch_up.unproven == Unproven(5, 20, HONEST.hash(20))
    assert catch_up.awaits(22) and not catch_up.awaits(21)
    catch_up.requested(22, None)
    assert catch_up.awaits(22), "it is received, and not taken yet"
    catch_up.requested(22, HONEST.hash(21))
    assert not catch_up.awaits(22) and catch_up.unproven == Unproven(5, 21, HONEST.hash(21))
    assert catch_up.sent(HONEST.ref(22), True) and catch_up.unproven is None


def test_blocks_that_are_sent_again_meet_the_recorded_ones() -> None:
    """From below the lowest of them on."""
    catch_up = restarted(HONEST, 5, 20, 16)
    for number in range(12, 17):
        assert not catch_up.gap_below(HONEST.ref(number)) and catch_up.sent(HONEST.ref(number), False)
    assert catch_up.awaits(17)
    catch_up.requested(17, HONEST.hash(16))
    for number in range(17, 25):
        assert catch_up.sent(HONEST.ref(number), False)
    assert catch_up.unproven == Unproven(5, 24, HONEST.hash(24))
    assert catch_up.sent(HONEST.ref(25), True) and catch_up.unproven is None


def test_a_gap_is_filled_by_blocks_that_link_alone() -> None:
    """[LCP17] From the block that is sent next down to the highest recorded one, in batches."""
    chain = FakeL1Chain(300)
    catch_up = restarted(chain, 5, 20)
    forged = FakeL1Chain(300)
    forged.reorg(200, 200)
    ref = chain.ref(250)
    assert catch_up.gap_below(ref) == range(122, 250)
    assert not catch_up.fill([forged.ref(number) for number in range(122, 250)])
    assert catch_up.fill([chain.ref(number) for number in range(122, 250)])
    assert catch_up.gap_below(ref) == range(21, 122)
    assert catch_up.gap_below(forged.ref(250)) == range(122, 250), "of another block it is another gap"
    assert catch_up.gap_below(ref) == range(122, 250)
    for first, last in ((122, 250), (21, 122)):
        assert catch_up.fill([chain.ref(number) for number in range(first, last)])
    assert not catch_up.gap_below(ref) and catch_up.sent(ref, False)
    catch_up.requested(251, chain.hash(250))
    assert catch_up.unproven == Unproven(5, 250, chain.hash(250))
    assert catch_up.sent(chain.ref(251), True) and catch_up.unproven is None


def test_a_restart_with_another_chain_leaves_a_doubt_until_derivation_is_reset() -> None:
    catch_up = restarted(FORGED, 5, 40, 32)
    assert catch_up.gap_below(HONEST.ref(45)) == range(33, 45)
    while numbers := catch_up.gap_below(HONEST.ref(45)):
        assert catch_up.fill([HONEST.ref(number) for number in numbers])
    assert catch_up.sent(HONEST.ref(45), False)
    assert catch_up.doubt is not None and "blocks 5 to 44 are not on the chain of 45" in catch_up.doubt
    assert not catch_up.gap_below(HONEST.ref(46)) and catch_up.sent(HONEST.ref(46), True)
    assert catch_up.unproven is not None
    catch_up.requested(5, None)
    assert catch_up.sent(HONEST.ref(5), False) and catch_up.doubt is None


@pytest.mark.parametrize("first", [46, 47, 60])
def test_a_reset_to_above_the_block_that_is_to_be_accepted_goes_on_there(first: int) -> None:
    """[LCP17] An engine that was away comes back with a newer copy of its data."""
    catch_up = CatchUp(Unproven(5, 44, HONEST.hash(44)))
    catch_up.requested(45, HONEST.hash(40))
    assert catch_up.sent(HONEST.ref(45), False) and catch_up.awaits(46)
    catch_up.requested(46, HONEST.hash(40))
    assert catch_up.awaits(46), "it is received, and not taken yet"
    catch_up.requested(first, None)
    assert not catch_up.awaits(first)
    gap = catch_up.gap_below(HONEST.ref(first))
    assert gap == range(45, first) and catch_up.fill([HONEST.ref(number) for number in gap])
    assert catch_up.sent(HONEST.ref(first), False) and catch_up.doubt is None
    catch_up.requested(first + 1, HONEST.hash(first))
    assert catch_up.unproven is not None and catch_up.unproven.last == first
    assert catch_up.sent(HONEST.ref(first + 1), True) and catch_up.unproven is None


def test_what_is_recorded_has_some_of_the_blocks_before_the_last() -> None:
    catch_up = caught_up(HONEST, 5, 50)
    record = catch_up.record()
    assert record is not None and record.marks == ((5, HONEST.hash(5)), (32, HONEST.hash(32)))
    assert CatchUp().record() is None


# --- what may be used, and when finality is hidden -------------------------------------------------------------------

CHAIN, OTHER = 10, 130


@pytest.fixture
def _short_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("REACH", 16), ("MARKS", 1)):
        monkeypatch.setattr(proof_module, name, value)


in_short_reach = pytest.mark.usefixtures("_short_reach")


def linked(proof: Proof) -> None:
    while numbers := proof.missing():
        assert proof.chain.extend([HONEST.ref(number) for number in numbers])


def marks(*numbers: int) -> tuple[tuple[int, bytes], ...]:
    return tuple((number, HONEST.hash(number)) for number in numbers)


@in_short_reach
def test_a_far_block_is_used_after_finality_is_hidden_and_until_the_link_closes() -> None:
    clock = ManualClock(0.0)
    proof = Proof(clock, {CHAIN: None})
    hidden: list[bool] = []
    proof.on_hidden = lambda: hidden.append(proof.shows_finality)
    proof.chain.advance(HONEST.ref(90))
    assert proof.admits(HONEST.ref(60), CHAIN) is Standing.WAITING and hidden == [False]
    clock.now += HIDE_SECONDS
    for number in range(60, 74):
        assert proof.admits(HONEST.ref(number), CHAIN) is Standing.FAR and proof.sent(HONEST.ref(number), CHAIN)
    (problem,) = proof.problems()
    assert problem.startswith("L1 blocks 60 to 73 are used unproven until they link to block 74")
    assert not proof.shows_finality
    assert proof.admits(HONEST.ref(74), CHAIN) is Standing.WAITING
    linked(proof)
    assert proof.admits(HONEST.ref(74), CHAIN) is Standing.PROVEN and proof.sent(HONEST.ref(74), CHAIN)
    assert proof.shows_finality and not proof.problems() and hidden == [False]


@in_short_reach
def test_without_a_derivation_finality_is_never_hidden() -> None:
    """[LCP16, FSR9]: a node that follows another looks L1 origins up at its start, and derives nothing from them."""
    proof = Proof(ManualClock(0.0), {})
    proof.chain.advance(HONEST.ref(90))
    assert proof.admits(HONEST.ref(60), None) is Standing.FAR and proof.shows_finality


@in_short_reach
def test_of_a_long_gap_no_more_is_recorded_than_of_other_blocks() -> None:
    """[LCP13] Weeks of blocks, as an engine with newer data brings, would make a file that is not read any more. Those
    below the gap stay."""
    catch_up = CatchUp(Unproven(5, 20, HONEST.hash(20)))
    gap = catch_up.gap_below(HONEST.ref(80))
    assert gap == range(21, 80) and catch_up.fill([HONEST.ref(number) for number in gap])
    assert catch_up.sent(HONEST.ref(80), False)
    catch_up.requested(81, HONEST.hash(80))
    assert catch_up.record() == Unproven(5, 80, HONEST.hash(80), marks(20, 80))


@in_short_reach
def test_a_doubt_is_named() -> None:
    proof = Proof(ManualClock(0.0), {CHAIN: Unproven(5, 40, b"\1" * 32)})
    proof.chain.advance(HONEST.ref(90))
    assert proof.sent(HONEST.ref(45), CHAIN) and not proof.shows_finality
    (problem,) = proof.problems()
    assert "blocks 5 to 44 are not on the chain of" in problem


@in_short_reach
def test_no_unproven_block_is_used_before_that_is_recorded() -> None:
    """[LCP17] Also where derivation is reset to below those that are."""
    clock = ManualClock(0.0)
    proof = Proof(clock, {CHAIN: None}, keeps=True)
    wanted: list[int] = []
    proof.on_wanted = lambda: wanted.append(1)
    proof.chain.advance(HONEST.ref(90))
    proof.admits(HONEST.ref(60), CHAIN)
    clock.now += HIDE_SECONDS
    assert proof.admits(HONEST.ref(60), CHAIN) is Standing.WAITING and wanted
    assert proof.to_keep() == {CHAIN: Unproven(60, 60, HONEST.hash(60))}
    proof.kept = proof.to_keep()
    assert proof.admits(HONEST.ref(60), CHAIN) is Standing.FAR and proof.sent(HONEST.ref(60), CHAIN)
    assert proof.admits(HONEST.ref(61), CHAIN) is Standing.FAR and proof.sent(HONEST.ref(61), CHAIN)
    assert proof.to_keep() == {CHAIN: Unproven(60, 61, HONEST.hash(61), marks(60))}
    assert proof.admits(HONEST.ref(50), CHAIN) is Standing.WAITING
    assert proof.to_keep() == {CHAIN: Unproven(50, 61, HONEST.hash(61), marks(50, 60))}
    proof.kept = proof.to_keep()
    assert proof.admits(HONEST.ref(50), CHAIN) is Standing.FAR and proof.sent(HONEST.ref(50), CHAIN)
    assert proof.to_keep() == {CHAIN: Unproven(50, 50, HONEST.hash(50), marks(50))}


@in_short_reach
def test_links_that_are_wanted_are_asked_for_at_once() -> None:
    proof = Proof(ManualClock(0.0), {CHAIN: None})
    wanted: list[int] = []
    proof.on_wanted = lambda: wanted.append(1)
    proof.chain.advance(HONEST.ref(90))
    for number in (85, 86, 80):
        proof.standing(number, HONEST.hash(number))
    assert len(wanted) == 2, "for the lowest"


@in_short_reach
def test_finality_is_hidden_until_no_derivation_uses_what_is_not_proven() -> None:
    """Each has its own catch-up [LCP16, LHD32]."""
    clock = ManualClock(0.0)
    proof = Proof(clock, {CHAIN: None, OTHER: Unproven(5, 40, HONEST.hash(40))})
    assert not proof.shows_finality
    proof.chain.advance(HONEST.ref(90))
    clock.now += HIDE_SECONDS
    assert proof.admits(HONEST.ref(50), OTHER) is Standing.WAITING and proof.gaps[OTHER] == range(41, 50)
    assert proof.admits(HONEST.ref(50), CHAIN) is Standing.FAR and CHAIN not in proof.gaps
    assert proof.sent(HONEST.ref(50), CHAIN)
    assert set(proof.unproven) == {CHAIN, OTHER} and len(proof.problems()) == 2
    assert proof.admits(HONEST.ref(80), None) is Standing.WAITING
    linked(proof)
    for number in range(51, 81):
        assert proof.sent(HONEST.ref(number), CHAIN)
    assert set(proof.unproven) == {OTHER} and not proof.shows_finality
    for number in range(41, 81):
        assert proof.sent(HONEST.ref(number), OTHER)
        proof.catch_ups[OTHER].requested(number + 1, HONEST.hash(number))
    assert not proof.unproven and proof.shows_finality


@in_short_reach
def test_a_chain_that_uses_proven_blocks_holds_up_none_that_is_far_behind() -> None:
    """[LCP16, LHD32] Finality stays hidden while a derivation waits for its first unproven block."""
    clock = ManualClock(0.0)
    proof = Proof(clock, {CHAIN: None, OTHER: None})
    proof.chain.advance(HONEST.ref(90))
    proof.standing(80, HONEST.hash(80))
    linked(proof)
    for number in (80, 81):
        assert proof.admits(HONEST.ref(60), OTHER) is Standing.WAITING
        assert proof.admits(HONEST.ref(number), CHAIN) is Standing.PROVEN and proof.sent(HONEST.ref(number), CHAIN)
        assert not proof.shows_finality
        clock.now += HIDE_SECONDS / 2
    assert proof.admits(HONEST.ref(60), OTHER) is Standing.FAR


@in_short_reach
def test_a_derivation_that_does_not_wait_any_more_hides_no_finality() -> None:
    """[LIF34] Its chain was set aside before it took its first unproven block."""
    clock = ManualClock(0.0)
    proof = Proof(clock, {CHAIN: None, OTHER: None})
    proof.chain.advance(HONEST.ref(90))
    assert proof.admits(HONEST.ref(60), OTHER) is Standing.WAITING and not proof.shows_finality
    clock.now += WAITING_SECONDS
    assert proof.sent(HONEST.ref(90), CHAIN) and proof.shows_finality
