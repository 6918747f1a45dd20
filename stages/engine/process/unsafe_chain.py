"""The part of the engine process that follows the unsafe chain: blocks of gossip, of peers and of operators wait in the
queue and are inserted one after the other; gaps are asked for; our own blocks are handed over to be published."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.engine.api.engine_api import Answer, Call, InsertPayload, Verdict, judge_insert
from rollup_node.stages.engine.api.heads import Heads
from rollup_node.stages.engine.api.l2_block_info import UnreadableBlockError, known_block
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core.driver import Driver
from rollup_node.stages.engine.core.unsafe_queue import UnsafeQueue
from rollup_node.stages.engine.process.p2p_client import PeersClient
from rollup_node.stages.engine.process.payloads_server import PayloadsServer
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

log = get_logger("engine")

IDLE_SECONDS = 30.0
REPEAT_SECONDS = 1.0
GAP_BLOCK_TIMES = 2


class Engine(Protocol):
    """What is needed here of the stage that talks to the execution engine."""

    async def ask(self, call: Call) -> Answer:
        """Makes a call of the engine."""

    async def perform(self, call: Call) -> None:
        """Makes a call of the driver's and follows it up."""

    async def payload(self, number: int) -> ExecutionPayload | None:
        """The canonical block of a number."""


class UnsafeChain:
    """Heads are moved under `lock`; `is_settled` says whether those in force are known to the engine, so that blocks
    may be put upon them."""

    def __init__(
        self,
        config: EngineConfig,
        bus: Bus,
        meter: Meter,
        driver: Driver,
        engine: Engine,
        lock: asyncio.Lock,
        is_settled: Callable[[], bool],
    ) -> None:
        self._config, self._meter = config, meter
        self._driver, self._engine, self._lock = driver, engine, lock
        self._is_settled = is_settled
        self._gap_pause = GAP_BLOCK_TIMES * config.rollup.block_time
        self._gap_at = 0.0
        self._head: Hash | None = None
        self.queue = UnsafeQueue()
        self._insert = PeriodicTask("unsafe blocks", self._step)
        self.periodic_tasks = [self._insert]
        self._peers: PeersClient | None = None
        if config.p2p:
            self._peers = PeersClient(bus, meter, self.add)
            serve = PeriodicTask("blocks for peers", self._serve)
            self._payloads = PayloadsServer(bus, engine.payload, serve.wake.set)
            self.periodic_tasks += [PeriodicTask("blocks from peers", self._follow), serve]

    def add(self, payload: ExecutionPayload) -> None:
        """Takes a block from gossip, a peer or an operator."""
        self._meter.count("unsafe_payloads")
        show_block(self._meter, "received_payload", payload)
        if self.queue.add(payload):
            log.debug("unsafe block", number=payload.block_number, hash=payload.block_hash, queued=len(self.queue))
            self._insert.wake.set()
        self._show_queue()

    def publish(self, payload: ExecutionPayload) -> None:
        """Hands over a block that this node has sealed; without peers there is nothing to do."""
        if self._peers is not None:
            self._peers.publish(payload)

    def heads_moved(self) -> None:
        """The driver's heads may be others: what follows the tip may fit, and a gap gets time to close by itself."""
        heads = self._driver.heads
        head = None if heads is None else heads.unsafe.hash
        if head is None or head != self._head:
            self._head = head
            self._gap_at = time.monotonic() + self._gap_pause
        if len(self.queue):
            self._insert.wake.set()

    # --- insertion -------------------------------------------------------------------------------------------------

    async def _step(self) -> float:
        """Inserts the block that follows the tip, if there is one; then perhaps the next does."""
        async with self._lock:
            heads = self._settled_heads()
            payload = None if heads is None else self.queue.next(heads)
            self._show_queue()
            if payload is not None:
                await self._put(payload)
                return 0.0
        return IDLE_SECONDS if heads is not None or not len(self.queue) else REPEAT_SECONDS

    def _settled_heads(self) -> Heads | None:
        driver = self._driver
        usable = self._is_settled() and not driver.building and not driver.restoring
        return driver.heads if usable else None

    async def _put(self, payload: ExecutionPayload) -> None:
        """New payload and forkchoice (node-behaviour 11.4); a block that is no good leaves the queue."""
        try:
            block = known_block(payload, self._config.rollup)
        except UnreadableBlockError as error:
            self._refuse(payload, str(error))
            return
        judged = judge_insert(await self._engine.ask(InsertPayload(payload)))
        if judged.verdict is Verdict.INVALID:
            self._refuse(payload, judged.text)
            return
        if judged.verdict is not Verdict.DONE:
            raise TemporaryError(f"unsafe block {payload.block_number}: {judged.text}")
        self._driver.advance(block.ref)
        log.trace("unsafe head", block=block.ref, origin=block.ref.l1_origin, queued=len(self.queue) - 1)
        if (call := self._driver.settle()) is not None:
            await self._engine.perform(call)

    def _refuse(self, payload: ExecutionPayload, reason: str) -> None:
        log.warn("an unsafe block is dropped", number=payload.block_number, hash=payload.block_hash, reason=reason)
        self.queue.refuse(payload)

    # --- peers -----------------------------------------------------------------------------------------------------

    async def _follow(self) -> float:
        """Repeats what is wanted of the p2p process; every two block times without progress it is to fill the gap."""
        heads = self._driver.heads
        if self._peers is None:
            return IDLE_SECONDS
        number = 0 if heads is None else heads.unsafe.number
        if heads is not None and self._config.fill_gaps and time.monotonic() >= self._gap_at:
            self._gap_at = time.monotonic() + self._gap_pause
            gap_end = self.queue.gap_end(heads, time.time())
            if gap_end is not None:
                log.debug("asking peers for missing blocks", head=heads.unsafe, below=gap_end.block_number)
                self._peers.want(number, gap_end)
        self._peers.repeat(number)
        return REPEAT_SECONDS

    async def _serve(self) -> float:
        await self._payloads.step()
        return IDLE_SECONDS

    def _show_queue(self) -> None:
        self._meter.set("unsafe_payloads_buffer_len", len(self.queue))
        self._meter.set("unsafe_payloads_buffer_mem_size", self.queue.bytes)
        if (lowest := self.queue.lowest) is not None:
            show_block(self._meter, "l2_buffer_unsafe", lowest)


def show_block(meter: Meter, name: str, payload: ExecutionPayload) -> None:
    """The metrics of a block whose L1 origin is not told (node-behaviour 3.3)."""
    meter.set("refs_number", payload.block_number, layer="l2", type=name)
    meter.set("refs_hash", int.from_bytes(payload.block_hash[:8], "little"), layer="l2", type=name)
    meter.set("refs_time", payload.timestamp, layer="l2", type=name)
    meter.set("refs_latency", payload.timestamp - time.time(), layer="l2", type=name)
