"""The engine process over real sockets: a fake execution engine, a fake L1, and the buses of the node."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec

from rollup_node.stages.messages.control import (
    ControlResponse,
    OutputRequest,
    OutputResponse,
    ResetDerivationRequest,
    StartSequencerRequest,
    StopSequencerRequest,
)
from rollup_node.stages.messages.engine import (
    AttributesOutcome,
    AttributesReady,
    EngineStatus,
    L2BlocksRequest,
    StartRequest,
)
from rollup_node.stages.protocol.output_root import output_root
from tests.support.engine_node import EngineNode, follow


def test_a_fresh_engine_derives_from_genesis(world: Any, engine: Any, run: Any) -> None:
    engine.head = world.genesis.hash

    async def scene(node: EngineNode) -> None:
        start = await node.start()
        assert start.safe_head == world.genesis and start.base == world.rollup.genesis.l1
        assert start.safe_config == start.base_config == world.rollup.genesis.system_config
        assert start.reset == 1 << 32 | 1
        parent = world.genesis
        for sequence in (1, 2, 3):
            attributes = world.attributes(parent, 100, [world.user])
            applied = await node.derive(start, sequence, parent, attributes, 101)
            assert applied.outcome is AttributesOutcome.ACCEPTED and applied.safe_head.number == sequence
            assert applied.safe_config == world.known[applied.safe_head.hash].config
            parent = applied.safe_head
        await node.until(lambda: engine.safe == parent.hash)
        await node.until(lambda: node.status is not None and node.status.safe == parent)
        assert node.status == EngineStatus(start.reset, parent, parent, parent, parent, world.genesis, False, False)
        assert node.health == ()
        assert b'refs_number{layer="l2",type="l2_safe"} 3.0' in node.meter.text()

    run(scene)


def test_consolidates_then_builds_beyond_the_tip(world: Any, engine: Any, run: Any) -> None:
    refs = follow(world, engine, 3)

    async def scene(node: EngineNode) -> None:
        start = await node.start()
        assert start.safe_head == refs[0]
        calls = len(engine.calls)
        for sequence in (1, 2, 3):
            await node.derive(start, sequence, refs[sequence - 1], world.attributes(refs[sequence - 1], 100), 101)
        assert "engine_getPayloadV4" not in engine.calls[calls:]
        await node.until(lambda: engine.safe == refs[3].hash)
        applied = await node.derive(start, 4, refs[3], world.attributes(refs[3], 100), 102)
        assert applied.safe_head.number == 4 and engine.head == applied.safe_head.hash

    run(scene)


def test_an_l1_reorg_gives_a_new_start(world: Any, engine: Any, run: Any) -> None:
    refs = follow(world, engine, 12)

    async def scene(node: EngineNode) -> None:
        first = await node.start()
        await node.derive(first, 1, refs[0], world.attributes(refs[0], 100), 101)
        world.reorg("b", 102)
        node.tell_l1(106)
        second = await node.start(first.reset, "L1 block 102 is another one now")
        assert second.reset > first.reset and second.safe_head == refs[0]
        await node.until(lambda: engine.head == refs[11].hash)
        assert node.stage.driver.heads is not None and node.stage.driver.heads.unsafe == refs[11]
        late = AttributesReady(first.reset, 2, refs[1], world.attributes(refs[1], 100), world.l1_ref(101), True)
        count = len(node.starts)
        await node.until(lambda: len(node.starts) > count, lambda: node.blocks.send(late))
        assert node.starts[-1] == second, "attributes of an old start are answered with the new one"

    run(scene)


def test_derivation_begins_again_without_a_search(world: Any, engine: Any, run: Any) -> None:
    refs = follow(world, engine, 6)

    async def scene(node: EngineNode) -> None:
        first = await node.start()
        for sequence in (1, 2):
            await node.derive(first, sequence, refs[sequence - 1], world.attributes(refs[sequence - 1], 100), 101)
        second = await node.start(first.reset)
        assert second.reset > first.reset and second.safe_head == refs[2]
        await node.derive(second, 1, refs[2], world.attributes(refs[2], 100), 101)
        assert engine.head == refs[6].hash

    run(scene)


def test_a_new_life_has_higher_reset_numbers(world: Any, engine: Any, run: Any) -> None:
    engine.head = world.genesis.hash

    async def scene(node: EngineNode) -> None:
        assert (await node.start()).reset == 5 << 32 | 1

    run(scene, incarnation=5)


def test_an_invalid_block_is_replaced(world: Any, engine: Any, run: Any) -> None:
    engine.head = world.genesis.hash
    engine.answers["engine_newPayloadV4"] = [{"status": "INVALID", "validationError": "bad"}]

    async def scene(node: EngineNode) -> None:
        start = await node.start()
        applied = await node.derive(start, 1, world.genesis, world.attributes(world.genesis, 100, [world.user]), 101)
        assert applied.outcome is AttributesOutcome.REPLACED_BY_DEPOSITS
        assert len(world.payloads[applied.safe_head.hash].transactions) == 1

    run(scene)


def test_an_engine_that_goes_away_loses_nothing(world: Any, engine: Any, play: Any, tmp_path: Path) -> None:
    engine.head = world.genesis.hash

    async def scene() -> None:
        async with engine.serving():
            node = EngineNode(world, engine, tmp_path)
        port = int(engine.url.split(":")[-1].strip("/"))
        async with node.running():
            await node.until(lambda: bool(node.health))
            await node.until(lambda: any("cannot connect" in problem for problem in node.health))
            async with engine.serving(port):
                start = await node.start()
                engine.answers["engine_getPayloadV4"] = [engine.failure(-32000, "restarting")]
                applied = await node.derive(start, 1, world.genesis, world.attributes(world.genesis, 100), 101)
                assert applied.outcome is AttributesOutcome.ACCEPTED

    play(scene())


def test_an_idle_engine_that_goes_away_is_noticed(world: Any, engine: Any, run: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("rollup_node.stages.engine.process.stage.WATCH_SECONDS", 0.2)
    follow(world, engine, 3)

    async def scene(node: EngineNode) -> None:
        await node.start()
        engine.answers["eth_chainId"] = ["0x1", engine.failure(-32603, "out of order")]
        for told in ("watch: execution engine: it is on chain 1, not on", "watch: execution engine: error -32603"):
            await node.until(lambda text=told: any(each.startswith(text) for each in node.health))

    run(scene)


def test_an_l1_that_cannot_be_asked_is_waited_for(world: Any, engine: Any, run: Any) -> None:
    engine.head = world.genesis.hash

    async def scene(node: EngineNode) -> None:
        node.l1_away = "endpoint is away"
        await node.until(lambda: any("endpoint is away" in str(error) for error in node.errors))
        assert node.starts == []
        node.l1_away = None
        await node.start()

    run(scene)


def test_finality_follows_l1(world: Any, engine: Any, run: Any) -> None:
    refs = follow(world, engine, 6)

    async def scene(node: EngineNode) -> None:
        start = await node.start()
        for sequence in (1, 2, 3):
            parent = refs[sequence - 1]
            await node.derive(start, sequence, parent, world.attributes(parent, 100), 100 + sequence)
        node.tell_l1(105, 102)
        await node.until(lambda: engine.finalized == refs[2].hash)
        assert node.status is not None and node.status.finalized == refs[2]
        node.tell_l1(106, 101)
        node.tell_l1(107, 105)
        await node.until(lambda: engine.finalized == refs[3].hash)

    run(scene)


def test_a_finalized_l1_block_on_another_branch_resets(world: Any, engine: Any, run: Any) -> None:
    refs = follow(world, engine, 2)

    async def scene(node: EngineNode) -> None:
        start = await node.start()
        await node.derive(start, 1, refs[0], world.attributes(refs[0], 100), 103)
        world.reorg("b", 103)
        node.tell_l1(106, 104)
        await node.until(lambda: any("is not canonical" in str(error) for error in node.errors))
        await node.until(lambda: len(node.starts) > 1, lambda: node.blocks.send(StartRequest(start.reset, None)))

    run(scene)


def test_blocks_for_overlap_rules(world: Any, engine: Any, run: Any) -> None:
    refs = follow(world, engine, 3)

    async def scene(node: EngineNode) -> None:
        start = await node.start()
        await node.until(lambda: bool(node.found), lambda: node.blocks.send(L2BlocksRequest(start.reset, 1, 3)))
        assert [each.ref for each in node.found[0].blocks] == refs[1:]
        assert node.found[0].blocks[0].transactions == world.payloads[refs[1].hash].transactions
        node.found.clear()
        await node.until(lambda: bool(node.found), lambda: node.blocks.send(L2BlocksRequest(start.reset, 2, 9)))
        assert node.found[-1].blocks == () and "has not got all" in (node.found[-1].error or "")

    run(scene)


# --- control and sequencing ----------------------------------------------------------------------------------------


def test_output_at_block(world: Any, engine: Any, run: Any) -> None:
    refs = follow(world, engine, 3)

    async def scene(node: EngineNode) -> None:
        await node.start()
        found = await node.ask(OutputRequest(1, 2))
        payload = world.payloads[refs[2].hash]
        assert isinstance(found, OutputResponse) and found.error is None and found.block == refs[2]
        assert found.withdrawal_storage_root == payload.withdrawals_root and found.state_root == payload.state_root
        assert found.output_root == output_root(payload.state_root, payload.withdrawals_root, refs[2].hash)
        assert found.status is not None and found.status.unsafe == refs[3]
        missing = await node.ask(OutputRequest(2, 99))
        assert missing.error is not None and missing.error.endswith("not found")

    run(scene)


def test_the_output_of_old_blocks_needs_a_proof(world: Any, engine: Any, run: Any) -> None:
    refs = follow(world, engine, 3)
    engine.answers["eth_getProof"] = [engine.failure(-32000, "pruned")]

    async def scene(node: EngineNode) -> None:
        await node.start()
        found = await node.ask(OutputRequest(1, 2))
        assert found.error is not None and "pruned" in found.error
        assert found.error.startswith(f"failed to get L2 output at block 0x{refs[2].hash.hex()}:2: ")

    run(scene, withdrawal_root_from_state=True)


def test_control_of_a_node_that_does_not_sequence(world: Any, engine: Any, run: Any) -> None:
    engine.head = world.genesis.hash

    async def scene(node: EngineNode) -> None:
        await node.start()
        assert await node.ask(StartSequencerRequest(1, world.genesis.hash)) == ControlResponse(
            1, "sequencer is not enabled", None
        )
        assert await node.ask(StopSequencerRequest(2)) == ControlResponse(2, "sequencer is not enabled", None)
        count = len(node.starts)
        assert await node.ask(ResetDerivationRequest(3)) == ControlResponse(3, None, None)
        assert len(node.starts) > count

    run(scene)


def test_sequences_and_stops_and_starts(make_world: Any, play: Any, tmp_path: Path, monkeypatch: Any) -> None:
    world = make_world(block_time=1)
    engine = make_world.engine(world)
    engine.head = world.genesis.hash
    engine.pool = [world.user]
    real = time.time
    begun = real()
    monkeypatch.setattr("rollup_node.stages.engine.process.stage.time.time", lambda: 1_000 + 5 * (real() - begun))

    async def scene() -> None:
        config = {"sequencer_enabled": True, "sequencer_l1_confs": 0, "sealing_duration": 0.05}
        async with engine.serving(), EngineNode(world, engine, tmp_path, **config).running() as node:
            await node.until(lambda: node.status is not None and node.status.sequencer_active)
            await node.until(lambda: len(engine.chain()) >= 3)
            assert world.user in engine.chain()[2].transactions
            stopped = await node.ask(StopSequencerRequest(1))
            assert stopped.error is None
            assert stopped.head == engine.head
            assert await node.ask(StopSequencerRequest(1)) == stopped, "a repeated question gets the same answer"
            assert (await node.ask(StopSequencerRequest(2))).error == "sequencer not running"
            height = len(engine.chain())
            await asyncio.sleep(0.5)
            assert len(engine.chain()) == height
            refused = await node.ask(StartSequencerRequest(3, bytes(32)))
            assert refused.error is not None and refused.error.startswith("block hash does not match: head 0x")
            assert (await node.ask(StartSequencerRequest(4, engine.head))).error is None
            assert (await node.ask(StartSequencerRequest(5, engine.head))).error == "sequencer already running"
            await node.until(lambda: len(engine.chain()) >= height + 2)
            times = [payload.timestamp for _, payload in sorted(engine.chain().items())]
            assert times == list(range(1_001, 1_001 + len(times)))
            assert b"transactions_sequenced_total" in node.meter.text()

    play(scene())


def test_sequencing_survives_an_l1_reorg_and_engine_troubles(
    make_world: Any, play: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    world = make_world(block_time=1, l1_step=2)
    engine = make_world.engine(world)
    engine.head = world.genesis.hash
    real = time.time
    begun = real()
    monkeypatch.setattr("rollup_node.stages.engine.process.stage.time.time", lambda: 1_000 + 5 * (real() - begun))

    async def scene() -> None:
        config = {"sequencer_enabled": True, "sequencer_l1_confs": 0}
        async with engine.serving(), EngineNode(world, engine, tmp_path, **config).running() as node:
            await node.until(lambda: any(world.ref(p).l1_origin.number >= 101 for p in engine.chain().values()))
            first = node.status
            world.reorg("b", 101)
            node.tell_l1(106)
            await node.until(lambda: any("has L1 origin" in str(error) for error in node.errors))
            engine.answers["engine_getPayloadV4"] = [engine.failure(-38001, "unknown payload")]
            renewed = world.l1_ref(102).id
            await node.until(lambda: any(world.ref(p).l1_origin == renewed for p in engine.chain().values()))
            await node.until(lambda: b"sequencing_errors_total" in node.meter.text())
            for payload in engine.chain().values():
                origin = world.ref(payload).l1_origin
                assert origin == world.l1_ref(origin.number).id, "no block is left on the old branch"
            assert first is not None and node.status is not None and node.status.reset > first.reset

    play(scene())


def test_messages_from_a_dead_life_of_derivation_are_ignored(world: Any, engine: Any, run: Any) -> None:
    engine.head = world.genesis.hash

    async def scene(node: EngineNode) -> None:
        await node.start()
        server = node.stage.blocks
        peer = server.peer
        assert peer is not None
        newer = msgspec.structs.replace(peer) if isinstance(peer, msgspec.Struct) else peer._replace(incarnation=9)
        server._take(newer, StartRequest(0, None))
        assert server.restart_wanted
        server._take(peer, StartRequest(0, "late"))
        assert server.peer == newer and server.start is not None

    run(scene)
