"""Measures the engine process at the wire of an execution engine that takes no time.

How long a gossiped payload of 200 transactions needs to engine_newPayload, what sequencing adds to each block, and
whether a slot is missed while L1 answers slowly."""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import msgspec

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.process.stage import EngineStage
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.engine import EngineStatus, StartRequest
from rollup_node.stages.messages.l1 import (
    L1BlockResponse,
    L1BlocksRequest,
    L1BlockUnavailable,
    L1Heads,
    L1RefsRequest,
    L1RefsResponse,
)
from rollup_node.stages.messages.p2p import PublishRequest, PublishResponse, UnsafeBlock
from rollup_node.stages.protocol.attributes import prepare_attributes, with_transactions
from rollup_node.stages.protocol.block_refs import l2_ref_of_payload
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.l1_chains import BlobFork, L1Chain
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, L1Block, L1Header, L2BlockRef
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from rollup_node.tools.bench import synthetic_chain
from rollup_node.tools.bench.measure import Figure, show
from rollup_node.tools.bench.signed_blocks import SECRET, genesis_payload, pool, sealed
from rollup_node.tools.bench.synthetic_chain import L1_GENESIS, l1_hash
from rollup_node.tools.bench.timed_engine import EngineProcess, TimedCall

TRANSACTIONS = 200
PAUSE = 0.05
"""Seconds between two gossiped payloads."""
BEFORE_START = 3.0
START_SECONDS = 30.0
PAYLOAD_P50, PAYLOAD_P99, OVERHEAD_P99 = 2.0, 8.0, 10.0
L1_CHAIN = L1Chain(1, "bench", (BlobFork("cancun", 0, 3_338_477),))
BLOCKS_PER_ORIGIN = 6


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--payloads", type=int, default=300, help="gossiped payloads of a run")
    parser.add_argument("--runs", type=int, default=3, help="of gossiped payloads")
    parser.add_argument("--blocks", type=int, default=300, help="sequenced blocks")
    parser.add_argument("--warm-up", type=int, default=10, help="payloads and blocks of a run that are not counted")
    parser.add_argument("--block-time", type=int, default=2)
    parser.add_argument("--l1-latency", type=float, default=0.2, help="seconds that each answer of L1 takes")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    runs = [asyncio.run(payload_milliseconds(args.payloads, args.warm_up)) for _ in range(args.runs)]
    overheads, missed = asyncio.run(sequence(args.blocks, args.warm_up, args.block_time, args.l1_latency))
    return show(
        "engine process, at the wire",
        [
            Figure("payload from message to newPayload, p50", "ms", tuple(share(run, 50) for run in runs), PAYLOAD_P50),
            Figure("payload from message to newPayload, p99", "ms", tuple(share(run, 99) for run in runs), PAYLOAD_P99),
            Figure(f"sequencing overhead of {args.blocks} blocks, p50", "ms", (share(overheads, 50),)),
            Figure(f"sequencing overhead of {args.blocks} blocks, p99", "ms", (share(overheads, 99),), OVERHEAD_P99),
            Figure(f"slots missed with L1 answers after {1000 * args.l1_latency:g} ms", "", (float(missed),), 0.0),
        ],
    )


def share(values: Sequence[float], percent: int) -> float:
    """Return the value that `percent` of all do not exceed."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]


async def payload_milliseconds(payloads: int, warm_up: int) -> list[float]:
    """Milliseconds from an UnsafeBlock at the bus to its engine_newPayload at the engine, for each payload."""
    world = World(block_time=2, genesis_time=int(time.time()) - 2 * (payloads + warm_up))
    chain = world.chain(payloads + warm_up)
    departures: dict[int, float] = {}
    with EngineProcess(world.config, world.genesis, 0) as engine:
        async with world.running(engine.url):
            for payload in chain:
                await asyncio.sleep(PAUSE)
                departures[payload.block_number] = time.monotonic()
                world.gossip(payload)
            await world.until(lambda: world.unsafe >= len(chain))
        calls = [call for call in engine.calls() if call.method == "engine_newPayload"]
    return [1000 * (call.arrived - departures[call.number]) for call in calls if call.number > warm_up]


async def sequence(blocks: int, warm_up: int, block_time: int, l1_latency: float) -> tuple[list[float], int]:
    """For each sequenced block, the milliseconds that this node added.

    Between the engine's answers and its own next requests, up to the next build, which begins at the block's time at
    the earliest. And how many blocks were not the engine's head by the end of their slot, which is when the next
    block's time comes."""
    world = World(block_time=block_time, genesis_time=int(time.time() + BEFORE_START), l1_latency=l1_latency)
    with EngineProcess(world.config, world.genesis, TRANSACTIONS) as engine:
        began = time.time() - time.monotonic()
        async with world.running(engine.url, sequencer_enabled=True, sequencer_l1_confs=0):
            await world.until(lambda: world.unsafe > blocks, BEFORE_START + START_SECONDS + 2 * blocks * block_time)
        calls = engine.calls()
    by_number: dict[int, list[TimedCall]] = {}
    for call in calls:
        by_number.setdefault(call.number, []).append(call)
    overheads, missed = [], 0
    for number in range(1, blocks + 1):
        due = world.genesis.timestamp + (number + 1) * block_time
        steps = _steps(by_number.get(number, []))
        if steps is None or began + steps[-1].answered > due:
            missed += 1
        following = _steps(by_number.get(number + 1, []))
        if steps is not None and following is not None and number > warm_up:
            _, fetched, inserted, head = steps
            own_time = world.genesis.timestamp + number * block_time - began
            waits = (
                inserted.arrived - fetched.answered,
                head.arrived - inserted.answered,
                following[0].arrived - max(head.answered, own_time),
            )
            overheads.append(1000 * sum(waits))
    return overheads, missed


def _steps(calls: list[TimedCall]) -> list[TimedCall] | None:
    """Return the calls that build a block, fetch it, insert it and make it the head; None without one of them."""
    wanted = (
        ("engine_forkchoiceUpdated", True),
        ("engine_getPayload", False),
        ("engine_newPayload", False),
        ("engine_forkchoiceUpdated", False),
    )
    result = [next((call for call in calls if (call.method, call.builds) == kind), None) for kind in wanted]
    steps = [item for item in result if item is not None]
    return steps if len(steps) == len(wanted) else None


class World:
    """The neighbours of an engine process.

    L1 with a block every few L2 blocks, peers, and a derivation that has nothing to derive. `unsafe` is the number of
    the unsafe head that was published last."""

    def __init__(self, block_time: int, genesis_time: int, l1_latency: float = 0.0) -> None:
        self.genesis = genesis_payload(genesis_time)
        config = synthetic_chain.config()
        genesis = msgspec.structs.replace(config.genesis, l2=BlockId(0, self.genesis.block_hash), l2_time=genesis_time)
        self.config: RollupConfig = msgspec.structs.replace(config, genesis=genesis, block_time=block_time)
        self.unsafe = -1
        self._latency, self._l1_step = l1_latency, BLOCKS_PER_ORIGIN * block_time
        self._engine: ProcessId | None = None

    # --- chains ----------------------------------------------------------------------------------------------------

    def _l1(self, number: int) -> L1Block:
        timestamp = self.genesis.timestamp + self._l1_step * (number - L1_GENESIS)
        header = L1Header(l1_hash(number), number, l1_hash(number - 1), timestamp, bytes(32), 7, 0, bytes(32))
        return L1Block(header, (), (), ())

    def _l1_head(self) -> int:
        return L1_GENESIS + max(0, int(time.time() - self._latency) - self.genesis.timestamp) // self._l1_step

    def chain(self, length: int) -> list[ExecutionPayload]:
        """Return the blocks above genesis, of TRANSACTIONS transactions each."""
        users = pool(TRANSACTIONS - 1)
        system = self.config.genesis.system_config
        parent = L2BlockRef(self.genesis.block_hash, 0, bytes(32), self.genesis.timestamp, self.config.genesis.l1, 0)
        payloads: list[ExecutionPayload] = []
        for number in range(1, length + 1):
            epoch = self._l1(L1_GENESIS + number // BLOCKS_PER_ORIGIN).header
            prepared = prepare_attributes(self.config, L1_CHAIN, parent, system, epoch, (), ())
            attributes = with_transactions(prepared.attributes, users)
            payloads.append(sealed(self.config, parent.id, attributes, ()))
            parent = l2_ref_of_payload(self.config, payloads[-1])
        return payloads

    # --- neighbours ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self, url: str, **options: Any) -> AsyncIterator[None]:
        """Run the engine stage on an execution engine, and its neighbours."""
        config = EngineConfig(
            url, SECRET, 5.0, "geth", self.config, L1_CHAIN, p2p=True, sequencer_state_file="", **options
        )
        with tempfile.TemporaryDirectory() as directory:
            roles = dict.fromkeys(("l1", "derivation", "engine", "p2p", "rpc"), 1)
            buses = in_process_buses(CHANNELS, Path(directory), roles)
            self._connect(buses)
            stage = EngineStage(config, buses["engine"], Meter("engine"))
            async with running_buses(buses), asyncio.TaskGroup() as group:
                await stage.start()
                tasks = [group.create_task(_repeat(periodic_task)) for periodic_task in stage.periodic_tasks]
                tasks.append(group.create_task(self._show_l1_heads()))
                try:
                    await self.until(lambda: self.unsafe >= 0, repeat=lambda: self._blocks.send(StartRequest(0, None)))
                    yield
                finally:
                    for task in tasks:
                        task.cancel()
                    await stage.close()

    def _connect(self, buses: dict[str, Bus]) -> None:
        self._l1_status = buses["l1"].publish("status.l1")
        self._origins = buses["l1"].serve("l1.origins", self._on_l1_request)
        self._blocks = buses["derivation"].connect("engine.blocks", lambda _: None)
        self._peers = buses["p2p"].serve("p2p.blocks", self._on_peer_request)
        buses["rpc"].subscribe("status.engine", self._on_status)

    def _on_status(self, message: Any) -> None:
        if isinstance(message, EngineStatus) and message.unsafe is not None:
            self.unsafe = message.unsafe.number

    def _on_peer_request(self, engine: ProcessId, request: Any) -> None:
        self._engine = engine
        if isinstance(request, PublishRequest):
            self._peers.send(engine, PublishResponse(request.id, None))

    def gossip(self, payload: ExecutionPayload) -> None:
        """Take a block of a peer."""
        if self._engine is not None:
            self._peers.send(self._engine, UnsafeBlock(payload))

    async def _show_l1_heads(self) -> None:
        while True:
            self._l1_status.set(L1Heads(self._l1(self._l1_head()).ref, None, None))
            await asyncio.sleep(self._l1_step / 4)

    def _on_l1_request(self, engine: ProcessId, request: L1BlocksRequest | L1RefsRequest) -> None:
        asyncio.get_running_loop().call_later(self._latency, self._answer_l1, engine, request)

    def _answer_l1(self, engine: ProcessId, request: L1BlocksRequest | L1RefsRequest) -> None:
        head = self._l1_head()
        if isinstance(request, L1RefsRequest):
            first = max(L1_GENESIS, request.last - request.count + 1)
            refs = tuple(self._l1(number).ref for number in range(first, request.last + 1))
            self._origins.send(engine, L1RefsResponse(request.last, refs if request.last <= head else (), None))
            return
        for number in range(request.first, request.first + request.count):
            if number > head:
                self._origins.send(engine, L1BlockUnavailable(number, head, None))
                return
            self._origins.send(engine, L1BlockResponse(self._l1(number)))

    async def until(self, condition: Any, seconds: float = START_SECONDS, repeat: Any = None) -> None:
        """Wait for a condition, repeating a need. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not condition():
                if repeat is not None:
                    repeat()
                await asyncio.sleep(0.1)


async def _repeat(task: PeriodicTask) -> None:
    while True:
        task.wake.clear()
        pause = await task.step()
        try:
            async with asyncio.timeout(max(pause, 0.0)):
                await task.wake.wait()
        except TimeoutError:
            pass


if __name__ == "__main__":
    sys.exit(main())
