"""The latest blocks on their way back into an engine that lost them [SEQ39 to SEQ43]."""

import msgspec
import pytest

from rollup_node.stages.engine.calls.calls import GetL1BlockRef
from rollup_node.stages.engine.heads.lost_blocks import (
    ASK_SECONDS,
    NO_ANSWER,
    OTHERS_SECONDS,
    PATIENCE_SECONDS,
    LostBlocks,
    LostBlocksPhase,
)
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId
from tests.support.chains.chain_fixture import ChainFixture, chain_with

CHAIN = chain_with(l1_step=4)
REFS = CHAIN.build(20, per_epoch=3)
PAYLOADS = [CHAIN.payloads[ref.hash] for ref in REFS[1:]]
OTHER = CHAIN.seal(REFS[8], CHAIN.attributes(REFS[8], 102, [CHAIN.user]))
"""A ninth block of another sequencer."""
NOW = 50.0


def blocks(first: int, last: int) -> tuple[ExecutionPayload, ...]:
    return tuple(PAYLOADS[first - 1 : last])


def asking(head: int = 4) -> LostBlocks:
    lost = LostBlocks(CHAIN.rollup, True)
    lost.begin(REFS[head].id, NOW)
    return lost


def check_origins(lost: LostBlocks, chain: ChainFixture = CHAIN) -> list[GetL1BlockRef]:
    """Answers the calls for L1 origins, which it returns."""
    calls = []
    while (call := lost.origin_call()) is not None:
        assert lost.release(None, NOW) == []
        calls.append(call)
        lost.add_origin(call.number, chain.l1_ref(call.number))
    return calls


def checked(first: int, last: int, head: int = 4) -> LostBlocks:
    """Blocks whose L1 origins are canonical."""
    lost = asking(head)
    lost.answer(REFS[head].id, blocks(first, last))
    check_origins(lost)
    assert lost.phase is LostBlocksPhase.READY
    return lost


def queued(first: int, last: int, head: int = 4) -> LostBlocks:
    lost = checked(first, last, head)
    assert lost.release(None, NOW) == list(blocks(first, last))
    assert lost.phase is LostBlocksPhase.QUEUED and lost.count == last - first + 1
    return lost


def test_the_p2p_process_is_asked_each_second_until_it_answers() -> None:
    lost = asking()
    assert lost.question(NOW) == REFS[4].id and lost.question(NOW + 0.9) is None
    assert lost.wait_until() == NOW + ASK_SECONDS
    assert lost.question(NOW + 1) == REFS[4].id and lost.pending
    lost.answer(REFS[5].id, blocks(6, 7))
    assert lost.phase is LostBlocksPhase.ASKING, "the answer about another head"
    lost.answer(REFS[4].id, ())
    assert not lost.pending and lost.reason is None and lost.question(NOW + 9) is None
    lost.answer(REFS[4].id, blocks(5, 6))
    assert not lost.pending, "nothing was asked"


def test_every_origin_is_checked_once_the_first_time_afresh() -> None:
    lost = asking()
    lost.answer(REFS[4].id, blocks(5, 10))
    numbers = sorted({ref.l1_origin.number for ref in REFS[5:11]})
    assert check_origins(lost) == [GetL1BlockRef(number, fresh=number == numbers[0]) for number in numbers]
    assert lost.release(None, NOW) == list(blocks(5, 10))


def test_blocks_that_are_of_no_rollup() -> None:
    lost = asking()
    odd = msgspec.structs.replace(PAYLOADS[5], transactions=())
    lost.answer(REFS[4].id, (PAYLOADS[4], odd, PAYLOADS[6]))
    lost.add_origin(101, CHAIN.l1_ref(101))
    assert lost.release(None, NOW) == list(blocks(5, 5))
    lost = asking()
    lost.answer(REFS[4].id, (odd,))
    assert not lost.pending and lost.reason == "the latest blocks cannot be read"


@pytest.mark.parametrize(("head", "asks"), [(5, False), (4, True), (3, True)])
def test_a_head_that_derivation_has_replaced_is_asked_about(head: int, asks: bool) -> None:
    lost = asking()
    lost.answer(REFS[4].id, ())
    assert not lost.pending
    lost.on_head(BlockId(head, OTHER.block_hash), NOW + 9)
    assert lost.pending is asks
    assert lost.question(NOW + 9) == (BlockId(head, OTHER.block_hash) if asks else None)


def test_blocks_below_the_queued_ones_come_from_elsewhere() -> None:
    lost = queued(9, 10)
    for number in (5, 6, 7, 8):
        lost.on_head(REFS[number].id, NOW + 10 * number)
        assert lost.phase is LostBlocksPhase.QUEUED
        lost.expire(False, NOW + 10 * number + 19)
    lost.on_head(BlockId(8, bytes(32)), NOW + 100)
    assert lost.phase is LostBlocksPhase.ASKING, "another chain, on which they do not follow"


def test_it_is_given_up_when_the_head_stands_still() -> None:
    lost = asking()
    lost.expire(False, NOW + PATIENCE_SECONDS - 0.1)
    assert lost.pending
    lost.expire(False, NOW + PATIENCE_SECONDS)
    assert not lost.pending and lost.reason == NO_ANSWER
    lost = queued(9, 10)
    lost.expire(True, NOW + PATIENCE_SECONDS)
    assert lost.pending, "the engine alone is waited for"
    lost.expire(False, NOW + 2 * PATIENCE_SECONDS - 1)
    lost.expire(False, NOW + 2 * PATIENCE_SECONDS)
    assert not lost.pending and lost.reason == "the blocks below them are neither on L1 nor at peers"


def test_an_invalid_block_ends_it() -> None:
    lost = queued(5, 7)
    lost.refused(REFS[9].hash, "bad state root")
    assert lost.pending, "of another chain"
    lost.refused(REFS[6].hash, "bad state root")
    assert not lost.pending and lost.reason == "the execution engine refuses block 6: bad state root"


@pytest.mark.parametrize(
    ("other", "waits"),
    [
        *((PAYLOADS[number], False) for number in (4, 6, 2, 7)),
        *((PAYLOADS[8], True), (OTHER, True)),
        *((msgspec.structs.replace(OTHER, block_number=number), True) for number in (6, 8)),
    ],
    ids=["the first", "the last", "below", "on top", "further up", "of another chain", "instead of one", "on another"],
)
def test_blocks_of_others_come_first(other: ExecutionPayload, waits: bool) -> None:
    """[SEQ41] The blocks 5 to 7, while that block is the lowest of the queue."""
    lost = checked(5, 7)
    assert bool(lost.release(other, NOW + OTHERS_SECONDS - 1)) is not waits
    if waits:
        assert lost.wait_until() == NOW + OTHERS_SECONDS
        assert lost.release(other, NOW + OTHERS_SECONDS) == list(blocks(5, 7))
