"""A block that the engine fetches the chain up to, while its source is away [FSR10]."""

import pytest

from rollup_node.stages.engine.calls.calls import FollowStatus, GetL1BlockRef
from rollup_node.stages.engine.calls.engine_api import ErrorAnswer, GetBlockRef
from rollup_node.stages.engine.follow.follow_target import ASK_SECONDS, FollowTarget, StaleTargetError
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import ZERO_HASH, L1BlockRef
from tests.support.chains.chain_fixture import chain_with

CHAIN = chain_with()
REFS = CHAIN.build(24)
STATUS = FollowStatus(CHAIN.l1_ref(110).id, REFS[20], REFS[14], REFS[8])
BLOCK = GetBlockRef(REFS[20].hash)
ORIGINS = [REFS[number].l1_origin.number for number in (8, 14, 20)]


def started() -> FollowTarget:
    target = FollowTarget()
    target.start(STATUS)
    return target


def reached() -> FollowTarget:
    """The engine has the block, and its first origin is checked."""
    target = started()
    assert not target.answer(BLOCK, REFS[20], 0.0)
    call = target.next(0.0)
    assert call == GetL1BlockRef(ORIGINS[0], fresh=True)
    assert not target.answer(call, CHAIN.l1_ref(ORIGINS[0]), 0.0)
    return target


def test_the_block_is_asked_for_until_the_engine_has_it() -> None:
    target = started()
    assert target.next(5.0) == BLOCK
    assert not target.answer(BLOCK, None, 5.0)
    target.start(STATUS)
    assert target.next(5.9) is None and target.due_at == 5.0 + ASK_SECONDS
    assert target.next(6.0) == BLOCK


def test_every_origin_of_its_heads_is_checked_once() -> None:
    target = reached()
    for number in ORIGINS[1:]:
        call = target.next(0.0)
        assert call == GetL1BlockRef(number, fresh=False)
        assert target.answer(call, CHAIN.l1_ref(number), 0.0) == (number == ORIGINS[-1])


def test_an_origin_that_is_not_canonical_any_more() -> None:
    other = L1BlockRef(bytes(31) + b"\x01", ORIGINS[1], ZERO_HASH, 0)
    with pytest.raises(StaleTargetError, match=f"the L1 origin {ORIGINS[1]}:.* of 20:.* is not canonical any more"):
        reached().answer(GetL1BlockRef(ORIGINS[1], fresh=False), other, 0.0)


def test_an_l1_that_lacks_an_origin_is_asked_for_all_of_them_again() -> None:
    target = reached()
    with pytest.raises(TemporaryError, match=f"our L1 does not have L1 block {ORIGINS[1]}"):
        target.answer(GetL1BlockRef(ORIGINS[1], fresh=False), None, 0.0)
    assert target.next(0.0) == GetL1BlockRef(ORIGINS[0], fresh=True)


def test_answers_about_another_target_are_ignored() -> None:
    target = reached()
    target.start(FollowStatus(None, REFS[21], REFS[20], REFS[20]))
    number = REFS[21].l1_origin.number
    assert not target.answer(GetL1BlockRef(number, fresh=False), CHAIN.l1_ref(number), 0.0)
    assert not target.answer(BLOCK, REFS[20], 0.0)
    assert target.next(0.0) == GetBlockRef(REFS[21].hash)
    target.clear()
    assert target.next(0.0) is None and not target.answer(BLOCK, REFS[20], 0.0)


def test_an_engine_that_answers_anything_else() -> None:
    with pytest.raises(TemporaryError, match="does not say how far it is"):
        started().answer(BLOCK, ErrorAnswer(-1, "no"), 0.0)


def test_a_move_that_fails_is_tried_again_from_the_start() -> None:
    target = reached()
    target.retry(7.0)
    assert (target.next(6.9), target.next(7.0)) == (None, BLOCK)
