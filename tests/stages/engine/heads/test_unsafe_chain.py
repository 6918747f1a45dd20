"""Insertion of unsafe blocks, and when gaps are requested; the order of the queue is in its own tests."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.engine.calls.engine_api import (
    ForkchoiceAnswer,
    ForkchoiceUpdate,
    GetBlockRef,
    NewPayload,
    PayloadAnswer,
)
from rollup_node.stages.engine.calls.heads import Forkchoice, Heads
from rollup_node.stages.engine.heads.unsafe_chain import (
    MAX_BYTES,
    MAX_HEAD_AGE,
    DroppedUnsafeBlock,
    GapFetch,
    UnsafeChain,
    UnsafeQueue,
    size_of,
)
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture, chain_with

CHAIN = chain_with()
REFS = CHAIN.build(12)
HEADS = Heads(REFS[3], REFS[2], REFS[2], REFS[1])
ABOVE = CHAIN.payloads[REFS[9].hash]
UPDATE = ForkchoiceUpdate(Forkchoice(REFS[9].hash, REFS[2].hash, REFS[1].hash))
ORIGIN = BlockId(1, b"\x01" * 32)


def heads(chain: ChainFixture, unsafe: L2BlockRef) -> Heads:
    return Heads(unsafe, chain.genesis, chain.genesis, chain.genesis)


def unsafe_chain(chain: ChainFixture, *payloads: ExecutionPayload) -> UnsafeChain:
    machine = UnsafeChain(chain.rollup)
    for payload in payloads:
        assert machine.queue.add(payload)
    return machine


def test_a_block_of_no_rollup_leaves_the_queue_without_a_call(chain: ChainFixture) -> None:
    good = chain.payloads[chain.build(1)[1].hash]
    machine = unsafe_chain(chain, msgspec.structs.replace(good, transactions=good.transactions[1:]))
    assert isinstance(machine.next(heads(chain, chain.genesis)), DroppedUnsafeBlock)
    assert machine.next(heads(chain, chain.genesis)) is None


def test_a_gap_is_requested_every_two_block_times_while_the_head_stays(chain: ChainFixture) -> None:
    """[UNS4]: block time 2 s. Until then the blocks may only come in another order."""
    refs = chain.build(5)
    above = chain.payloads[refs[5].hash]
    machine = unsafe_chain(chain)
    at, unix = heads(chain, refs[1]), float(refs[1].timestamp)
    machine.on_heads(at, 90.0)
    machine.queue.add(above)
    requests = [second for second in range(100, 112) if machine.gap_end(at, float(second), unix) == above]
    assert requests == [104, 108]
    at = heads(chain, refs[2])
    machine.on_heads(at, 111.0)
    machine.on_heads(at, 114.0)
    assert machine.gap_end(at, 114.9, unix) is None, "the head has moved at 111"
    assert machine.gap_end(at, 115.0, unix) == above
    machine.on_heads(None, 118.0)
    assert machine.gap_end(at, 119.0, unix) is None, "without heads the time starts over"


def inserted(status: str = "SYNCING") -> GapFetch:
    """Return an attempt whose block the engine has."""
    fetch = GapFetch(CHAIN.rollup)
    assert fetch.next(HEADS) is None
    assert fetch.begin(ABOVE) is None
    call = fetch.next(HEADS)
    assert call == NewPayload(ABOVE)
    assert fetch.answer(call, PayloadAnswer(status), HEADS) is None
    assert fetch.next(HEADS) == UPDATE
    return fetch


@pytest.mark.fault("F41")
@pytest.mark.parametrize("status", ["VALID", "SYNCING", "ACCEPTED"])
def test_an_engine_that_has_the_chain(status: str) -> None:
    """Whatever it said of the block before."""
    fetch = inserted(status)
    assert fetch.answer(UPDATE, ForkchoiceAnswer("VALID"), HEADS) is None
    call = fetch.next(HEADS)
    assert (call, fetch.taken) == (GetBlockRef(2), UPDATE.forkchoice)
    assert fetch.answer(GetBlockRef(2), REFS[2], HEADS) == REFS[9]
    assert fetch.target is None and fetch.next(HEADS) is None


def test_a_block_of_no_rollup_is_dropped() -> None:
    bad = msgspec.structs.replace(ABOVE, transactions=ABOVE.transactions[1:])
    fetch = GapFetch(CHAIN.rollup)
    result = fetch.begin(bad)
    assert isinstance(result, DroppedUnsafeBlock) and result.hash == ABOVE.block_hash and fetch.next(HEADS) is None
    assert fetch.answer(NewPayload(bad), PayloadAnswer("VALID"), HEADS) is None


def block_hash(number: int, branch: int = 0) -> bytes:
    return (number % (1 << 64)).to_bytes(8, "big") + branch.to_bytes(24, "big")


def block(number: int, branch: int = 0, parent_branch: int | None = None, transactions: Any = ()) -> ExecutionPayload:
    return msgspec.structs.replace(
        ABOVE,
        parent_hash=block_hash(number - 1, branch if parent_branch is None else parent_branch),
        block_number=number,
        timestamp=2 * number,
        block_hash=block_hash(number, branch),
        transactions=tuple(transactions),
    )


def ref(number: int, branch: int = 0) -> L2BlockRef:
    return L2BlockRef(block_hash(number, branch), number, block_hash(number - 1, branch), 2 * number, ORIGIN, 0)


def queue_heads(unsafe: int, safe: int = 0, branch: int = 0) -> Heads:
    return Heads(ref(unsafe, branch), ref(safe), ref(safe), ref(0))


def queue_of(*payloads: ExecutionPayload, most: int = MAX_BYTES) -> UnsafeQueue:
    queue = UnsafeQueue(most)
    for payload in payloads:
        queue.add(payload)
    return queue


def test_blocks_are_counted_with_their_transactions() -> None:
    assert size_of(block(1)) == 1000
    assert size_of(block(1, transactions=(b"abc", b""))) == 1000 + 3 + 2 * 24
    queue = queue_of(block(1, transactions=(b"abc",)), block(2))
    assert (len(queue), queue.bytes) == (2, 2027)
    queue.next(queue_heads(5))
    assert (len(queue), queue.bytes) == (0, 0)


def test_beyond_the_bound_the_lowest_numbers_go_first() -> None:
    queue = queue_of(block(7), block(5), block(6), most=3000)
    assert queue.add(block(9))
    assert queue.lowest == block(6) and queue.bytes == 3000
    assert not queue.add(block(2)), "the lowest is the new one itself"
    assert not queue.add(block(4, transactions=(bytes(5000),)))
    assert len(queue) < 4 and queue.bytes <= 3000
    assert MAX_BYTES == 500 * 1024 * 1024


def test_any_block_can_be_dropped() -> None:
    queue = queue_of(block(4), block(5), block(7), block(6))
    assert queue.highest == block(7) and UnsafeQueue().highest is None
    for number, lowest, highest in ((7, 4, 6), (4, 5, 6), (9, 5, 6)):
        queue.drop(block(number).block_hash)
        assert (queue.lowest, queue.highest) == (block(lowest), block(highest))
    assert len(queue) == 2 and queue.bytes == size_of(block(5)) + size_of(block(6))
    queue.drop_below(6)
    assert len(queue) == 1 and queue.lowest == block(6)
    queue.drop_below(9)
    assert len(queue) == 0 and queue.bytes == 0


@pytest.mark.fault("F48")
def test_a_gap_ends_at_the_lowest_block() -> None:
    """Not after a head of half a day ago."""
    at = queue_heads(3)
    stamp = at.unsafe.timestamp
    assert UnsafeQueue().gap_end(at, 6) is None and queue_of(block(4)).gap_end(at, 6) is None
    queue = queue_of(block(9), block(7))
    assert queue.gap_end(at, 6) == queue.gap_end(at, stamp + MAX_HEAD_AGE) == block(7)
    assert queue.gap_end(at, stamp + MAX_HEAD_AGE + 1) is None


STEP = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 12), st.integers(0, 2), st.integers(0, 2), st.integers(0, 900)),
    st.tuples(st.just("next"), st.integers(0, 12), st.integers(0, 2), st.integers(0, 12), st.just(0)),
    st.tuples(st.just("drop"), st.integers(0, 12), st.integers(0, 2), st.just(0), st.just(0)),
)


@settings(max_examples=60)
@given(st.lists(STEP, max_size=25))
def test_it_behaves_like_a_sorted_list(steps: list[tuple[str, int, int, int, int]]) -> None:
    """The model keeps blocks in a list and applies the rules one by one."""
    queue = UnsafeQueue(3000)
    model: list[ExecutionPayload] = []
    for what, number, branch, other, size in steps:
        if what == "add":
            payload = block(number + 1, branch, other, (bytes(size),))
            fresh = all(item.block_hash != payload.block_hash for item in model)
            if fresh:
                model.append(payload)
                model.sort(key=lambda item: item.block_number)
                while sum(map(size_of, model)) > 3000:
                    del model[0]
            assert queue.add(payload) == (fresh and payload in model)
        elif what == "drop":
            payload = block(number + 1, branch)
            model = [item for item in model if item.block_hash != payload.block_hash]
            queue.drop(payload.block_hash)
        else:
            at = msgspec.structs.replace(queue_heads(number, branch=branch), safe=ref(min(other, number)))
            expected = None
            while model:
                lowest = model[0]
                if lowest.block_number > number + 1:
                    break
                if lowest.block_number == number + 1 and lowest.parent_hash == at.unsafe.hash:
                    expected = lowest
                    break
                del model[0]
            assert queue.next(at) == expected
        assert queue.lowest == (model[0] if model else None)
        assert len(queue) == len(model) and queue.bytes == sum(map(size_of, model)) <= 3000
