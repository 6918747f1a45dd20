"""The l1 process: polls the heads, and fetches, verifies and hands out the blocks that derivation and engine want.

Blocks are verified by compute workers; a failed block never holds up another one."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rollup_node.ipc.bus.bus import Bus, ProcessId, Server
from rollup_node.ipc.bus.task_dispatcher import TaskFailed
from rollup_node.stages.io.jsonrpc import EndpointError, RpcFailure
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.l1.block_subscription import Demand
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.filter import filter_of
from rollup_node.stages.l1.heads import HeadChange, Heads
from rollup_node.stages.l1.methods import is_unusable
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints
from rollup_node.stages.l1.process.refs_client import RefsReader
from rollup_node.stages.l1.process.runtime_config_client import RuntimeConfigReader
from rollup_node.stages.l1.tasks import Invalid, NeedsReceipts, Verified, VerifyBlock, VerifyReceipts
from rollup_node.stages.l1.verify import InvalidDataError, block_ref
from rollup_node.stages.l1.window import Fetch, Window
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1Heads, L1RefsRequest
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L1Block, L1BlockRef

log = get_logger("l1")

IDLE_SECONDS = 5.0
SEND_AGAIN_SECONDS = 0.1
STUCK_SECONDS = 300.0
_Troubles = (EndpointError, RpcFailure, InvalidDataError, TaskFailed)


@dataclass
class _Client:
    """A process that asks for blocks, and by which channel."""

    peer: ProcessId
    server: Server
    demand: Demand


class _Outcome(NamedTuple):
    """What a fetch came to: a block, or a problem, or neither when there is no such block."""

    fetch: Fetch
    block: L1Block | None
    problem: str | None


class L1Stage:
    """State: the heads, the window of blocks, a demand per client, and the fetches under way."""

    def __init__(self, config: L1Config, bus: Bus, meter: Meter) -> None:
        self._config, self._meter = config, meter
        self._endpoints = L1Endpoints(config, meter)
        self._heads = Heads()
        size = config.cache_size or config.rollup.seq_window_size * 3 // 2
        self._window = Window(size, config.cache_bytes)
        self._rules = filter_of(config.rollup)
        self._clients: dict[tuple[str, int], _Client] = {}
        self._fetches: set[asyncio.Task[_Outcome]] = set()
        self._outcomes: list[_Outcome] = []
        self._runtime_problems: tuple[str, ...] = ()
        self._contradiction: str | None = None
        self._block_problems: tuple[str, ...] = ()
        self._changed_at, self._is_stuck = time.monotonic(), False
        self._polling = config.poll_interval > 0
        self._blocks = PeriodicTask("blocks", self._step_blocks)
        self.periodic_tasks = [self._blocks]
        if self._polling:
            self.periodic_tasks.append(PeriodicTask("head", self._step_head))
        if config.epoch_poll_interval > 0:
            self.periodic_tasks.append(PeriodicTask("finality", self._step_finality))
        self._pool = bus.dispatch("work.l1")
        self._publisher = bus.publish("status.l1")
        if config.runtime_config:
            reader = RuntimeConfigReader(config, self._endpoints, self._head_number, self._publisher.set)
            self.periodic_tasks.append(PeriodicTask("runtime config", reader.step))
        refs = PeriodicTask("references", self._step_refs)
        self.periodic_tasks.append(refs)
        self._refs = RefsReader(config, self._endpoints, refs.wake.set)
        self._serve(bus, "l1.blocks", lambda: Demand(config.verifier_confs, config.window, again=0.5))
        self._origins = self._serve(bus, "l1.origins", lambda: Demand(0, 0, again=0.2))

    async def start(self) -> None:
        """Says how it will work; connections are opened by the first call."""
        names = ", ".join(endpoint.name for endpoint in self._endpoints.all)
        log.info("following L1", endpoints=names, chain=self._config.rollup.l1_chain_id)
        if not self._polling:
            log.warn("the L1 head is not polled: l1.http-poll-interval is 0")
        if self._config.epoch_poll_interval <= 0:
            log.warn("L1 finality is not polled: l1.epoch-poll-interval is 0 or less, so L2 will not be finalized")

    async def close(self) -> None:
        """Ends the fetches and closes the connections."""
        for task in self._fetches:
            task.cancel()
        await asyncio.gather(*self._fetches, return_exceptions=True)
        await self._endpoints.close()

    def reset(self, error: Exception) -> None:
        """Has nothing to reset: a reorg is part of its work."""

    def report(self, problems: tuple[str, ...]) -> None:
        """Tells what is wrong, with what it knows itself."""
        self._runtime_problems = problems
        self._tell_health()

    # --- heads -----------------------------------------------------------------------------------------------------

    async def _step_head(self) -> float:
        ref = await self._label("latest")
        if ref is None:
            raise TemporaryError("the L1 endpoint knows no latest block")
        before = self._heads.head
        change = self._heads.saw_head(ref)
        if change is HeadChange.BELOW_FINALIZED:
            self._endpoints.recheck()
            self._endpoints.move_on()
            raise TemporaryError(
                f"L1 head {ref} is below the finalized block {self._heads.finalized}: "
                "the endpoint is far behind, or on another chain"
            )
        self._watch_progress(change)
        if change in (HeadChange.ADVANCED, HeadChange.REORGED):
            reorged = change is HeadChange.REORGED
            log.trace("L1 head", head=ref)
            if reorged:
                self._endpoints.recheck()
                self._meter.observe("l1_reorg_depth", self._heads.undone)
                log.warn("L1 reorg", old=before, new=ref, undone_at_least=self._heads.undone)
            finalized = self._heads.finalized.number if self._heads.finalized else -1
            self._window.saw_head(ref, reorged, finalized)
            self._tell_heads()
            self._blocks.wake.set()
        return self._config.poll_interval

    def _watch_progress(self, change: HeadChange) -> None:
        """Warns, once, of a head that does not change for long."""
        now = time.monotonic()
        if change is not HeadChange.SAME:
            self._changed_at, self._is_stuck = now, False
        elif not self._is_stuck and now - self._changed_at > max(STUCK_SECONDS, 5 * self._config.poll_interval):
            self._is_stuck = True
            log.warn("the L1 head does not change", head=self._heads.head, seconds=round(now - self._changed_at))

    async def _step_finality(self) -> float:
        safe, finalized = await self._label("safe"), await self._label("finalized")
        if safe is not None and self._heads.saw_safe(safe):
            log.debug("L1 safe", block=safe)
        contradiction = None
        if finalized is not None:
            before = self._heads.finalized
            contradiction = self._heads.saw_finalized(finalized)
            if contradiction is not None and contradiction != self._contradiction:
                log.error(contradiction)
            elif finalized != before:
                log.debug("L1 finalized", block=finalized)
        if contradiction != self._contradiction:
            self._contradiction = contradiction
            self._tell_health()
        self._tell_heads()
        interval = self._config.epoch_poll_interval
        return interval if self._heads.finalized else min(interval, max(self._config.poll_interval, 1.0))

    async def _label(self, label: str) -> L1BlockRef | None:
        """The verified reference of a label from the endpoint in use; TemporaryError when it fails."""
        endpoint: L1Endpoint | None = None
        try:
            endpoint = self._endpoints.pick()
            block = await endpoint.block_json(label)
            return None if block is None else block_ref(block, self._config.trust_rpc)
        except _Troubles as error:
            if isinstance(error, RpcFailure) and label != "latest" and is_unusable(error.code, error.message):
                log.debug("the L1 endpoint does not know a label", label=label, error=error)
                return None
            if endpoint is not None:
                self._endpoints.failed(endpoint, error)
            raise TemporaryError(f"L1 {label} block: {_told(endpoint, error)}") from None

    def _tell_heads(self) -> None:
        heads = self._heads
        self._publisher.set(L1Heads(heads.head, heads.safe, heads.finalized))

    # --- blocks ----------------------------------------------------------------------------------------------------

    def _serve(self, bus: Bus, channel: str, new_demand: Callable[[], Demand]) -> Server:
        def wanted(peer: ProcessId, want: L1BlocksRequest | L1RefsRequest) -> None:
            if isinstance(want, L1RefsRequest):
                self._refs.ask(peer, want)
                return
            client = self._clients.get((channel, peer.slot))
            if client is None or client.peer != peer:
                client = _Client(peer, server, new_demand())
                self._clients[channel, peer.slot] = client
            client.demand.ask(want.first, want.count, time.monotonic())
            self._hand_out(client)
            missing = client.demand.missing(self._head_number(), self._no_head(), self._window.failure)
            if missing is not None:
                server.send(peer, missing)
            self._blocks.wake.set()

        server = bus.serve(channel, wanted)
        return server

    async def _step_refs(self) -> float:
        return await self._refs.step(self._origins.send)

    def _head_number(self) -> int | None:
        return self._heads.head.number if self._heads.head else None

    def _no_head(self) -> str | None:
        """Why there is no head yet; None when it is not followed at all."""
        if not self._polling:
            return None
        return next(iter(self._runtime_problems), "the L1 head is not known yet")

    async def _step_blocks(self) -> float:
        """Takes in what was fetched, begins what is due, hands out what is wanted."""
        outcomes, self._outcomes = self._outcomes, []
        for outcome in outcomes:
            self._take(outcome)
        for task in [task for task in self._fetches if task.done()]:
            self._fetches.discard(task)
            task.result()
        head = self._head_number()
        delivered = all([self._hand_out(client) for client in self._clients.values()])
        ranges = []
        if head is not None or not self._polling:
            ranges = [wanted for c in self._clients.values() if (wanted := c.demand.wanted(head)) is not None]
        self._window.trim(ranges)
        now = time.monotonic()
        for fetch in self._window.plan(ranges, max(1, self._config.max_concurrency - 1) - len(self._fetches), now):
            self._fetches.add(asyncio.create_task(self._run(fetch), name=f"L1 block {fetch.number}"))
        self._meter.set("l1_source_cache_size", len(self._window), type="blocks")
        self._tell_health()
        retry = self._window.next_retry(now)
        pause = IDLE_SECONDS if retry is None else min(max(retry, 0.01), IDLE_SECONDS)
        return pause if delivered else min(pause, SEND_AGAIN_SECONDS)

    def _take(self, outcome: _Outcome) -> None:
        fetch, block, problem = outcome
        now = time.monotonic()
        if block is None:
            if problem is None and self._polling:
                problem = f"the L1 endpoint does not have block {fetch.number}, although its head is higher"
            if problem is not None:
                log.debug("could not fetch an L1 block", number=fetch.number, problem=problem)
            self._window.failed(fetch, problem, now)
        elif self._window.arrived(fetch, block, _size_of(block), now):
            log.warn("L1 block does not link to those at hand: they are checked again", block=block.ref)

    def _hand_out(self, client: _Client) -> bool:
        """Sends a client what it wants and is there; False when its queue is full or it is gone."""
        for block in client.demand.to_send(self._window.get, self._head_number()):
            if not client.server.send(client.peer, L1BlockResponse(block)):
                return False
            client.demand.sent(block, time.monotonic())
        return True

    async def _run(self, fetch: Fetch) -> _Outcome:
        """Fetches and verifies one block, by one endpoint."""
        outcome = _Outcome(fetch, None, "the fetch was given up")
        endpoint: L1Endpoint | None = None
        try:
            endpoint = self._endpoints.pick()
            block = await self._fetched(endpoint, fetch.number)
            outcome = _Outcome(fetch, block, None)
        except _Troubles as error:
            if endpoint is not None and not isinstance(error, TaskFailed):
                self._endpoints.failed(endpoint, error)
            outcome = _Outcome(fetch, None, f"L1 block {fetch.number}: {_told(endpoint, error)}")
        finally:
            self._outcomes.append(outcome)
            self._blocks.wake.set()
        return outcome

    async def _fetched(self, endpoint: L1Endpoint, number: int) -> L1Block | None:
        body = await endpoint.block_body(number)
        if body is None:
            return None
        result = await self._pool.run(VerifyBlock(number, body, self._config.trust_rpc, self._rules))
        if isinstance(result, NeedsReceipts):
            verified = result.block
            receipts = await endpoint.receipts_body(verified.header.hash, verified.transaction_hashes)
            if receipts is None:
                raise InvalidDataError("the endpoint does not have the receipts yet")
            result = await self._pool.run(VerifyReceipts(verified, receipts, self._rules))
        if isinstance(result, Verified):
            return result.block
        raise InvalidDataError(result.reason if isinstance(result, Invalid) else "the worker's answer is of no use")

    def _tell_health(self) -> None:
        """Publishes the problems of the activities and of the blocks that clients wait for."""
        head = self._head_number()
        waited = [self._window.failure(r.first) for c in self._clients.values() if (r := c.demand.wanted(head))]
        problems = tuple(dict.fromkeys(failure[0] for failure in waited if failure is not None and failure[0]))
        if problems and not self._block_problems:
            log.warn("an L1 block that is waited for cannot be had", problem=problems[0])
        self._block_problems = problems
        known = (*self._runtime_problems, *([self._contradiction] if self._contradiction else []))
        self._publisher.set(Health((*known, *problems)))


def build(config: L1Config, bus: Bus, meter: Meter) -> L1Stage:
    """The stage for the runtime."""
    return L1Stage(config, bus, meter)


def _told(endpoint: L1Endpoint | None, error: Exception) -> str:
    """An error with the endpoint it is about."""
    return str(error) if endpoint is None or isinstance(error, EndpointError) else f"{endpoint.name}: {error}"


def _size_of(block: L1Block) -> int:
    """About how many bytes a block takes in memory."""
    size = 1000
    for transaction in block.inbox:
        size += 400 + len(transaction.data) + 150 * len(transaction.blobs)
    for logged in (*block.deposits, *block.config_updates):
        size += 600 + len(logged.data)
    return size
