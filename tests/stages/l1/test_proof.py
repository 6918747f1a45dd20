"""What may be used where heads are proven, and when finality is hidden [LCP14 to LCP18]."""

import pytest

from rollup_node.stages.l1 import proof as proof_module
from rollup_node.stages.l1 import proven_chain
from rollup_node.stages.l1.catch_up import Unproven
from rollup_node.stages.l1.proof import HIDE_SECONDS, Proof
from rollup_node.stages.l1.proven_chain import Standing
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.timing.manual_clock import ManualClock

HONEST = FakeL1Chain(100)
CHAIN, OTHER = 10, 130


@pytest.fixture(autouse=True)
def short_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proven_chain, "REACH", 16)
    monkeypatch.setattr(proof_module, "REACH", 16)


def linked(proof: Proof) -> None:
    while numbers := proof.missing():
        assert proof.chain.extend([HONEST.ref(number) for number in numbers])


def test_a_block_in_reach_waits_for_its_link() -> None:
    proof = Proof(ManualClock(0.0), {CHAIN: None})
    assert proof.admits(HONEST.ref(85), CHAIN) is Standing.BEYOND and not proof.missing()
    proof.chain.advance(HONEST.ref(90))
    assert proof.admits(HONEST.ref(85), CHAIN) is Standing.WAITING
    linked(proof)
    assert proof.admits(HONEST.ref(85), CHAIN) is Standing.PROVEN
    assert proof.sent(HONEST.ref(85), CHAIN) and proof.shows_finality and not proof.problems()


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


def test_what_a_former_process_left_unproven_hides_finality_from_the_start() -> None:
    proof = Proof(ManualClock(0.0), {CHAIN: Unproven(5, 40, HONEST.hash(40))})
    assert not proof.shows_finality
    proof.chain.advance(HONEST.ref(90))
    assert proof.sent(HONEST.ref(20), CHAIN) and not proof.shows_finality


def test_a_gap_that_a_former_process_left_is_filled_before_derivation_goes_on() -> None:
    proof = Proof(ManualClock(0.0), {CHAIN: Unproven(5, 40, HONEST.hash(40))})
    proof.chain.advance(HONEST.ref(90))
    assert proof.admits(HONEST.ref(50), None) is Standing.WAITING, "finality has just been hidden"
    proof = Proof(ManualClock(0.0), {CHAIN: Unproven(5, 40, HONEST.hash(40))})
    proof.chain.advance(HONEST.ref(90))
    assert proof.admits(HONEST.ref(50), CHAIN) is Standing.WAITING and proof.gaps[CHAIN] == range(41, 50)
    proof.catch_ups[CHAIN].fill([HONEST.ref(number) for number in proof.gaps[CHAIN]])
    assert proof.catch_ups[CHAIN].unproven == Unproven(5, 49, HONEST.hash(49))
    proof.admits(HONEST.ref(50), CHAIN)
    assert not proof.gaps[CHAIN]


def test_a_gap_that_does_not_link_leaves_a_doubt() -> None:
    proof = Proof(ManualClock(0.0), {CHAIN: Unproven(5, 40, b"\1" * 32)})
    proof.chain.advance(HONEST.ref(90))
    proof.admits(HONEST.ref(50), CHAIN)
    proof.catch_ups[CHAIN].fill([HONEST.ref(number) for number in proof.gaps[CHAIN]])
    assert proof.catch_ups[CHAIN].doubt is not None and not proof.shows_finality
    proof.admits(HONEST.ref(50), CHAIN)
    assert not proof.gaps[CHAIN], "derivation goes on"


def test_a_doubt_is_named() -> None:
    proof = Proof(ManualClock(0.0), {CHAIN: Unproven(5, 40, b"\1" * 32)})
    proof.chain.advance(HONEST.ref(90))
    assert not proof.sent(HONEST.ref(40), CHAIN)
    (problem,) = proof.problems()
    assert "blocks 5 to 39 are not on the chain of" in problem


def test_links_that_are_wanted_are_asked_for_at_once() -> None:
    proof = Proof(ManualClock(0.0), {CHAIN: None})
    wanted: list[int] = []
    proof.on_wanted = lambda: wanted.append(1)
    proof.chain.advance(HONEST.ref(90))
    for number in (85, 86, 80):
        proof.standing(number, HONEST.hash(number))
    assert len(wanted) == 2, "for the lowest"


def test_finality_is_hidden_until_no_derivation_uses_what_is_not_proven() -> None:
    """Each has its own catch-up [LCP16, LHD32]."""
    clock = ManualClock(0.0)
    proof = Proof(clock, {CHAIN: None, OTHER: Unproven(5, 40, HONEST.hash(40))})
    assert not proof.shows_finality
    proof.chain.advance(HONEST.ref(90))
    clock.now += HIDE_SECONDS
    assert proof.admits(HONEST.ref(50), OTHER) is Standing.WAITING and proof.gaps[OTHER] == range(41, 50)
    assert proof.admits(HONEST.ref(50), CHAIN) is Standing.FAR and not proof.gaps[CHAIN]
    assert proof.sent(HONEST.ref(50), CHAIN)
    assert set(proof.unproven) == {CHAIN, OTHER} and len(proof.problems()) == 2
    assert proof.admits(HONEST.ref(80), None) is Standing.WAITING
    linked(proof)
    for number in range(51, 81):
        assert proof.sent(HONEST.ref(number), CHAIN)
    assert set(proof.unproven) == {OTHER} and not proof.shows_finality
    for number in range(41, 81):
        assert proof.sent(HONEST.ref(number), OTHER)
    assert not proof.unproven and proof.shows_finality
