"""Following another node: which statuses are refused, and which calls a round makes [FSR2, FSR6, FSR7]."""

import re
from typing import Any

import msgspec
import pytest

from rollup_node.stages.engine.api.engine_api import ErrorAnswer, GetBlockRef, Unavailable
from rollup_node.stages.engine.api.follow_api import FollowStatus, GetFollowStatus
from rollup_node.stages.engine.api.heads import Forkchoice, Heads
from rollup_node.stages.engine.machines.follow_source import (
    FollowError,
    FollowResult,
    FollowSource,
    MissingFollowedBlockError,
)
from rollup_node.stages.engine.machines.pipeline_start import GetL1BlockRef
from rollup_node.stages.protocol.config import ForeignFork
from rollup_node.stages.protocol.errors import NetworkLeftError
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L1BlockRef, L2BlockRef
from tests.support.chains.chain_fixture import chain_with

CHAIN = chain_with()
REFS = CHAIN.build(24)
OTHERS = CHAIN.build(24, users=[CHAIN.user])
HEADS = Heads(REFS[20], REFS[10], REFS[10], REFS[6])


def status(local_safe: int = 16, safe: int = 14, finalized: int = 8) -> FollowStatus:
    return FollowStatus(CHAIN.l1_ref(104).id, REFS[local_safe], REFS[safe], REFS[finalized])


def replaced(**changes: Any) -> FollowStatus:
    """The status with other heads."""
    return msgspec.structs.replace(status(), **changes)


class Round:
    """One round on the heads, with an L1 and an engine that answer; `asked` are its calls."""

    def __init__(self, heads: Heads = HEADS, chain: list[L2BlockRef] | None = None) -> None:
        self.source = FollowSource(CHAIN.rollup, enabled=True)
        self.heads, self.chain = heads, REFS if chain is None else chain
        self.asked: list[Any] = []
        self.l1: dict[int, Any] = {}
        self.l2: dict[Any, Any] = {}

    def play(self, found: FollowStatus | Unavailable) -> "Round":
        while (call := self.source.next(self.heads, 0.0)) is not None:
            self.asked.append(call)
            match call:
                case GetFollowStatus():
                    answer: Any = found
                case GetL1BlockRef(number=number):
                    answer = self.l1.get(number, CHAIN.l1_ref(number))
                case GetBlockRef(name=name):
                    answer = self.l2.get(name, self.chain[name] if isinstance(name, int) else None)
            self.source.answer(call, answer, self.heads)
        return self

    def refused(self, found: FollowStatus | Unavailable) -> FollowError:
        with pytest.raises(FollowError) as caught:
            self.play(found)
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
    played.source.succeeded(4.0)
    assert played.source.current_l1 == CHAIN.l1_ref(104)
    assert played.source.next(HEADS, 3.9) is None
    assert played.source.next(HEADS, 4.0) == GetFollowStatus()


def test_heads_that_are_known_are_not_read_again() -> None:
    heads = Heads(REFS[20], REFS[16], REFS[14], REFS[8])
    played = Round(heads).play(replaced(current_l1=None))
    assert [type(call) for call in played.asked] == [GetFollowStatus, GetL1BlockRef, GetL1BlockRef]
    assert played.source.ready and played.source.imported(heads) == heads


def test_a_source_that_goes_back_changes_nothing() -> None:
    """[FSR7]"""
    played = Round().play(status(9, 7, 3))
    assert played.source.ready and played.source.imported(HEADS) == HEADS


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (status(13, 14, 8), r"its safe head 14:0x\w+ is ahead of its local safe head 13:"),
        (status(16, 14, 15), r"its finalized head 15:0x\w+ is ahead of its safe head 14:"),
        (replaced(local_safe=OTHERS[14]), r"its safe head 14:0x\w+ is not its local safe head 14:"),
        (replaced(finalized=msgspec.structs.replace(REFS[8], hash=ZERO_HASH)), "it has no finalized head yet"),
        (replaced(safe=msgspec.structs.replace(REFS[14], number=15)), "of another chain: its time is"),
        (replaced(finalized=msgspec.structs.replace(REFS[0], hash=OTHERS[1].hash)), "of another chain: genesis is 0:"),
        (replaced(finalized=OTHERS[6]), r"its finalized head 6:0x\w+ contradicts the finalized block 6:"),
    ],
)
def test_inconsistent_heads_are_refused_before_anything_is_asked_for(found: FollowStatus, text: str) -> None:
    """[FSR2, FSR6]"""
    played = Round()
    error = played.refused(found)
    assert error.result is FollowResult.INVALID_STATE
    assert re.search(text, str(error))
    assert played.asked == [GetFollowStatus()]


@pytest.mark.parametrize("number", [101, 102, 104])
def test_every_l1_block_has_to_be_canonical(number: int) -> None:
    """[FSR2]"""
    played = Round()
    played.l1[number] = L1BlockRef(bytes(31) + b"\x01", number, ZERO_HASH, 0)
    error = played.refused(status())
    assert error.result is FollowResult.L1_MISMATCH
    assert f"of the source, {BlockId(number, CHAIN.l1_ref(number).hash)}, is not canonical" in str(error)


@pytest.mark.parametrize("answer", [None, Unavailable("L1 is away")])
def test_an_l1_block_that_cannot_be_read(answer: Unavailable | None) -> None:
    played = Round()
    played.l1[102] = answer
    error = played.refused(status())
    assert error.result is FollowResult.L1_LOOKUP
    assert ("L1 is away" if answer else "our L1 does not have L1 block 102 of the source") in str(error)


def test_a_current_l1_block_that_our_l1_does_not_have_yet_is_waited_for() -> None:
    """[FSR2] The heads are imported meanwhile."""
    played = Round().play(status())
    played.source.succeeded(0.0)
    played.l1[105] = None
    played.play(replaced(current_l1=CHAIN.l1_ref(105).id))
    assert played.source.ready
    played.source.succeeded(0.0)
    assert played.source.current_l1 == CHAIN.l1_ref(104)
    del played.l1[105]
    played.play(replaced(current_l1=CHAIN.l1_ref(105).id)).source.succeeded(0.0)
    assert played.source.current_l1 == CHAIN.l1_ref(105)


def test_a_source_that_is_away() -> None:
    error = Round().refused(Unavailable("127.0.0.1:1: cannot connect"))
    assert (error.result, str(error)) == (FollowResult.FETCH_STATUS, "127.0.0.1:1: cannot connect")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (replaced(safe=OTHERS[14]), r"its safe head 14:0x\w+ is not on the chain of its local safe head 16:"),
        (replaced(finalized=OTHERS[8]), r"its finalized head 8:0x\w+ is not on the chain of its local safe head"),
        (replaced(local_safe=OTHERS[5], safe=OTHERS[4], finalized=OTHERS[3]), "its local safe head 5:.* contradicts"),
    ],
)
def test_heads_of_several_chains_are_refused(found: FollowStatus, text: str) -> None:
    error = Round().refused(found)
    assert error.result is FollowResult.INVALID_STATE
    assert re.search(text, str(error))


@pytest.mark.parametrize("answer", [None, Unavailable("away"), ErrorAnswer(-1, "no")])
def test_an_engine_that_lacks_a_block_ends_the_round(answer: Any) -> None:
    played = Round()
    played.l2[16] = answer
    error = played.refused(status())
    assert error.result is None
    assert isinstance(error, MissingFollowedBlockError) == (answer is None)


def test_another_local_safe_block_is_moved_to() -> None:
    """[FSR3] The finalized block stays, for the engine to compare."""
    played = Round().play(FollowStatus(None, OTHERS[16], OTHERS[14], REFS[6]))
    assert not played.source.ready
    assert played.source.forkchoice(HEADS) == Forkchoice(OTHERS[16].hash, OTHERS[14].hash, REFS[6].hash)
    assert played.source.moved(HEADS) == Heads(OTHERS[16], OTHERS[16], OTHERS[14], REFS[6])


def test_a_target_is_kept_until_the_engine_has_it() -> None:
    """[FSR3] Else an engine that is always a round behind would never be followed."""
    played = Round().play(status(22, 22))
    assert played.source.forkchoice(HEADS) == Forkchoice(REFS[22].hash, REFS[22].hash, REFS[6].hash)
    played.source.wait_for_sync(0.0)
    played.play(status(23, 23))
    assert played.asked[-1] == GetBlockRef(REFS[22].hash)
    assert played.source.moved(HEADS) == Heads(REFS[23], REFS[23], REFS[23], REFS[6]), "the engine lacks block 22"
    played.source.wait_for_sync(0.0)
    played.l2[REFS[23].hash] = REFS[23]
    played.play(status(24, 24))
    assert played.source.moved(HEADS) == Heads(REFS[23], REFS[23], REFS[23], REFS[6])
    played.source.wait_for_sync(0.0)
    played.play(status(24, 24))
    assert played.asked[-1] != GetBlockRef(REFS[23].hash), "the engine has it and does not take it"
    assert played.source.moved(HEADS) == Heads(REFS[24], REFS[24], REFS[24], REFS[6])


def test_nothing_is_asked_for_unless_a_source_is_followed() -> None:
    assert FollowSource(CHAIN.rollup, enabled=False).next(HEADS, 100.0) is None


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
