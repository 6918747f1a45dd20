"""Following another node: which statuses are refused, which calls a round makes, and how long the chain is held [FSR2,
FSR3, FSR6, FSR7, FSR11]."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from rollup_node.stages.engine.calls.calls import (
    FollowReason,
    FollowStatus,
    GetFollowStatus,
    GetL1BlockRef,
)
from rollup_node.stages.engine.calls.engine_api import ErrorAnswer, GetBlockRef, Unavailable
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads
from rollup_node.stages.engine.heads.follow_source import (
    HOLD_BLOCK_TIMES,
    HOLD_EVERY_SECONDS,
    MAX_FUTURE_SECONDS,
    FollowError,
    FollowResetError,
    FollowResult,
    FollowSource,
    FollowTarget,
    StaleTargetError,
)
from rollup_node.stages.protocol.config import ForeignFork
from rollup_node.stages.protocol.errors import NetworkLeftError, ResetError, TemporaryError
from rollup_node.stages.protocol.types import ZERO_HASH, L1BlockRef, L2BlockRef
from tests.support.chains.chain_fixture import chain_with

CHAIN = chain_with()
REFS = CHAIN.build(24)
OTHERS = CHAIN.build(24, users=[CHAIN.user])
HEADS = Heads(REFS[20], REFS[10], REFS[10], REFS[6])
UNIX = float(REFS[24].timestamp)
HOLD = HOLD_BLOCK_TIMES * CHAIN.rollup.block_time


def status(local_safe: int = 16, safe: int = 14, finalized: int = 8) -> FollowStatus:
    return FollowStatus(CHAIN.l1_ref(104).id, REFS[local_safe], REFS[safe], REFS[finalized])


def replaced(**changes: Any) -> FollowStatus:
    """Return the status with other heads."""
    return msgspec.structs.replace(status(), **changes)


class Round:
    """Rounds on the heads, with an L1 and an engine that answer; `asked` are the calls of all rounds."""

    def __init__(self, heads: Heads = HEADS, chain: list[L2BlockRef] | None = None) -> None:
        self.source = FollowSource(CHAIN.rollup, enabled=True)
        self.heads, self.chain = heads, REFS if chain is None else chain
        self.now, self.unix = 0.0, UNIX
        self.asked: list[Any] = []
        self.l1: dict[int, Any] = {}
        self.l2: dict[Any, Any] = {}

    def play(self, follow_status: FollowStatus | Unavailable) -> "Round":
        """One round, at the time at which it is due."""
        self.now = max(self.now, self.source.due_at)
        while (call := self.source.next(self.heads, self.now)) is not None:
            self.asked.append(call)
            match call:
                case GetFollowStatus():
                    answer: Any = follow_status
                case GetL1BlockRef(number=number):
                    answer = self.l1.get(number, CHAIN.l1_ref(number))
                case GetBlockRef(name=name):
                    answer = self.l2.get(name, self.chain[name] if isinstance(name, int) else None)
            self.source.answer(call, answer, self.heads, self.unix)
        return self

    def refused(self, follow_status: FollowStatus | Unavailable) -> FollowError:
        with pytest.raises(FollowError) as caught:
            self.play(follow_status)
        return caught.value


def test_a_round_compares_everything_once_and_imports() -> None:
    played = Round().play(status())
    numbers = [100 + 8 // 6, 100 + 14 // 6, 104]
    assert played.asked == [
        GetFollowStatus(),
        *(GetL1BlockRef(number, fresh=number == 101) for number in numbers),
        *(GetBlockRef(number) for number in (16, 14, 8)),
    ]
    assert played.source.ready
    assert played.source.imported(HEADS) == Heads(REFS[20], REFS[16], REFS[14], REFS[8])
    played.source.succeeded()
    assert played.source.current_l1 == CHAIN.l1_ref(104)
    assert played.source.next(HEADS, 3.9) is None
    assert played.source.next(HEADS, 4.0) == GetFollowStatus()


def test_a_block_from_the_future_is_refused_at_once() -> None:
    """[FSR6] By the clock of this machine, with the tolerance that gossiped blocks have [VAL6]."""
    played = Round()
    played.unix = REFS[16].timestamp - MAX_FUTURE_SECONDS - 1.0
    error = played.refused(status())
    assert (error.result, error.reason) == (FollowResult.INVALID_STATE, FollowReason.FUTURE)
    assert str(error).endswith("is 6 s ahead of this machine's clock") and played.asked == [GetFollowStatus()]
    played.unix += 1.0
    assert played.play(status()).source.ready


def test_a_current_l1_block_that_our_l1_does_not_have_yet_is_waited_for() -> None:
    """[FSR2] The heads are imported meanwhile."""
    played = Round().play(status())
    played.source.succeeded()
    played.l1[105] = None
    played.play(replaced(current_l1=CHAIN.l1_ref(105).id))
    assert played.source.ready
    played.source.succeeded()
    assert played.source.current_l1 == CHAIN.l1_ref(104)
    del played.l1[105]
    played.play(replaced(current_l1=CHAIN.l1_ref(105).id)).source.succeeded()
    assert played.source.current_l1 == CHAIN.l1_ref(105)


@pytest.mark.parametrize("answer", [None, Unavailable("away"), ErrorAnswer(-1, "no")])
def test_an_engine_that_lacks_a_block_ends_the_round(answer: Any) -> None:
    played = Round()
    played.l2[16] = answer
    error = played.refused(status())
    assert error.result is None
    assert error.reason is (FollowReason.ENGINE_LACKS if answer is None else FollowReason.ENGINE_ANSWER)


def test_a_target_is_kept_until_the_engine_has_it() -> None:
    """[FSR3] Else an engine that is always a round behind would never be followed."""
    played = Round().play(status(22, 22))
    assert played.source.forkchoice(HEADS) == Forkchoice(REFS[22].hash, REFS[22].hash, REFS[6].hash)
    played.source.wait_for_sync(played.now)
    played.play(status(23, 23))
    assert played.asked[-1] == GetBlockRef(REFS[22].hash)
    assert played.source.moved(HEADS) == Heads(REFS[23], REFS[23], REFS[23], REFS[6]), "the engine lacks block 22"
    played.source.wait_for_sync(played.now)
    played.l2[REFS[23].hash] = REFS[23]
    played.play(status(24, 24))
    assert played.source.moved(HEADS) == Heads(REFS[23], REFS[23], REFS[23], REFS[6])
    played.source.wait_for_sync(played.now)
    played.play(status(24, 24))
    assert played.asked[-1] != GetBlockRef(REFS[23].hash), "the engine has it and does not take it"
    assert played.source.moved(HEADS) == Heads(REFS[24], REFS[24], REFS[24], REFS[6])


def test_the_chain_is_held_for_a_few_block_times_while_the_engine_fetches() -> None:
    """[FSR3] The source is asked each second meanwhile, and after that at its rhythm, for its chain as well [FSR8]."""
    played, times = Round(), []
    for _ in range(12):
        played.play(status(22, 22)).source.wait_for_sync(played.now)
        times.append((played.now, played.source.holds(played.now)))
    held = [(float(second), second < HOLD) for second in range(int(HOLD) + 1)]
    later = [(HOLD + played.source.interval * number, False) for number in range(1, 12 - int(HOLD))]
    assert times == held + later
    statuses = [call for call in played.asked if isinstance(call, GetFollowStatus)]
    assert [call.check_chain for call in statuses] == [not held for _, held in times]


def test_the_chain_is_held_once_a_minute_for_blocks_that_do_not_come() -> None:
    """[FSR3] A source that tells the truth in between must not hold it for good."""
    played = Round()
    held = []
    while played.now < 2 * HOLD_EVERY_SECONDS:
        played.play(status(22, 22)).source.wait_for_sync(played.now)
        if played.source.holds(played.now):
            held.append(played.now)
        played.play(status()).source.succeeded()
        played.source.give_up()
    assert held[0] == 0.0 and all(other - one >= HOLD_EVERY_SECONDS for one, other in pairwise(held))
    assert 2 <= len(held) <= 3
    played.play(status(22, 22)).source.reached(played.now)
    played.play(status(22, 22)).source.wait_for_sync(played.now)
    assert played.source.holds(played.now), "the last one came"


def test_an_engine_that_has_moved_by_itself_is_noticed() -> None:
    """[FSR3] Engines take a chain as theirs once they have fetched it: our heads are not those of that chain then."""
    follow_status = FollowStatus(None, OTHERS[16], OTHERS[14], REFS[6])
    played = Round().play(follow_status)
    played.source.wait_for_sync(played.now)
    played.chain = [*OTHERS[:17], *REFS[17:]]
    played.chain[20] = OTHERS[20]
    error = played.refused(follow_status)
    assert (error.result, error.reason) == (None, FollowReason.ENGINE_LACKS)
    assert str(error).startswith("the execution engine has left our chain: it has 20:")
    played.source.failed(error)
    played.chain = REFS
    assert played.play(follow_status).source.forkchoice(HEADS) is not None


def test_a_target_that_our_chain_has_grown_up_to_is_compared() -> None:
    """The engine is not moved back to a block of our own chain."""
    played = Round(msgspec.structs.replace(HEADS, unsafe=REFS[15])).play(status())
    assert played.source.forkchoice(played.heads) is not None
    played.heads = HEADS
    assert played.source.forkchoice(played.heads) is None
    assert played.play(status()).source.ready and played.asked.count(GetFollowStatus()) == 1
    waiting = Round().play(status(22, 22))
    waiting.source.wait_for_sync(waiting.now)
    waiting.heads = msgspec.structs.replace(HEADS, unsafe=REFS[23])
    waiting.play(status(24, 24))
    assert GetBlockRef(REFS[22].hash) not in waiting.asked
    assert waiting.source.moved(waiting.heads) == Heads(REFS[24], REFS[24], REFS[24], REFS[6])


def test_a_block_that_replaces_one_of_ours_is_a_proof() -> None:
    """[FSR11] A block above our tip is none, and another start ends it."""
    ahead, replaces = Round(), Round()
    ahead.play(status(22, 22)).source.reached(0.0)
    assert ahead.source.proven == 0
    replaces.play(FollowStatus(None, OTHERS[16], OTHERS[14], REFS[6])).source.reached(0.0)
    assert replaces.source.proven == 16
    replaces.source.on_reset(FollowResetError(HEADS))
    assert (replaces.source.proven, replaces.source.start_heads) == (16, HEADS)
    replaces.source.on_reset(ResetError("L1 reorg"))
    assert (replaces.source.proven, replaces.source.start_heads) == (0, None)


def test_a_source_beyond_a_foreign_fork_ends_the_node() -> None:
    """[LFT4]"""
    fork = ForeignFork("Somefork", REFS[16].timestamp)
    beyond, before = Round(), Round()
    for played, time in ((beyond, fork.time), (before, fork.time + 1)):
        rollup = msgspec.structs.replace(CHAIN.rollup, foreign_fork=ForeignFork("Somefork", time))
        played.source = FollowSource(rollup, enabled=True)
    with pytest.raises(NetworkLeftError, match="the safe head is block 16, and block 15 is the last"):
        beyond.play(status())
    assert before.play(status()).source.ready


STATUS = FollowStatus(CHAIN.l1_ref(110).id, REFS[20], REFS[14], REFS[8])
BLOCK = GetBlockRef(REFS[20].hash)
ORIGINS = [REFS[number].l1_origin.number for number in (8, 14, 20)]


def started() -> FollowTarget:
    target = FollowTarget()
    target.start(STATUS)
    return target


def reached() -> FollowTarget:
    """Return the engine has the block, and its first origin is checked."""
    target = started()
    assert not target.answer(BLOCK, REFS[20], 0.0)
    call = target.next(0.0)
    assert call == GetL1BlockRef(ORIGINS[0], fresh=True)
    assert not target.answer(call, CHAIN.l1_ref(ORIGINS[0]), 0.0)
    return target


def test_answers_that_are_errors() -> None:
    """An L1 that lacks an origin is asked for all of them again."""
    other = L1BlockRef(bytes(31) + b"\x01", ORIGINS[1], ZERO_HASH, 0)
    origin, target = GetL1BlockRef(ORIGINS[1], fresh=False), reached()
    with pytest.raises(StaleTargetError, match=f"the L1 origin {ORIGINS[1]}:.* of 20:.* is not canonical any more"):
        reached().answer(origin, other, 0.0)
    with pytest.raises(TemporaryError, match=f"our L1 does not have L1 block {ORIGINS[1]}"):
        target.answer(origin, None, 0.0)
    assert target.next(0.0) == GetL1BlockRef(ORIGINS[0], fresh=True)
    with pytest.raises(TemporaryError, match="does not say how far it is"):
        started().answer(BLOCK, ErrorAnswer(-1, "no"), 0.0)


def test_answers_about_another_target_are_ignored() -> None:
    target = reached()
    target.start(FollowStatus(None, REFS[21], REFS[20], REFS[20]))
    number = REFS[21].l1_origin.number
    assert not target.answer(GetL1BlockRef(number, fresh=False), CHAIN.l1_ref(number), 0.0)
    assert not target.answer(BLOCK, REFS[20], 0.0)
    assert target.next(0.0) == GetBlockRef(REFS[21].hash)
    target.clear()
    assert target.next(0.0) is None and not target.answer(BLOCK, REFS[20], 0.0)


def test_a_move_that_fails_is_tried_again_from_the_start() -> None:
    target = reached()
    target.retry(7.0)
    assert (target.next(6.9), target.next(7.0)) == (None, BLOCK)
