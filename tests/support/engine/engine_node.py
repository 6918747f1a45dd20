"""The engine stage with everything around it: buses of the node, an L1, derivation, peers and rpc."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.ipc.bus.status import Client
from rollup_node.stages.engine.calls.actions import RpcResponse
from rollup_node.stages.engine.calls.calls import Instant
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core.engine_core import AdminRequest, RpcRequest
from rollup_node.stages.engine.core.rows import TaskBackoff
from rollup_node.stages.engine.process.stage import EngineStage, present
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import Endpoints, Health, Problem, QueueLength
from rollup_node.stages.messages.control import (
    ControlResponse,
    OutputRequest,
    OutputResponse,
    SafeHeadRequest,
    SafeHeadResponse,
)
from rollup_node.stages.messages.engine import (
    AttributesReady,
    AttributesResult,
    EngineStatus,
    L2BlocksResponse,
    PipelineStart,
    StartRequest,
)
from rollup_node.stages.messages.interop import InteropEvents, InteropRequest, InteropResponse
from rollup_node.stages.messages.l1 import (
    L1BlockResponse,
    L1BlocksRequest,
    L1BlockUnavailable,
    L1Heads,
    L1RefsRequest,
    L1RefsResponse,
)
from rollup_node.stages.messages.p2p import (
    LatestBlocksRequest,
    LatestBlocksResponse,
    PayloadResponse,
    PublishRequest,
    PublishResponse,
    UnsafeBlock,
    UnsafeBlocksRequest,
)
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.support.chains.chain_fixture import GENESIS_TIME, ChainFixture
from tests.support.engine.fake_engine import SECRET, FakeExecutionEngine
from tests.support.processes.stage_runner import driven

R = TypeVar("R", ControlResponse, OutputResponse, SafeHeadResponse)
FIRST_PAUSE = 0.05
"""Seconds of the first back-off: no test waits for the real one."""


class EngineNode:
    """What its neighbours receive is kept by kind: `results`, `starts` and `overlap_blocks` by derivation, `responses`,
    `status` and `health` by rpc, `published`, `requested` and `peer_payloads` by p2p, whose latest blocks are those
    that were published. `l1_error` is what L1's endpoint answers; requests for L1 references down from `held_l1` are
    counted and not answered."""

    def __init__(
        self,
        chain: ChainFixture,
        engine: FakeExecutionEngine,
        directory: Path,
        incarnation: int = 1,
        clock: Callable[[], Instant] = present,
        **config: Any,
    ) -> None:
        self.chain, self.engine = chain, engine
        self.l1_head = 105
        self.l1_error: Problem | None = None
        self.held_l1: int | None = None
        self.held_requests = 0
        self.results: list[AttributesResult] = []
        self.starts: list[PipelineStart] = []
        self.overlap_blocks: list[L2BlocksResponse] = []
        self.responses: list[RpcResponse] = []
        self.status: EngineStatus | None = None
        self.health: tuple[str, ...] = ()
        self.published: list[PublishRequest] = []
        self.publish_error: str | None = None
        self.requested: list[UnsafeBlocksRequest] = []
        self.peer_payloads: list[PayloadResponse] = []
        self.engine_process: ProcessId | None = None
        self._calls = 0
        roles = dict.fromkeys(("l1", "blobs", "derivation", "engine", "p2p", "interop", "rpc"), 1)
        self.buses = in_process_buses(CHANNELS, directory, roles, incarnation=incarnation)
        settings = {"engine_kind": "geth", "rollup": chain.rollup, "l1_chain": chain.l1_chain, **config}
        self.interop_messages: list[InteropEvents | InteropResponse] = []
        self.config = EngineConfig(url=engine.url, jwt_secret=SECRET, timeout=2.0, **settings)
        self.meter = Meter("engine")
        self.stage = EngineStage(self.config, self.buses["engine"], self.meter, TaskBackoff(first=FIRST_PAUSE), clock)
        self.heads = self.buses["l1"].publish("status.l1")
        self.verdicts = self.buses["interop"].publish("status.interop")
        self.origins = self.buses["l1"].serve("l1.origins", self._serve_l1)
        self.blocks = self.buses["derivation"].connect("engine.blocks", self._take_from_engine)
        self.buses["rpc"].subscribe("status.engine", self._take_status)
        self.peers = self.buses["p2p"].serve("p2p.blocks", self._take_for_peers)
        self.payloads = (
            self.buses["p2p"].connect("engine.payloads", self.peer_payloads.append) if self.config.p2p else None
        )

    # --- the neighbours --------------------------------------------------------------------------------------------

    @cached_property
    def control(self) -> Client:
        """The connection of the rpc process; where an rpc stage runs it has that itself."""
        return self.buses["rpc"].connect("engine.control", self.responses.append)

    @cached_property
    def interop(self) -> Client:
        """The same for the calls of a supervisor."""
        return self.buses["rpc"].connect("engine.interop", self.interop_messages.append)

    def _serve_l1(self, peer: ProcessId, request: L1BlocksRequest | L1RefsRequest) -> None:
        if isinstance(request, L1RefsRequest) and request.last == self.held_l1:
            self.held_requests += 1
            return
        if isinstance(request, L1RefsRequest):
            there = request.last <= self.l1_head and self.l1_error is None
            first = max(0, request.last - request.count + 1)
            refs = tuple(self.chain.l1_ref(number) for number in range(first, request.last + 1)) if there else ()
            self.origins.send(peer, L1RefsResponse(request.last, refs, self.l1_error))
            return
        for number in range(request.first, request.first + request.count):
            if self.l1_error is not None or number > self.l1_head:
                self.origins.send(peer, L1BlockUnavailable(number, self.l1_head, self.l1_error))
                return
            self.origins.send(peer, L1BlockResponse(self.chain.l1(number)))

    def _take_from_engine(self, message: AttributesResult | PipelineStart | L2BlocksResponse) -> None:
        match message:
            case AttributesResult():
                self.results.append(message)
            case PipelineStart():
                self.starts.append(message)
            case L2BlocksResponse():
                self.overlap_blocks.append(message)

    def _take_status(self, message: EngineStatus | Endpoints | QueueLength | Health) -> None:
        if isinstance(message, EngineStatus):
            self.status = message
        elif isinstance(message, Health):
            self.health = tuple(map(str, message.problems))

    def _take_for_peers(
        self, peer: ProcessId, message: UnsafeBlocksRequest | LatestBlocksRequest | PublishRequest
    ) -> None:
        self.engine_process = peer
        if isinstance(message, UnsafeBlocksRequest):
            self.requested.append(message)
        elif isinstance(message, LatestBlocksRequest):
            self.peers.send(peer, LatestBlocksResponse(message.head, self.latest_above(message.head)))
        else:
            self.published.append(message)
            self.peers.send(peer, PublishResponse(message.id, self.publish_error))

    def latest_above(self, head: BlockId) -> tuple[ExecutionPayload, ...]:
        """Return the blocks that were published on this head."""
        result: list[ExecutionPayload] = []
        at = head.hash
        for payload in (request.payload for request in self.published):
            if payload.parent_hash == at:
                result.append(payload)
                at = payload.block_hash
        return tuple(result)

    def move_l1(self, head: int, finalized: int | None = None) -> None:
        """L1 has other heads."""
        self.l1_head = head
        final = None if finalized is None else self.chain.l1_ref(finalized)
        self.heads.set(L1Heads(self.chain.l1_ref(head), None, final))

    async def gossip(self, *payloads: ExecutionPayload) -> None:
        """Blocks arrive from peers, once the engine process has requested any."""
        await self.until(lambda: self.engine_process is not None)
        assert self.engine_process is not None
        for payload in payloads:
            assert self.peers.send(self.engine_process, UnsafeBlock(payload))

    # --- the stage -------------------------------------------------------------------------------------------------

    @property
    def failures(self) -> list[str]:
        """The failures and resets of the core so far, oldest first."""
        lines = (line.split(" ", 1)[1] for line in self.stage.core.log.lines())
        return [line for line in lines if line.startswith(("failed ", "reset "))]

    @property
    def unsafe(self) -> int:
        """The number of the unsafe head; -1 while there is none."""
        return -1 if self.status is None or self.status.unsafe is None else self.status.unsafe.number

    def has_problem(self, text: str) -> bool:
        """Whether a published problem has this text."""
        return any(text in problem for problem in self.health)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run the stage and its neighbours."""
        self.move_l1(self.l1_head)
        async with running_buses(self.buses), driven(self.stage, self.meter, "engine"):
            yield self

    async def supervise(self, method: str, **params: Any) -> InteropResponse:
        """Return the response to a call of the supervisor."""
        self._calls += 1
        request, client = InteropRequest(self._calls, method, **params), self.interop

        def responses() -> list[InteropResponse]:
            messages = (item for item in self.interop_messages if isinstance(item, InteropResponse))
            return [message for message in messages if message.id == request.id]

        await self.until(lambda: bool(responses()), lambda: client.send(request))
        return responses()[0]

    # --- what a test waits for -------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], bool], repeat: Callable[[], object] = lambda: None) -> None:
        """Wait for a condition, repeating a need as its owner would."""
        async with asyncio.timeout(10):
            while not condition():
                repeat()
                for _ in range(20):
                    if condition():
                        return
                    await asyncio.sleep(0.01)

    async def start(self, reset: int = 0, reason: str | None = None) -> PipelineStart:
        """Return the next start that derivation gets for its request."""
        count = len(self.starts)
        await self.until(lambda: len(self.starts) > count, lambda: self.blocks.send(StartRequest(reset, reason)))
        return self.starts[-1]

    async def derive(
        self, start: PipelineStart, sequence: int, parent: L2BlockRef, attributes: PayloadAttributes, origin: int
    ) -> AttributesResult:
        """Return what becomes of attributes derived from the L1 block `origin`."""
        message = AttributesReady(start.reset, sequence, parent, attributes, self.chain.l1_ref(origin), True)

        def results() -> list[AttributesResult]:
            return [result for result in self.results if (result.reset, result.sequence) == (start.reset, sequence)]

        await self.until(lambda: bool(results()), lambda: self.blocks.send(message))
        return results()[0]

    async def admin(self, message: AdminRequest) -> ControlResponse:
        """Return the response to an admin call."""
        return await self._response(message, ControlResponse)

    async def output(self, message: OutputRequest) -> OutputResponse:
        """Return the response to optimism_outputAtBlock."""
        return await self._response(message, OutputResponse)

    async def safe_head(self, message: SafeHeadRequest) -> SafeHeadResponse:
        """Return the response to optimism_safeHeadAtL1Block."""
        return await self._response(message, SafeHeadResponse)

    async def _response(self, message: RpcRequest, kind: type[R]) -> R:
        def responses() -> list[R]:
            return [item for item in self.responses if isinstance(item, kind) and item.id == message.id]

        await self.until(lambda: bool(responses()), lambda: self.control.send(message))
        return responses()[0]


def chain_clock() -> Callable[[], Instant]:
    """Return a clock that shows the time of genesis now. Monotonic time is real."""
    began = time.monotonic()
    return lambda: Instant(GENESIS_TIME + time.monotonic() - began, time.monotonic())


def follow(chain: ChainFixture, engine: FakeExecutionEngine, length: int) -> list[L2BlockRef]:
    """Build a chain in the engine; returns genesis and its blocks."""
    refs = chain.build(length)
    engine.head, engine.safe, engine.finalized = refs[length].hash, refs[0].hash, refs[0].hash
    return refs
