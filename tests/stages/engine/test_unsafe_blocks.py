"""The engine process follows the unsafe chain: blocks of gossip in and out of order, gaps, bad blocks, an engine that
refuses them, publishing, and blocks for peers."""

import pytest

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.p2p import GapEnd, UnsafeBlocksRequest
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import L2BlockRef
from tests.stages.engine.conftest import Run, RunOn
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.engine_node import chain_clock
from tests.support.engine.fake_engine import FakeExecutionEngine, sequencing_engine


def payloads(chain: ChainFixture, refs: list[L2BlockRef]) -> dict[int, ExecutionPayload]:
    """Return the blocks of references above genesis, by number."""
    return {ref.number: chain.payloads[ref.hash] for ref in refs[1:]}


def counted(meter: Meter, name: str) -> float:
    lines = [line for line in meter.text().decode().splitlines() if line.startswith(name)]
    return sum(float(line.split()[-1]) for line in lines)


async def test_blocks_of_gossip_are_inserted_in_order(
    chain: ChainFixture, engine: FakeExecutionEngine, run: Run
) -> None:
    refs = chain.build(5)
    blocks = payloads(chain, refs)
    async with run(p2p=True) as node:
        await node.until(lambda: node.unsafe == 0)
        await node.gossip(blocks[3], blocks[1], blocks[2], blocks[2])
        await node.until(lambda: node.unsafe == 3)
        assert engine.head == refs[3].hash and engine.safe == chain.genesis.hash
        assert node.status is not None and node.status.safe == chain.genesis
        await node.gossip(blocks[2], blocks[5], blocks[4])
        await node.until(lambda: node.unsafe == 5)
        await node.until(lambda: b"unsafe_payloads_buffer_len 0.0" in node.meter.text())
        assert engine.calls.count("engine_newPayloadV4") == 5
        assert not node.failures and counted(node.meter, "op_node_default_unsafe_payloads_total") == 7
        assert counted(node.meter, 'op_node_default_refs_number{layer="l2",type="received_payload"}') == 4


@pytest.mark.fault("F48")
async def test_a_gap_is_requested_from_peers_and_filled(run_on: RunOn) -> None:
    """[UNS5] As op-node's `syncmode.req-resp` once did."""
    engine = sequencing_engine(l1_step=6)
    refs = engine.chain.build(6)
    blocks = payloads(engine.chain, refs)
    async with run_on(engine)(p2p=True, gaps_from_engine=False, clock=chain_clock()) as node:
        await node.until(lambda: node.unsafe == 0)
        await node.gossip(blocks[6], blocks[5])
        gap = UnsafeBlocksRequest(0, GapEnd(5, refs[5].hash, refs[4].hash))
        await node.until(lambda: node.requested.count(gap) >= 2)
        assert {item for item in node.requested if item.gap_end is not None} == {gap}
        await node.gossip(blocks[4], blocks[3], blocks[2], blocks[1])
        await node.until(lambda: node.unsafe == 6)


async def test_a_sequencer_publishes_what_it_seals(run_on: RunOn) -> None:
    engine = sequencing_engine(l1_step=1)
    chain = engine.chain
    async with run_on(engine)(p2p=True, sequencer_enabled=True, sequencer_l1_confs=0) as node:
        await node.until(lambda: node.unsafe >= 3)
        await node.until(lambda: len({item.payload.block_number for item in node.published}) >= 3)
        first = node.published[0]
        assert first.payload.block_number == 1 and first.payload == chain.payloads[first.payload.block_hash]
        assert not counted(node.meter, "op_node_default_publishing_errors_total")
        node.publish_error = "node has no p2p signer"
        await node.until(lambda: counted(node.meter, "op_node_default_publishing_errors_total") > 0)
        head = node.unsafe
        await node.until(lambda: node.unsafe > head)
