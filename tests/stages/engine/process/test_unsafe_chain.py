"""The engine process follows the unsafe chain: blocks of gossip in and out of order, gaps, bad blocks, engines that
refuse, publishing, and blocks for peers."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.stages.engine.process.p2p_client import LONGEST_PUBLISHING, MOST_PUBLISHING, PeersClient
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.control import ControlResponse, PostUnsafePayloadRequest
from rollup_node.stages.messages.engine import AttributesOutcome
from rollup_node.stages.messages.p2p import (
    GapEnd,
    PayloadRequest,
    PayloadResponse,
    PublishResponse,
    UnsafeBlocksRequest,
)
from rollup_node.stages.topology import CHANNELS
from tests.support.engine_node import EngineNode, follow


def unsafe(node: EngineNode) -> int:
    """The number of the unsafe head; -1 while there is none."""
    return -1 if node.status is None or node.status.unsafe is None else node.status.unsafe.number


def payloads(world: Any, refs: list[Any]) -> list[Any]:
    return [None, *(world.payloads[ref.hash] for ref in refs[1:])]


def counted(meter: Meter, name: str) -> float:
    lines = [line for line in meter.text().decode().splitlines() if line.startswith(name)]
    return sum(float(line.split()[-1]) for line in lines)


def test_blocks_of_gossip_are_inserted_in_order(world: Any, engine: Any, run: Any) -> None:
    refs = world.chain(5)
    blocks = payloads(world, refs)
    engine.head = world.genesis.hash

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: unsafe(node) == 0)
        await node.gossip(blocks[3], blocks[1], blocks[2], blocks[2])
        await node.until(lambda: unsafe(node) == 3)
        assert engine.head == refs[3].hash and engine.safe == world.genesis.hash
        assert node.status is not None and node.status.safe == world.genesis
        await node.gossip(blocks[2], blocks[5], blocks[4])
        await node.until(lambda: unsafe(node) == 5)
        await node.until(lambda: not node.stage.unsafe.queue)
        assert engine.calls.count("engine_newPayloadV4") == 5
        assert not node.errors and counted(node.meter, "op_node_default_unsafe_payloads_total") == 7
        assert counted(node.meter, 'op_node_default_refs_number{layer="l2",type="received_payload"}') == 4

    run(scene, p2p=True)


def gap_scene(world: Any, refs: list[Any]) -> Callable[[EngineNode], Any]:
    blocks = payloads(world, refs)

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: unsafe(node) == 0)
        chain = node.stage.unsafe
        real = chain.queue.gap_end
        chain.queue.gap_end = lambda heads, now: real(heads, heads.unsafe.timestamp)  # type: ignore[method-assign]
        await node.gossip(blocks[6], blocks[5])

        def asked() -> list[UnsafeBlocksRequest]:
            return [each for each in node.wanted if each.gap_end is not None]

        began = time.monotonic()
        await node.until(lambda: len(asked()) >= 2)
        assert time.monotonic() - began > 1.5
        assert set(asked()) == {UnsafeBlocksRequest(0, GapEnd(5, refs[5].hash, refs[4].hash))}
        await node.gossip(blocks[4], blocks[3], blocks[2], blocks[1])
        await node.until(lambda: unsafe(node) == 6)
        count = len(asked())
        await asyncio.sleep(0.5)
        assert len(asked()) == count

    return scene


def test_a_gap_is_filled_by_peers(make_world: Any, play: Any, tmp_path: Path) -> None:
    world = make_world(block_time=1, l1_step=6)
    engine = make_world.engine(world)
    refs = world.chain(6)
    engine.head = world.genesis.hash

    async def whole() -> None:
        async with engine.serving(), EngineNode(world, engine, tmp_path, p2p=True).running() as node:
            await gap_scene(world, refs)(node)

    play(whole())


def test_no_gap_is_filled_when_that_is_switched_off(world: Any, engine: Any, run: Any) -> None:
    refs = follow(world, engine, 2)
    last = payloads(world, [*refs, *world.chain(4)[3:]])[-1]

    async def scene(node: EngineNode) -> None:
        chain = node.stage.unsafe
        await node.until(lambda: unsafe(node) == 2)
        chain.queue.gap_end = lambda heads, now: last  # type: ignore[method-assign]
        await node.until(lambda: len(node.wanted) > 1, chain.periodic_tasks[1].wake.set)
        assert all(each.gap_end is None for each in node.wanted)

    run(scene, p2p=True, fill_gaps=False)


def test_a_block_that_the_engine_calls_invalid_leaves_the_queue(world: Any, engine: Any, run: Any) -> None:
    good = payloads(world, world.chain(2))
    bad = world.seal(world.genesis, world.attributes(world.genesis, 100, [world.user]))
    engine.head = world.genesis.hash
    engine.answers["engine_newPayloadV4"] = [{"status": "INVALID", "validationError": "bad state"}]

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: unsafe(node) == 0)
        await node.gossip(bad)
        await node.until(lambda: "engine_newPayloadV4" in engine.calls)
        await node.gossip(*good[1:])
        await node.until(lambda: unsafe(node) == 2)
        assert not node.errors

    run(scene, p2p=True)


def test_a_block_that_is_of_no_rollup_leaves_the_queue(world: Any, engine: Any, run: Any) -> None:
    good = payloads(world, world.chain(1))[1]
    bad = msgspec.structs.replace(good, transactions=good.transactions[1:], block_hash=b"\x09" * 32)
    engine.head = world.genesis.hash

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: unsafe(node) == 0)
        await node.gossip(bad, good)
        await node.until(lambda: unsafe(node) == 1)
        assert engine.calls.count("engine_newPayloadV4") == 1 and not node.errors

    run(scene, p2p=True)


@pytest.mark.parametrize("status", ["SYNCING", "ACCEPTED"])
def test_an_engine_that_is_busy_gets_the_block_again(status: str, world: Any, engine: Any, run: Any) -> None:
    blocks = payloads(world, world.chain(1))
    engine.head = world.genesis.hash
    engine.answers["engine_newPayloadV4"] = [{"status": status}, engine.failure(-32000, "out of order")]

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: unsafe(node) == 0)
        await node.gossip(blocks[1])
        await node.until(lambda: unsafe(node) == 1)
        assert status in str(node.errors[0]) and "out of order" in str(node.errors[1])

    run(scene, p2p=True)


def test_a_posted_block_is_treated_like_one_of_gossip(world: Any, engine: Any, run: Any) -> None:
    blocks = payloads(world, world.chain(2))
    engine.head = world.genesis.hash

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: unsafe(node) == 0)
        for number in (2, 1):
            assert await node.ask(PostUnsafePayloadRequest(number, blocks[number])) == ControlResponse(
                number, None, None
            )
        await node.until(lambda: unsafe(node) == 2)

    run(scene)


def test_derivation_consolidates_what_gossip_brought(world: Any, engine: Any, run: Any) -> None:
    refs = world.chain(3, users=[world.user])
    blocks = payloads(world, refs)
    engine.head = world.genesis.hash

    async def scene(node: EngineNode) -> None:
        start = await node.start()
        await node.gossip(*blocks[1:])
        await node.until(lambda: unsafe(node) == 3)
        applied = await node.derive(start, 1, refs[0], world.attributes(refs[0], 100, [world.user]), 101)
        assert applied.outcome is AttributesOutcome.ACCEPTED and applied.safe_head == refs[1]
        await node.until(lambda: engine.safe == refs[1].hash)
        assert unsafe(node) == 3 and engine.head == refs[3].hash

    run(scene, p2p=True)


def test_a_sequencer_hands_over_what_it_seals(make_world: Any, play: Any, tmp_path: Path) -> None:
    world = make_world(block_time=1, l1_step=1)
    engine = make_world.engine(world)
    engine.head = world.genesis.hash

    async def whole() -> None:
        options = {"sequencer_enabled": True, "sequencer_l1_confs": 0, "p2p": True}
        async with engine.serving(), EngineNode(world, engine, tmp_path, **options).running() as node:
            await node.until(lambda: unsafe(node) >= 3)
            await node.until(lambda: len({each.payload.block_number for each in node.published}) >= 3)
            first = node.published[0]
            assert first.payload.block_number == 1 and first.payload == world.payloads[first.payload.block_hash]
            assert node.asking is not None
            before = counted(node.meter, "op_node_default_publishing_errors_total")
            node.peers.send(node.asking, PublishResponse(first.id, "node has no p2p signer"))
            await node.until(lambda: counted(node.meter, "op_node_default_publishing_errors_total") == before + 1)
            head = unsafe(node)
            await node.until(lambda: unsafe(node) > head)

    play(whole())


def test_blocks_are_read_for_peers(world: Any, engine: Any, run: Any) -> None:
    refs = follow(world, engine, 3)

    async def scene(node: EngineNode) -> None:
        assert node.payloads is not None
        await node.until(lambda: unsafe(node) == 3)
        for number in (2, 9):
            node.payloads.send(PayloadRequest(number, number))
        await node.until(lambda: len(node.read) == 2)
        assert node.read == [PayloadResponse(2, world.payloads[refs[2].hash], None), PayloadResponse(9, None, None)]
        engine.answers["eth_getBlockByNumber"] = [engine.failure(-32000, "database is down")]
        node.payloads.send(PayloadRequest(3, 1))
        await node.until(lambda: len(node.read) == 3)
        assert node.read[2].payload is None and "database is down" in str(node.read[2].error)

    run(scene, p2p=True)


class Clock:
    """A clock that a test moves, in the place of the module `time`."""

    now = 1000.0

    @classmethod
    def monotonic(cls) -> float:
        return cls.now


def test_a_block_is_handed_over_again_until_it_is_out(
    world: Any, tmp_path: Path, play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollup_node.stages.engine.process.p2p_client.time", Clock)
    block = payloads(world, world.chain(1))[1]
    heard: list[Any] = []
    meter = Meter("engine")

    def errors() -> float:
        return counted(meter, "op_node_default_publishing_errors_total")

    async def scene() -> None:
        buses = in_process_buses(CHANNELS, tmp_path, {"engine": 1, "p2p": 1})
        server = buses["p2p"].serve("p2p.blocks", lambda peer, message: heard.append((peer, message)))
        client = PeersClient(buses["engine"], meter, print)

        async def until(count: int) -> None:
            async with asyncio.timeout(10):
                while len(heard) < count:
                    await asyncio.sleep(0.01)

        async with running_buses(buses):
            client.publish(block)
            await until(1)
            client.repeat(0)
            await until(2)
            assert heard[1][1] == UnsafeBlocksRequest(0, None)
            Clock.now += 1.1
            client.repeat(7)
            await until(4)
            assert [heard[2][1], heard[3][1]] == [UnsafeBlocksRequest(7, None), heard[0][1]]
            server.send(heard[0][0], PublishResponse(1, None))
            server.send(heard[0][0], PublishResponse(99, "nobody asked for that"))
            await asyncio.sleep(0.1)
            Clock.now += 1.1
            client.repeat(7)
            await until(5)
            await asyncio.sleep(0.05)
            assert len(heard) == 5
            for _ in range(MOST_PUBLISHING + 1):
                client.publish(block)
            assert errors() == 1
            Clock.now += LONGEST_PUBLISHING + 1
            client.repeat(7)
            assert errors() == 1 + MOST_PUBLISHING

    play(scene())
