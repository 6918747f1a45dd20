"""The engine process follows the unsafe chain: blocks of gossip in and out of order, gaps, bad blocks, an engine that
refuses them, publishing, and blocks for peers."""

import msgspec
import pytest

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.control import ControlResponse, PostUnsafePayloadRequest
from rollup_node.stages.messages.engine import AttributesOutcome
from rollup_node.stages.messages.p2p import GapEnd, PayloadRequest, PayloadResponse, UnsafeBlocksRequest
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import L2BlockRef
from tests.stages.engine.conftest import Run, RunOn
from tests.support.chains.chain_fixture import ChainFixture, chain_with
from tests.support.engine.engine_node import EngineNode, chain_clock, follow
from tests.support.engine.fake_engine import EngineFailure, FakeExecutionEngine


def payloads(chain: ChainFixture, refs: list[L2BlockRef]) -> dict[int, ExecutionPayload]:
    """The blocks of references above genesis, by number."""
    return {ref.number: chain.payloads[ref.hash] for ref in refs[1:]}


def counted(meter: Meter, name: str) -> float:
    lines = [line for line in meter.text().decode().splitlines() if line.startswith(name)]
    return sum(float(line.split()[-1]) for line in lines)


def test_blocks_of_gossip_are_inserted_in_order(chain: ChainFixture, engine: FakeExecutionEngine, run: Run) -> None:
    refs = chain.build(5)
    blocks = payloads(chain, refs)
    engine.head = chain.genesis.hash

    async def scene(node: EngineNode) -> None:
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

    run(scene, p2p=True)


@pytest.mark.fault("F48")
def test_a_gap_is_requested_from_peers_and_filled(run_on: RunOn) -> None:
    """[UNS5] As op-node's `syncmode.req-resp` once did."""
    chain = chain_with(block_time=1, l1_step=6)
    engine = FakeExecutionEngine(chain)
    refs = chain.build(6)
    blocks = payloads(chain, refs)
    engine.head = chain.genesis.hash

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: node.unsafe == 0)
        await node.gossip(blocks[6], blocks[5])

        def gaps() -> list[UnsafeBlocksRequest]:
            return [each for each in node.requested if each.gap_end is not None]

        await node.until(lambda: len(gaps()) >= 2)
        assert set(gaps()) == {UnsafeBlocksRequest(0, GapEnd(5, refs[5].hash, refs[4].hash))}
        await node.gossip(blocks[4], blocks[3], blocks[2], blocks[1])
        await node.until(lambda: node.unsafe == 6)

    run_on(engine)(scene, p2p=True, gaps_from_engine=False, clock=chain_clock())


def test_a_gap_is_fetched_by_the_engine(run_on: RunOn) -> None:
    """[UNS6] It gets the lowest block above, and fetches the blocks below from its own peers."""
    chain = chain_with(block_time=1, l1_step=6)
    engine = FakeExecutionEngine(chain)
    refs = chain.build(6)
    blocks = payloads(chain, refs)
    engine.head = chain.genesis.hash
    engine.answers["engine_newPayloadV4"] = [{"status": "SYNCING"}]

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: node.unsafe == 0)
        await node.gossip(blocks[6], blocks[5])
        await node.until(lambda: node.unsafe == 6)
        assert engine.head == refs[6].hash and not node.failures
        assert all(each.gap_end is None for each in node.requested)

    run_on(engine)(scene, p2p=True, clock=chain_clock())


def test_a_block_that_the_engine_calls_invalid_leaves_the_queue(
    chain: ChainFixture, engine: FakeExecutionEngine, run: Run
) -> None:
    good = payloads(chain, chain.build(2))
    bad = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100, [chain.user]))
    engine.head = chain.genesis.hash
    engine.answers["engine_newPayloadV4"] = [{"status": "INVALID", "validationError": "bad state"}]

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: node.unsafe == 0)
        await node.gossip(bad)
        await node.until(lambda: "engine_newPayloadV4" in engine.calls)
        await node.gossip(*good.values())
        await node.until(lambda: node.unsafe == 2)
        assert not node.failures

    run(scene, p2p=True)


def test_a_block_that_is_of_no_rollup_leaves_the_queue(
    chain: ChainFixture, engine: FakeExecutionEngine, run: Run
) -> None:
    good = payloads(chain, chain.build(1))[1]
    bad = msgspec.structs.replace(good, transactions=good.transactions[1:], block_hash=b"\x09" * 32)
    engine.head = chain.genesis.hash

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: node.unsafe == 0)
        await node.gossip(bad, good)
        await node.until(lambda: node.unsafe == 1)
        assert engine.calls.count("engine_newPayloadV4") == 1 and not node.failures

    run(scene, p2p=True)


@pytest.mark.fault("F40")
@pytest.mark.parametrize("status", ["SYNCING", "ACCEPTED"])
def test_an_engine_that_is_busy_gets_the_block_again(
    status: str, chain: ChainFixture, engine: FakeExecutionEngine, run: Run
) -> None:
    blocks = payloads(chain, chain.build(1))
    engine.head = chain.genesis.hash
    engine.answers["engine_newPayloadV4"] = [{"status": status}, EngineFailure(-32000, "out of order")]

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: node.unsafe == 0)
        await node.gossip(blocks[1])
        await node.until(lambda: node.unsafe == 1)
        assert status in node.failures[0] and "out of order" in node.failures[1]

    run(scene, p2p=True)


def test_a_posted_block_is_treated_like_one_of_gossip(
    chain: ChainFixture, engine: FakeExecutionEngine, run: Run
) -> None:
    blocks = payloads(chain, chain.build(2))
    engine.head = chain.genesis.hash

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: node.unsafe == 0)
        for number in (2, 1):
            assert await node.admin(PostUnsafePayloadRequest(number, blocks[number])) == ControlResponse(
                number, None, None
            )
        await node.until(lambda: node.unsafe == 2)

    run(scene)


def test_derivation_consolidates_what_gossip_brought(
    chain: ChainFixture, engine: FakeExecutionEngine, run: Run
) -> None:
    refs = chain.build(3, users=[chain.user])
    blocks = payloads(chain, refs)
    engine.head = chain.genesis.hash

    async def scene(node: EngineNode) -> None:
        start = await node.start()
        await node.gossip(*blocks.values())
        await node.until(lambda: node.unsafe == 3)
        applied = await node.derive(start, 1, refs[0], chain.attributes(refs[0], 100, [chain.user]), 101)
        assert applied.outcome is AttributesOutcome.ACCEPTED and applied.safe_head == refs[1]
        await node.until(lambda: engine.safe == refs[1].hash)
        assert node.unsafe == 3 and engine.head == refs[3].hash

    run(scene, p2p=True)


def test_a_sequencer_publishes_what_it_seals(run_on: RunOn) -> None:
    chain = chain_with(block_time=1, l1_step=1)
    engine = FakeExecutionEngine(chain)
    engine.head = chain.genesis.hash

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: node.unsafe >= 3)
        await node.until(lambda: len({each.payload.block_number for each in node.published}) >= 3)
        first = node.published[0]
        assert first.payload.block_number == 1 and first.payload == chain.payloads[first.payload.block_hash]
        assert not counted(node.meter, "op_node_default_publishing_errors_total")
        node.publish_error = "node has no p2p signer"
        await node.until(lambda: counted(node.meter, "op_node_default_publishing_errors_total") > 0)
        head = node.unsafe
        await node.until(lambda: node.unsafe > head)

    run_on(engine)(scene, p2p=True, sequencer_enabled=True, sequencer_l1_confs=0)


def test_blocks_are_read_for_peers(chain: ChainFixture, engine: FakeExecutionEngine, run: Run) -> None:
    refs = follow(chain, engine, 3)

    async def scene(node: EngineNode) -> None:
        assert node.payloads is not None
        await node.until(lambda: node.unsafe == 3)
        for number in (2, 9):
            node.payloads.send(PayloadRequest(number, number))
        await node.until(lambda: len(node.peer_payloads) == 2)
        assert node.peer_payloads == [
            PayloadResponse(2, chain.payloads[refs[2].hash], None),
            PayloadResponse(9, None, None),
        ]
        engine.answers["eth_getBlockByNumber"] = [EngineFailure(-32000, "database is down")]
        node.payloads.send(PayloadRequest(3, 1))
        await node.until(lambda: len(node.peer_payloads) == 3)
        assert node.peer_payloads[2].payload is None and "database is down" in str(node.peer_payloads[2].error)

    run(scene, p2p=True)
