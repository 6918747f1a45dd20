"""The engine stage with everything around it, for tests: buses of the node, a fake L1, derivation, peers and rpc."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.process.stage import EngineStage, build
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.engine import (
    AttributesReady,
    AttributesResult,
    EngineStatus,
    L2BlocksResponse,
    PipelineStart,
    StartRequest,
)
from rollup_node.stages.messages.l1 import (
    L1BlockResponse,
    L1BlocksRequest,
    L1BlockUnavailable,
    L1Heads,
    L1RefsRequest,
    L1RefsResponse,
)
from rollup_node.stages.messages.p2p import PayloadResponse, PublishRequest, UnsafeBlock, UnsafeBlocksRequest
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.topology import CHANNELS

SECRET = b"\x42" * 32


class EngineNode:
    """The engine stage with everything around it; `said` holds what each neighbour heard."""

    def __init__(self, world: Any, engine: Any, directory: Path, incarnation: int = 1, **config: Any) -> None:
        self.world, self.engine = world, engine
        self.l1_head = 105
        self.l1_away: str | None = None
        self.errors: list[Exception] = []
        self.applied: list[AttributesResult] = []
        self.starts: list[PipelineStart] = []
        self.found: list[L2BlocksResponse] = []
        self.done: list[Any] = []
        self.status: EngineStatus | None = None
        self.health: tuple[str, ...] = ()
        self.published: list[PublishRequest] = []
        self.wanted: list[UnsafeBlocksRequest] = []
        self.read: list[PayloadResponse] = []
        self.asking: ProcessId | None = None
        roles = {"l1": 1, "derivation": 1, "engine": 1, "p2p": 1, "rpc": 1}
        self.buses = in_process_buses(CHANNELS, directory, roles, incarnation=incarnation)
        settings = {"engine_kind": "geth", "rollup": world.rollup, "l1_chain": world.l1_chain, **config}
        self.config = EngineConfig(url=engine.url, jwt_secret=SECRET, timeout=2.0, **settings)
        self.meter = Meter("engine")
        self.stage: EngineStage = build(self.config, self.buses["engine"], self.meter)
        self.heads = self.buses["l1"].publish("status.l1")
        self.origins = self.buses["l1"].serve("l1.origins", self.serve_l1)
        self.blocks = self.buses["derivation"].connect("engine.blocks", self.hear_blocks)
        self.control = self.buses["rpc"].connect("engine.control", self.done.append)
        self.buses["rpc"].subscribe("status.engine", self.hear_status)
        self.peers = self.buses["p2p"].serve("p2p.blocks", self.hear_peers)
        self.payloads = self.buses["p2p"].connect("engine.payloads", self.read.append) if self.config.p2p else None

    def serve_l1(self, peer: Any, want: L1BlocksRequest | L1RefsRequest) -> None:
        if isinstance(want, L1RefsRequest):
            there = want.last <= self.l1_head and self.l1_away is None
            first = max(0, want.last - want.count + 1)
            refs = tuple(self.world.l1_ref(number) for number in range(first, want.last + 1)) if there else ()
            self.origins.send(peer, L1RefsResponse(want.last, refs, self.l1_away))
            return
        for number in range(want.first, want.first + want.count):
            if self.l1_away is not None or number > self.l1_head:
                self.origins.send(peer, L1BlockUnavailable(number, self.l1_head, self.l1_away))
                return
            self.origins.send(peer, L1BlockResponse(self.world.l1(number)))

    def hear_peers(self, peer: ProcessId, message: Any) -> None:
        self.asking = peer
        (self.wanted if isinstance(message, UnsafeBlocksRequest) else self.published).append(message)

    async def gossip(self, *payloads: Any) -> None:
        """Blocks that arrive from peers, once the engine has asked for any."""
        await self.until(lambda: self.asking is not None)
        assert self.asking is not None
        for payload in payloads:
            assert self.peers.send(self.asking, UnsafeBlock(payload))

    def hear_blocks(self, message: Any) -> None:
        {AttributesResult: self.applied, PipelineStart: self.starts, L2BlocksResponse: self.found}[
            type(message)
        ].append(message)  # type: ignore[index]

    def hear_status(self, message: Any) -> None:
        if isinstance(message, EngineStatus):
            self.status = message
        elif isinstance(message, Health):
            self.health = message.problems

    def tell_l1(self, head: int, finalized: int | None = None) -> None:
        self.l1_head = head
        final = None if finalized is None else self.world.l1_ref(finalized)
        self.heads.set(L1Heads(self.world.l1_ref(head), None, final))

    async def drive(self, activity: Any) -> None:
        """What the runtime does, with short pauses."""
        while True:
            activity.wake.clear()
            pause = 0.05
            try:
                pause = await activity.step()
            except TemporaryError as error:
                self.errors.append(error)
                self.stage.report((f"{activity.name}: {error}",))
            except ResetError as error:
                self.errors.append(error)
                self.stage.reset(error)
            try:
                async with asyncio.timeout(max(pause, 0.001)):
                    await activity.wake.wait()
            except TimeoutError:
                pass

    @asynccontextmanager
    async def running(self) -> AsyncIterator["EngineNode"]:
        self.tell_l1(self.l1_head)
        async with running_buses(self.buses), asyncio.TaskGroup() as group:
            await self.stage.start()
            tasks = [group.create_task(self.drive(activity)) for activity in self.stage.periodic_tasks]
            try:
                yield self
            finally:
                for task in tasks:
                    task.cancel()
                await self.stage.close()

    async def until(self, condition: Callable[[], bool], again: Callable[[], Any] = lambda: None) -> None:
        """Waits, repeating a need as its owner would."""
        async with asyncio.timeout(10):
            while not condition():
                again()
                for _ in range(20):
                    if condition():
                        return
                    await asyncio.sleep(0.01)

    async def start(self, reset: int = 0, reason: str | None = None) -> PipelineStart:
        count = len(self.starts)
        await self.until(lambda: len(self.starts) > count, lambda: self.blocks.send(StartRequest(reset, reason)))
        return self.starts[-1]

    async def derive(
        self, start: PipelineStart, sequence: int, parent: Any, attributes: Any, origin: int
    ) -> AttributesResult:
        message = AttributesReady(start.reset, sequence, parent, attributes, self.world.l1_ref(origin), True)

        def answers() -> list[AttributesResult]:
            return [each for each in self.applied if (each.reset, each.sequence) == (start.reset, sequence)]

        await self.until(lambda: bool(answers()), lambda: self.blocks.send(message))
        return answers()[0]

    async def ask(self, message: Any) -> Any:
        def answers() -> list[Any]:
            return [each for each in self.done if each.id == message.id]

        await self.until(lambda: bool(answers()), lambda: self.control.send(message))
        return answers()[0]


def follow(world: Any, engine: Any, length: int, safe: int = 0, finalized: int = 0) -> list[Any]:
    """An engine that already has a chain."""
    refs = world.chain(length)
    engine.head, engine.safe, engine.finalized = refs[length].hash, refs[safe].hash, refs[finalized].hash
    return refs  # type: ignore[no-any-return]
