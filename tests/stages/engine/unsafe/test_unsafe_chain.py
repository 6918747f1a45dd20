"""Insertion of unsafe blocks, and when gaps are requested; the order of the queue is in its own tests."""

import msgspec
import pytest

from rollup_node.stages.engine.calls.engine_api import ErrorAnswer, NewPayload, PayloadAnswer
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.unsafe.unsafe_chain import UnsafeChain
from rollup_node.stages.engine.unsafe.unsafe_queue import DroppedUnsafeBlock
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture


def heads(chain: ChainFixture, unsafe: L2BlockRef) -> Heads:
    return Heads(unsafe, chain.genesis, chain.genesis, chain.genesis)


def unsafe_chain(chain: ChainFixture, *payloads: ExecutionPayload) -> UnsafeChain:
    machine = UnsafeChain(chain.rollup)
    for payload in payloads:
        assert machine.queue.add(payload)
    return machine


def test_a_valid_block_is_the_next_tip(chain: ChainFixture) -> None:
    refs = chain.build(2)
    machine = unsafe_chain(chain, *(chain.payloads[ref.hash] for ref in refs[1:]))
    call = machine.next(heads(chain, refs[0]))
    assert call == NewPayload(chain.payloads[refs[1].hash])
    assert machine.answer(call, PayloadAnswer("VALID")) == chain.known[refs[1].hash]
    assert machine.next(heads(chain, refs[1])) == NewPayload(chain.payloads[refs[2].hash])
    assert machine.next(heads(chain, refs[2])) is None


@pytest.mark.parametrize(
    "answer",
    [ErrorAnswer(-32000, "busy"), PayloadAnswer("SYNCING"), PayloadAnswer("ACCEPTED"), PayloadAnswer("ODD"), None],
    ids=str,
)
def test_a_block_stays_queued_after_a_temporary_answer(answer: object, chain: ChainFixture) -> None:
    ref = chain.build(1)[1]
    machine = unsafe_chain(chain, chain.payloads[ref.hash])
    call = machine.next(heads(chain, chain.genesis))
    assert isinstance(call, NewPayload)
    with pytest.raises(TemporaryError, match="unsafe block 1"):
        machine.answer(call, answer)
    assert machine.next(heads(chain, chain.genesis)) == call


@pytest.mark.parametrize("status", ["INVALID", "INVALID_BLOCK_HASH"])
def test_an_invalid_block_leaves_the_queue(status: str, chain: ChainFixture) -> None:
    ref = chain.build(1)[1]
    machine = unsafe_chain(chain, chain.payloads[ref.hash])
    call = machine.next(heads(chain, chain.genesis))
    assert isinstance(call, NewPayload)
    dropped = machine.answer(call, PayloadAnswer(status, "bad state root"))
    assert isinstance(dropped, DroppedUnsafeBlock) and "bad state root" in dropped.reason
    assert (dropped.number, dropped.hash, len(machine.queue)) == (1, ref.hash, 0)


def test_a_block_of_no_rollup_leaves_the_queue_without_a_call(chain: ChainFixture) -> None:
    good = chain.payloads[chain.build(1)[1].hash]
    machine = unsafe_chain(chain, msgspec.structs.replace(good, transactions=good.transactions[1:]))
    assert isinstance(machine.next(heads(chain, chain.genesis)), DroppedUnsafeBlock)
    assert machine.next(heads(chain, chain.genesis)) is None


def test_a_gap_is_requested_every_two_block_times_while_the_head_stays(chain: ChainFixture) -> None:
    """[UNS4]: block time 2 s."""
    refs = chain.build(5)
    above = chain.payloads[refs[5].hash]
    machine = unsafe_chain(chain, above)
    at, unix = heads(chain, refs[1]), float(refs[1].timestamp)
    machine.on_heads(at, 100.0)
    requests = [second for second in range(100, 112) if machine.gap_end(at, float(second), unix) == above]
    assert requests == [104, 108]
    at = heads(chain, refs[2])
    machine.on_heads(at, 111.0)
    machine.on_heads(at, 114.0)
    assert machine.gap_end(at, 114.9, unix) is None, "the head has moved at 111"
    assert machine.gap_end(at, 115.0, unix) == above
    machine.on_heads(None, 118.0)
    assert machine.gap_end(at, 119.0, unix) is None, "without heads the time starts over"


def test_without_a_gap_nothing_is_requested(chain: ChainFixture) -> None:
    refs = chain.build(2)
    machine = unsafe_chain(chain, chain.payloads[refs[2].hash])
    at = heads(chain, refs[1])
    machine.on_heads(at, 100.0)
    assert [machine.gap_end(at, 100.0 + second, 1_000.0) for second in range(20)] == [None] * 20
