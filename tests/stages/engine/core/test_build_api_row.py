"""Blocks that somebody else builds and commits by the `opstack` namespace [RPC61 to RPC66]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.engine.calls import engine_api as api
from rollup_node.stages.engine.calls.calls import CoreAnswer
from rollup_node.stages.engine.core.build_api_row import MAX_REQUESTS
from rollup_node.stages.messages import control
from rollup_node.stages.protocol.config import ForeignFork
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from tests.support.chains.chain_fixture import GENESIS_TIME, ChainFixture, chain_with
from tests.support.engine.core_harness import CoreHarness, started


def responses_of(harness: CoreHarness) -> list[Any]:
    """All responses to rpc."""
    return list(harness.responses)


def open_block(harness: CoreHarness, number: int, parent: L2BlockRef, attributes: PayloadAttributes) -> bytes:
    """Return the payload id of a build."""
    harness.request(control.OpenBlockRequest(number, parent.id, attributes))
    harness.run_until_idle()
    opened = responses_of(harness)[-1]
    assert opened.error is None and opened.id == number
    payload_id: bytes = opened.payload_id
    return payload_id


def build_on(
    harness: CoreHarness, parent: L2BlockRef, first_id: int, attributes: PayloadAttributes | None = None
) -> ExecutionPayload:
    """Return a block on a parent, as a test sequencer has it built: opened, and sealed.

    The ids count from `first_id`."""
    attributes = attributes or harness.chain.attributes(parent, parent.l1_origin.number, [harness.chain.user])
    payload_id = open_block(harness, first_id, parent, attributes)
    harness.request(control.SealBlockRequest(first_id + 1, payload_id, attributes.timestamp, False))
    harness.run_until_idle()
    sealed = responses_of(harness)[-1]
    assert sealed.error is None and sealed.payload.transactions == attributes.transactions
    payload: ExecutionPayload = sealed.payload
    return payload


def commit(harness: CoreHarness, number: int, payload: ExecutionPayload) -> Any:
    """Return the response to a block."""
    harness.request(control.CommitBlockRequest(number, payload))
    harness.run_until_idle()
    return responses_of(harness)[-1]


def test_a_block_is_opened_sealed_and_committed(chain: ChainFixture) -> None:
    harness = started(chain)
    payload = build_on(harness, chain.genesis, 1)
    assert harness.status.unsafe == chain.genesis and harness.engine.head == chain.genesis.hash
    harness.request(control.CommitBlockRequest(3, payload))
    harness.request(control.CommitBlockRequest(3, payload))
    assert harness.call_names() == ["NewPayload"]
    harness.answer(harness.open[0])
    assert responses_of(harness)[-1].id == 2, "the head is confirmed before the response"
    harness.run_until_idle()
    assert responses_of(harness)[2:] == [control.BuildResponse(3, None)]
    assert harness.status.unsafe == chain.ref(payload) and harness.engine.head == payload.block_hash
    assert commit(harness, 4, payload) == control.BuildResponse(4, None), "the present head may be committed again"


def test_a_block_on_an_older_parent_replaces_the_tip(chain: ChainFixture) -> None:
    """The engine's head goes back to the node's until the block is committed."""
    harness = started(chain)
    tip = build_on(harness, chain.genesis, 1)
    commit(harness, 3, tip)
    harness.engine.pool = [chain.user]
    attributes = chain.attributes(chain.genesis, chain.genesis.l1_origin.number)
    empty = build_on(harness, chain.genesis, 6, msgspec.structs.replace(attributes, no_tx_pool=True))
    assert empty.block_hash != tip.block_hash and harness.engine.head == tip.block_hash
    assert commit(harness, 8, empty) == control.BuildResponse(8, None)
    assert harness.status.unsafe == chain.ref(empty) and harness.engine.head == empty.block_hash


def test_a_wrong_parent(chain: ChainFixture) -> None:
    harness = started(chain)
    attributes = chain.attributes(chain.genesis, 100)
    absent = BlockId(7, b"\x77" * 32)
    harness.request(control.OpenBlockRequest(1, absent, attributes))
    harness.run_until_idle()
    name = to_hex(absent.hash)
    text = f"failed to determine block-hash of hash {name}, could not get payload: not found"
    error = f"failed to retrieve parent block {name}:7 from engine: {text}"
    assert responses_of(harness) == [control.BuildResponse(1, error, -32000)]
    for number, answer, reason in ((2, api.Unavailable("away"), "away"), (3, api.ErrorAnswer(-32000, "busy"), "busy")):
        harness.request(control.OpenBlockRequest(number, chain.genesis.id, attributes))
        (call,) = harness.step()
        assert call.call == api.GetBlockRef(chain.genesis.hash)
        harness.answer(call, answer)
        assert responses_of(harness)[-1].error.endswith(f"could not get payload: {reason}")


def test_a_build_that_the_engine_refuses(chain: ChainFixture) -> None:
    harness = started(chain)
    harness.request(control.OpenBlockRequest(1, chain.genesis.id, chain.attributes(chain.genesis, 100)))
    harness.answer(harness.step()[0])
    (update,) = harness.step()
    assert isinstance(update.call, api.ForkchoiceUpdate)
    harness.answer(update, api.ErrorAnswer(-38003, "gasLimit parameter is required"))
    (response,) = responses_of(harness)
    assert response.code == -40101 and response.error.endswith(": gasLimit parameter is required")


def test_an_unknown_payload_id(chain: ChainFixture) -> None:
    harness = started(chain)
    harness.request(control.SealBlockRequest(1, b"\x05" * 8, 1_700_000_002, False))
    harness.request(control.SealBlockRequest(2, b"\x05" * 8, 1_700_000_002, True))
    harness.run_until_idle()
    unknown = [control.BuildResponse(number, "unknown payload", -40120) for number in (1, 2)]
    assert responses_of(harness) == unknown
    harness.request(control.SealBlockRequest(3, b"\x05" * 8, 1_700_000_002, False))
    (call,) = harness.step()
    assert isinstance(call.call, api.GetPayload)
    harness.answer(call, api.Unavailable("away"))
    assert responses_of(harness)[-1] == control.BuildResponse(3, "failed to seal payload: away", -40199)


def test_a_cancelled_block_is_fetched_and_dropped(chain: ChainFixture) -> None:
    """[RPC62]"""
    harness = started(chain)
    payload_id = open_block(harness, 1, chain.genesis, chain.attributes(chain.genesis, 100))
    harness.request(control.SealBlockRequest(2, payload_id, 1_700_000_002, True))
    (call,) = harness.step()
    assert isinstance(call.call, api.GetPayload)
    harness.answer(call)
    assert responses_of(harness)[-1] == control.BuildResponse(2, None)


def test_wrong_payloads(chain: ChainFixture) -> None:
    harness = started(chain)
    payload = build_on(harness, chain.genesis, 1)
    harness.request(control.CommitBlockRequest(3, msgspec.structs.replace(payload, transactions=())))
    assert harness.step() == []
    assert responses_of(harness)[-1].error.startswith("invalid payload: ")
    harness.request(control.CommitBlockRequest(4, payload))
    harness.answer(harness.step()[0], api.PayloadAnswer("INVALID", "bad state root"))
    assert responses_of(harness)[-1] == control.BuildResponse(4, "execution invalid: bad state root", -40110)
    assert harness.status.unsafe == chain.genesis and harness.step() == []


@pytest.mark.parametrize(
    ("answer", "text", "head"),
    [
        (api.Unavailable("away"), "away", 1),
        (api.ErrorAnswer(-38002, "not on the chain"), "not on the chain (-38002)", 0),
    ],
)
def test_a_block_that_the_engine_does_not_make_its_head(
    chain: ChainFixture, answer: CoreAnswer, text: str, head: int
) -> None:
    """An engine that was away gets the update again; one that refuses it leads to a reset."""
    harness = started(chain)
    payload = build_on(harness, chain.genesis, 1)
    harness.request(control.CommitBlockRequest(3, payload))
    (insert,) = harness.step()
    assert insert.call == api.NewPayload(payload)
    harness.answer(insert)
    harness.answer(harness.step()[0], answer)
    response = responses_of(harness)[-1]
    assert response.id == 3 and response.code == -32000
    assert response.error.startswith("failed to update engine forkchoice: ") and response.error.endswith(text)
    harness.pass_time(10.0)
    assert harness.unsafe == head


def test_a_block_below_the_finalized_one_is_refused(chain: ChainFixture) -> None:
    """Differs: op-node takes it and ends."""
    refs = chain.build(3)
    harness = CoreHarness(chain)
    harness.engine.head = harness.engine.safe = harness.engine.finalized = refs[3].hash
    harness.move_l1(harness.l1_head)
    harness.run_until_idle()
    error = commit(harness, 1, chain.payloads[refs[2].hash]).error
    assert error.startswith("failed to update engine forkchoice: invalid forkchoice state, unsafe head ")
    assert f"is behind finalized head {to_hex(refs[3].hash)}:3" in error


def test_requests_wait_for_heads_and_their_number_is_bounded(chain: ChainFixture) -> None:
    harness = CoreHarness(chain)
    for number in range(MAX_REQUESTS + 5):
        harness.request(control.SealBlockRequest(number, bytes(8), 1, True))
    assert all(not isinstance(pending.call, api.GetPayload) for pending in harness.step())
    harness.move_l1(harness.l1_head)
    harness.run_until_idle()
    assert len(responses_of(harness)) == MAX_REQUESTS


@pytest.mark.parametrize("stopped", [False, True])
def test_the_sequencer_builds_on_a_committed_block(stopped: bool) -> None:
    """Whether the node's own sequencer runs or not, its next block has the committed one as its parent."""
    chain = chain_with(block_time=1)
    harness = started(chain, sequencer_enabled=True, sequencer_l1_confs=0, sequencer_stopped=stopped)
    for first_id in (1, 11):
        tip = harness.heads.unsafe
        payload = build_on(harness, tip, first_id)
        assert harness.heads.unsafe == tip, "the sequencer waits for its time"
        assert commit(harness, first_id + 5, payload) == control.BuildResponse(first_id + 5, None)
        assert harness.engine.head == payload.block_hash
    for _ in range(20):
        harness.sleep()
        harness.run_until_idle()
    sequenced = harness.published
    assert bool(sequenced) is not stopped
    if sequenced:
        assert sequenced[0].parent_hash == payload.block_hash


def test_blocks_beyond_a_foreign_fork_are_errors() -> None:
    """[LFT5]"""
    chain = chain_with(foreign_fork=ForeignFork("Somefork", GENESIS_TIME + 2))
    harness = started(chain)
    attributes = chain.attributes(chain.genesis, chain.genesis.l1_origin.number)
    harness.request(control.OpenBlockRequest(1, chain.genesis.id, attributes))
    harness.request(control.CommitBlockRequest(2, chain.payloads[chain.build(1)[1].hash]))
    assert harness.call_names() == []
    assert [response.id for response in harness.responses] == [1, 2]
    assert all("block 0 is the last" in str(response.error) for response in harness.responses)
