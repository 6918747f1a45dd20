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


@pytest.fixture(autouse=True)
def short_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proven_chain, "REACH", 16)
    monkeypatch.setattr(proof_module, "REACH", 16)


def linked(proof: Proof) -> None:
    while numbers := proof.missing():
        assert proof.chain.extend([HONEST.ref(number) for number in numbers])


def test_a_block_in_reach_waits_for_its_link() -> None:
    proof = Proof(ManualClock(0.0))
    assert proof.admits(HONEST.ref(85), True) is Standing.BEYOND and not proof.missing()
    proof.chain.advance(HONEST.ref(90))
    assert proof.admits(HONEST.ref(85), True) is Standing.WAITING
    linked(proof)
    assert proof.admits(HONEST.ref(85), True) is Standing.PROVEN
    assert proof.sent(HONEST.ref(85)) and proof.shows_finality and proof.problem() is None


def test_a_far_block_is_used_after_finality_is_hidden_and_until_the_link_closes() -> None:
    clock = ManualClock(0.0)
    proof = Proof(clock)
    hidden: list[bool] = []
    proof.on_hidden = lambda: hidden.append(proof.shows_finality)
    proof.chain.advance(HONEST.ref(90))
    assert proof.admits(HONEST.ref(60), True) is Standing.WAITING and hidden == [False]
    clock.now += HIDE_SECONDS
    for number in range(60, 74):
        assert proof.admits(HONEST.ref(number), True) is Standing.FAR and proof.sent(HONEST.ref(number))
    problem = proof.problem()
    assert problem is not None and problem.startswith(
        "L1 blocks 60 to 73 are used unproven until they link to block 74"
    )
    assert not proof.shows_finality
    assert proof.admits(HONEST.ref(74), True) is Standing.WAITING
    linked(proof)
    assert proof.admits(HONEST.ref(74), True) is Standing.PROVEN and proof.sent(HONEST.ref(74))
    assert proof.shows_finality and proof.problem() is None and hidden == [False]


def test_what_a_former_process_left_unproven_hides_finality_from_the_start() -> None:
    proof = Proof(ManualClock(0.0), Unproven(5, 40, HONEST.hash(40)))
    assert not proof.shows_finality
    proof.chain.advance(HONEST.ref(90))
    assert proof.sent(HONEST.ref(20)) and not proof.shows_finality


def test_a_gap_that_a_former_process_left_is_filled_before_derivation_goes_on() -> None:
    proof = Proof(ManualClock(0.0), Unproven(5, 40, HONEST.hash(40)))
    proof.chain.advance(HONEST.ref(90))
    assert proof.admits(HONEST.ref(50), False) is Standing.WAITING, "finality has just been hidden"
    proof = Proof(ManualClock(0.0), Unproven(5, 40, HONEST.hash(40)))
    proof.chain.advance(HONEST.ref(90))
    assert proof.admits(HONEST.ref(50), True) is Standing.WAITING and proof.gap == range(41, 50)
    assert proof.catch_up.fill([HONEST.ref(number) for number in proof.gap])
    assert not proof.gap and proof.sent(HONEST.ref(50))
    assert proof.admits(HONEST.ref(51), True) is Standing.WAITING, "derivation has to accept the one before"
    proof.catch_up.requested(51, HONEST.hash(50))
    assert proof.catch_up.unproven == Unproven(5, 50, HONEST.hash(50))


def test_a_doubt_is_named() -> None:
    proof = Proof(ManualClock(0.0), Unproven(5, 40, b"\1" * 32))
    proof.chain.advance(HONEST.ref(90))
    assert proof.sent(HONEST.ref(45)) and not proof.shows_finality
    problem = proof.problem()
    assert problem is not None and "blocks 5 to 44 are not on the chain of" in problem


def test_no_unproven_block_is_used_before_that_is_recorded() -> None:
    """[LCP17] Also where derivation is reset to below those that are."""
    clock = ManualClock(0.0)
    proof = Proof(clock, keeps=True)
    wanted: list[int] = []
    proof.on_wanted = lambda: wanted.append(1)
    proof.chain.advance(HONEST.ref(90))
    proof.admits(HONEST.ref(60), True)
    clock.now += HIDE_SECONDS
    assert proof.admits(HONEST.ref(60), True) is Standing.WAITING and wanted
    assert proof.to_keep() == Unproven(60, 60, HONEST.hash(60))
    proof.kept = proof.to_keep()
    assert proof.admits(HONEST.ref(60), True) is Standing.FAR and proof.sent(HONEST.ref(60))
    assert proof.admits(HONEST.ref(61), True) is Standing.FAR and proof.sent(HONEST.ref(61))
    assert proof.to_keep() == Unproven(60, 61, HONEST.hash(61))
    assert proof.admits(HONEST.ref(50), True) is Standing.WAITING
    assert proof.to_keep() == Unproven(50, 61, HONEST.hash(61))
    proof.kept = proof.to_keep()
    assert proof.admits(HONEST.ref(50), True) is Standing.FAR and proof.sent(HONEST.ref(50))
    assert proof.to_keep() == Unproven(50, 50, HONEST.hash(50))


def test_links_that_are_wanted_are_asked_for_at_once() -> None:
    proof = Proof(ManualClock(0.0))
    wanted: list[int] = []
    proof.on_wanted = lambda: wanted.append(1)
    proof.chain.advance(HONEST.ref(90))
    for number in (85, 86, 80):
        proof.standing(number, HONEST.hash(number))
    assert len(wanted) == 2, "for the lowest"
