"""The blobs process: fetches the blobs that derivation wants, has compute workers authenticate and decode them, and
hands out their contents, those that derivation waits for first."""

import asyncio
import time
from typing import NamedTuple

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.ipc.bus.task_dispatcher import TaskDispatcher, TaskFailed
from rollup_node.stages.blobs.beacon_api import AnswerError, Candidate
from rollup_node.stages.blobs.blob_requests import Need, Needs
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process.client import BeaconEndpoints, BlobsNotFoundError
from rollup_node.stages.blobs.slots import BeforeGenesisError
from rollup_node.stages.blobs.tasks import BlobsVerified, VerifyBlobs
from rollup_node.stages.io.jsonrpc import EndpointError
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.blobs import BlobsRequest, BlobsResponse
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import Hash

log = get_logger("blobs")

FETCHES = 4
VERIFICATIONS = 2
MAX_BLOBS_A_TASK = 24
IDLE_SECONDS = 5.0
SEND_AGAIN_SECONDS = 0.1
_Troubles = (EndpointError, AnswerError, BeforeGenesisError, BlobsNotFoundError, TaskFailed)


class _Group(NamedTuple):
    """What one need wants checked."""

    wanted: tuple[Hash, ...]
    candidates: tuple[Candidate, ...]
    result: asyncio.Future[BlobsVerified]
    urgent: bool


class Verifier:
    """Has blobs checked, those of several needs at once: one linear combination costs little more for many blobs
    than for one. While all permitted tasks run, what comes is gathered for the next."""

    def __init__(self, pool: TaskDispatcher) -> None:
        self._pool = pool
        self._waiting: list[_Group] = []
        self._running: set[asyncio.Task[None]] = set()

    async def check(self, need: Need, candidates: tuple[Candidate, ...]) -> BlobsVerified:
        """The authentic ones; TaskFailed if no worker could tell."""
        result: asyncio.Future[BlobsVerified] = asyncio.get_running_loop().create_future()
        wanted = tuple(ref.hash for ref in need.missing)
        self._waiting.append(_Group(wanted, candidates, result, need.urgent))
        self._start()
        return await result

    async def close(self) -> None:
        """Gives up what is under way."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _start(self) -> None:
        while self._waiting and len(self._running) < VERIFICATIONS:
            task = asyncio.create_task(self._run(self._next()))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            self._start()

    def _next(self) -> list[_Group]:
        """Groups for one task: urgent ones first, at least one."""
        self._waiting = [group for group in self._waiting if not group.result.done()] or self._waiting[:1]
        self._waiting.sort(key=lambda group: not group.urgent)
        groups, blobs = [self._waiting.pop(0)], 0
        while self._waiting:
            blobs += len(groups[-1].candidates)
            if blobs + len(self._waiting[0].candidates) > MAX_BLOBS_A_TASK:
                break
            groups.append(self._waiting.pop(0))
        return groups

    async def _run(self, groups: list[_Group]) -> None:
        wanted = tuple({each: None for group in groups for each in group.wanted})
        candidates = tuple(each for group in groups for each in group.candidates)
        try:
            verified: BlobsVerified | Exception = await self._pool.run(VerifyBlobs(wanted, candidates))
        except Exception as failure:
            verified = failure
        for group in groups:
            if group.result.done():
                continue
            if isinstance(verified, Exception):
                group.result.set_exception(verified)
            else:
                group.result.set_result(verified)


class BlobsStage:
    """State: the needs, and the fetches under way."""

    def __init__(self, config: BlobsConfig, bus: Bus, meter: Meter) -> None:
        self._endpoints = BeaconEndpoints(config, meter)
        self._meter = meter
        self._needs = Needs(config.cache_bytes)
        self._fetches: set[asyncio.Task[None]] = set()
        self._runtime_problems: tuple[str, ...] = ()
        self._work = PeriodicTask("blobs", self._step)
        self.periodic_tasks = [self._work]
        self._verifier = Verifier(bus.dispatch("work.blobs"))
        self._publisher = bus.publish("status.blobs")
        self._server = bus.serve("blobs.contents", self._wanted)

    async def start(self) -> None:
        """Says where blobs come from; connections are opened by the first need."""
        names = ", ".join(endpoint.name for endpoint in self._endpoints.all)
        log.info("fetching blobs", endpoints=names or "none")

    async def close(self) -> None:
        """Ends the fetches and closes the connections."""
        for task in self._fetches:
            task.cancel()
        await asyncio.gather(*self._fetches, return_exceptions=True)
        await self._verifier.close()
        await self._endpoints.close()

    def reset(self, error: Exception) -> None:
        """Has nothing to reset."""

    def report(self, problems: tuple[str, ...]) -> None:
        """Tells what is wrong, with what derivation waits for in vain."""
        self._runtime_problems = problems
        self._tell_health()

    def _wanted(self, peer: ProcessId, want: BlobsRequest) -> None:
        need = self._needs.ask(peer, want, time.monotonic())
        self._tell(need)
        self._work.wake.set()

    def _tell(self, need: Need) -> bool:
        """Tells all who ask; a need that is met and told is done. False when somebody could not be told."""
        answer = need.answer()
        for row, peer in tuple(need.askers.items()):
            if answer is not None and self._server.send(peer, answer) and isinstance(answer, BlobsResponse):
                del need.askers[row]
        if not isinstance(answer, BlobsResponse):
            return True
        if not need.askers:
            self._needs.done(need)
        return not need.askers

    async def _step(self) -> float:
        """Begins the fetches that are due, tells who can be told."""
        for task in [task for task in self._fetches if task.done()]:
            self._fetches.discard(task)
            task.result()
        now = time.monotonic()
        self._needs.forget(now)
        told = all([self._tell(need) for need in self._needs if not need.missing])
        for need in self._needs.due(now):
            self._begin(need)
        self._meter.set("l1_source_cache_size", len(self._needs.cache), type="blobs")
        self._tell_health()
        retry = self._needs.next_retry(now)
        pause = IDLE_SECONDS if retry is None else min(max(retry, 0.05), IDLE_SECONDS)
        return pause if told else SEND_AGAIN_SECONDS

    def _begin(self, need: Need) -> None:
        """Starts to work on a need, if there is room; an urgent one has room of its own."""
        if not self._endpoints.all:
            if need.urgent:
                raise CriticalError(
                    f"the batches in L1 block {need.block} are in blobs, but there is no endpoint to fetch blobs from: "
                    "give one with --l1.beacon"
                )
            return
        if len(self._fetches) < FETCHES + (1 if need.urgent else 0):
            need.is_running = True
            self._fetches.add(asyncio.create_task(self._run(need), name=f"blobs of L1 block {need.block}"))

    async def _run(self, need: Need) -> None:
        """Fetches and checks once; what is authentic is kept even if some is missing."""
        problem: Exception | str | None = None
        try:
            slot = await self._endpoints.slot_at(need.block.timestamp)
            offer = await self._endpoints.fetch(slot, need.missing, ahead=not need.urgent)
            verified = await self._verifier.check(need, offer.candidates)
            need.take(verified.contents)
            for content in verified.contents:
                self._needs.cache.put(content)
            if need.missing:
                self._endpoints.failed(offer)
                problem = f"{offer.endpoint.name}: " + "; ".join(
                    verified.problems[:3] or (f"{len(need.missing)} of {len(need.blobs)} blobs are missing",)
                )
        except _Troubles as error:
            problem = error
        finally:
            need.is_running = False
            self._work.wake.set()
        if problem is not None:
            text = f"blobs of L1 block {need.block}: {problem}"
            need.failed(text, isinstance(problem, BlobsNotFoundError), time.monotonic())
            log.warn("could not fetch blobs", block=need.block, urgent=need.urgent, problem=problem)
        self._tell(need)

    def _tell_health(self) -> None:
        waited = [need.problem for need in self._needs if need.urgent and need.missing and need.problem is not None]
        self._publisher.set(Health((*self._runtime_problems, *waited)))


def build(config: BlobsConfig, bus: Bus, meter: Meter) -> BlobsStage:
    """The stage for the runtime."""
    return BlobsStage(config, bus, meter)
