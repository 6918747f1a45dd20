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
    proof.catch_up.fill([HONEST.ref(number) for number in proof.gap])
    assert proof.catch_up.unproven == Unproven(5, 49, HONEST.hash(49))
    proof.admits(HONEST.ref(50), True)
    assert not proof.gap


def test_a_gap_that_does_not_link_leaves_a_doubt() -> None:
    proof = Proof(ManualClock(0.0), Unproven(5, 40, b"\1" * 32))
    proof.chain.advance(HONEST.ref(90))
    proof.admits(HONEST.ref(50), True)
    proof.catch_up.fill([HONEST.ref(number) for number in proof.gap])
    assert proof.catch_up.doubt is not None and not proof.shows_finality
    proof.admits(HONEST.ref(50), True)
    assert not proof.gap, "derivation goes on"


def test_a_doubt_is_named() -> None:
    proof = Proof(ManualClock(0.0), Unproven(5, 40, b"\1" * 32))
    proof.chain.advance(HONEST.ref(90))
    assert not proof.sent(HONEST.ref(40))
    problem = proof.problem()
    assert problem is not None and "blocks 5 to 39 are not on the chain of" in problem


def test_links_that_are_wanted_are_asked_for_at_once() -> None:
    proof = Proof(ManualClock(0.0))
    wanted: list[int] = []
    proof.on_wanted = lambda: wanted.append(1)
    proof.chain.advance(HONEST.ref(90))
    for number in (85, 86, 80):
        proof.standing(number, HONEST.hash(number))
    assert len(wanted) == 2, "for the lowest"
