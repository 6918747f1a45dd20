"""Finality of L2 blocks by the L1 blocks they came from (node-behaviour 11.8)."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.engine.core.finality import Finality, Finalize, NeedCanonical
from rollup_node.stages.protocol.config import AltDaConfig
from rollup_node.stages.protocol.errors import ResetError


def filled(world: Any, **kind: Any) -> tuple[Finality, list[Any]]:
    """Block 2n became safe with L1 block 100 + n."""
    refs = world.chain(20)
    finality = Finality(world.rollup, **kind)
    for number in range(1, 21):
        finality.note_safe(refs[number], world.l1_ref(100 + (number + 1) // 2))
    return finality, refs


def run(finality: Finality, world: Any, finalized: Any) -> Any:
    for _ in range(3):
        need = finality.next(finalized)
        if not isinstance(need, NeedCanonical):
            return need
        finality.give_canonical(need, world.l1_ref(need.number))
    return None


def test_takes_the_highest_block_from_finalized_l1_data(world: Any) -> None:
    finality, refs = filled(world)
    assert finality.next(refs[0]) is None, "no finalized L1 block is known"
    assert finality.note_finalized_l1(world.l1_ref(104))
    assert run(finality, world, refs[0]) == Finalize(refs[8])
    finality.done()
    assert finality.next(refs[8]) is None
    assert finality.note_finalized_l1(world.l1_ref(150))
    assert run(finality, world, refs[8]) == Finalize(refs[20])


def test_both_l1_blocks_must_be_canonical(world: Any) -> None:
    for fork_at, text in ((108, "finalized L1 block"), (105, "finalized L1 block")):
        finality, refs = filled(world)
        finality.note_finalized_l1(world.l1_ref(108))
        need = finality.next(refs[0])
        assert need == NeedCanonical(108)
        world.reorg("b", fork_at)
        with pytest.raises(ResetError, match=text):
            finality.give_canonical(need, world.l1_ref(108))
        world.reorg("a", 0)
    finality, refs = filled(world)
    finality.note_finalized_l1(msgspec.structs.replace(world.l1_ref(200)))
    finality.give_canonical(NeedCanonical(200), world.l1_ref(200))
    assert finality.next(refs[0]) == NeedCanonical(110)
    world.reorg("b", 110)
    with pytest.raises(ResetError, match="derived from"):
        finality.give_canonical(NeedCanonical(110), world.l1_ref(110))


def test_an_unknown_l1_block_is_asked_for_again(world: Any) -> None:
    finality, refs = filled(world)
    finality.note_finalized_l1(world.l1_ref(104))
    finality.give_canonical(NeedCanonical(104), None)
    finality.give_canonical(NeedCanonical(104), world.l1_ref(103))
    assert finality.next(refs[0]) == NeedCanonical(104)


def test_a_signal_that_goes_back_is_refused(world: Any) -> None:
    finality, _ = filled(world)
    assert finality.note_finalized_l1(world.l1_ref(104))
    assert not finality.note_finalized_l1(world.l1_ref(103))
    assert finality.finalized_l1 == world.l1_ref(104)


def test_tries_again_when_idle_but_not_too_often(world: Any) -> None:
    refs = world.chain(4)
    finality = Finality(world.rollup, delay=10)
    finality.note_finalized_l1(world.l1_ref(120))
    assert finality.next(refs[0]) is None
    finality.note_safe(refs[2], world.l1_ref(101))
    finality.done()
    finality.note_idle(world.l1_ref(110))
    assert finality.next(refs[0]) is not None
    finality.done()
    finality.note_idle(world.l1_ref(119))
    assert finality.next(refs[0]) is None
    finality.note_idle(world.l1_ref(120))
    assert finality.next(refs[0]) is not None


def test_a_young_l1_does_not_keep_finality_waiting_after_a_reset(world: Any) -> None:
    refs = world.chain(4)
    finality = Finality(world.rollup, delay=500)
    finality.note_finalized_l1(world.l1_ref(104))
    finality.reset()
    finality.note_safe(refs[2], world.l1_ref(101))
    finality.note_idle(world.l1_ref(105))
    assert finality.next(refs[0]) is not None


def test_memory_is_bounded_and_cleared_by_a_reset(world: Any) -> None:
    finality, refs = filled(world, lookback=3)
    assert len(finality.safe) == 3
    finality.note_finalized_l1(world.l1_ref(104))
    assert finality.next(refs[0]) is None, "it was forgotten"
    finality.reset()
    assert finality.safe == [] and finality.finalized_l1 == world.l1_ref(104)


def test_entries_below_the_last_are_ignored(world: Any) -> None:
    finality, refs = filled(world)
    before = list(finality.safe)
    finality.note_safe(refs[1], world.l1_ref(103))
    assert finality.safe == before


def test_the_lookback_covers_the_windows_of_alternative_da(world: Any) -> None:
    assert Finality(world.rollup).lookback == 129
    alt_da = AltDaConfig(None, "GenericCommitment", 100, 100)
    assert Finality(msgspec.structs.replace(world.rollup, alt_da=alt_da)).lookback == 201
