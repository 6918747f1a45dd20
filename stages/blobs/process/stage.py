"""The blobs process: fetches requested blobs, most urgent first, has workers verify and decode them, sends them."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.ipc.bus.task_dispatcher import TaskFailed
from rollup_node.stages.blobs.beacon_api import BeforeGenesisError, Failed, OfferedBlob, SourceFailure, classify
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.pending_requests import PendingRequest, PendingRequests, content_size
from rollup_node.stages.blobs.process.client import BeaconEndpoints, BlobOffer, SourcesFailedError
from rollup_node.stages.blobs.process.da_client import InputServer
from rollup_node.stages.blobs.process.verifier import BlobVerifier
from rollup_node.stages.blobs.tasks import BlobsVerified
from rollup_node.stages.io import tracing
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.log.lasting_conditions import LastingConditions
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import PacedPublisher, PeriodicTask, Stage, cancel_all
from rollup_node.stages.messages.base import Endpoints, Health, QueueLength
from rollup_node.stages.messages.blobs import BlobContent, BlobsRequest, BlobsResponse, InputRequest
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import seconds
from rollup_node.stages.protocol.texts import one_line
from rollup_node.stages.protocol.types import Hash

log = Logger("blobs")

MAX_FETCHES = 4
IDLE_SECONDS = 5.0
RESEND_SECONDS = 0.1
BLOBS = "blobs"
NO_ENDPOINT = "there is no endpoint to fetch blobs from: give one with --l1.beacon"
_FetchErrors = (EndpointError, BeforeGenesisError, SourcesFailedError, TaskFailed)


def _named(name: str, group: str) -> str:
    """Return the name of something that each chain has."""
    return f"{name}.{group}" if group else name


class BlobsStage(Stage):
    """The pending requests, decoded blobs and fetches, which a reset leaves: a hash is one blob on every chain."""

    def __init__(self, config: BlobsConfig, bus: Bus, meter: Meter) -> None:
        self._endpoints = BeaconEndpoints(config, meter)
        self._bus, self._meter, self._conditions = bus, meter, LastingConditions(log)
        self._requests = PendingRequests(config.cache_bytes)
        for flag in ("true", "false"):
            meter.count("l1_source_cache_get", 0, type=BLOBS, hit=flag)
            meter.count("l1_source_cache_add", 0, type=BLOBS, evicted=flag)
        self._fetches: set[asyncio.Task[None]] = set()
        self._work = PeriodicTask("blobs", self._step)
        self.periodic_tasks: list[PeriodicTask] = [self._work]
        self._workers = bus.dispatch("work.blobs")
        self._verifier = BlobVerifier(self._workers)
        self._publisher = bus.publish("status.blobs")
        self._counts = PacedPublisher(self._publisher.set)
        self._server = bus.serve("blobs.contents", self._on_request)
        self._inputs: dict[str, InputServer] = {}
        self._reported: dict[str, int] = {}
        for group, da_server in config.da_servers.items():
            task = PeriodicTask(_named("inputs", group), partial(self._step_inputs, group))
            self._inputs[group] = InputServer(da_server, self._server, meter, task.wake.set)
            self.periodic_tasks.append(task)

    async def start(self) -> None:
        """Log the endpoints; connections are opened by the first request."""
        names = ", ".join(endpoint.name for endpoint in self._endpoints.all)
        log.info("fetching blobs", endpoints=names or "none")
        for inputs in self._inputs.values():
            log.info("reading the inputs of Alt-DA commitments", server=inputs.name)

    async def close(self) -> None:
        """Cancel the fetches and close the connections."""
        await cancel_all(self._fetches)
        for inputs in self._inputs.values():
            await inputs.close()
        await self._verifier.close()
        await self._endpoints.close()

    def _on_request(self, client: ProcessId, request: BlobsRequest | InputRequest) -> None:
        if isinstance(request, InputRequest):
            if (inputs := self._inputs.get(self._bus.group_of(client))) is not None:
                inputs.on_request(client, request)
            return
        hit = request.blobs[0].hash in self._requests.cache if request.blobs else True
        self._meter.count("l1_source_cache_get", type=BLOBS, hit="true" if hit else "false")
        pending = self._requests.request(client, request, time.monotonic())
        if pending.urgent and not pending.is_reported and pending.missing and pending.error is not None:
            self._report(pending)
        self._respond(pending)
        self._verifier.start_due()
        self._work.wake.set()

    def _respond(self, pending: PendingRequest) -> bool:
        """Send the response to a request's clients, removed once all have its blobs; False if a queue is full."""
        response, groups = pending.response(), self._groups(pending)
        # An unavailable response keeps the client: it gets the blobs once they are there.
        for row, client in tuple(pending.clients.items()):
            if response is not None and self._server.send(client, response) and isinstance(response, BlobsResponse):
                del pending.clients[row]
        if not isinstance(response, BlobsResponse):
            return True
        # The blobs of an earlier block, which a reset has read again, say nothing of those that were missing.
        for group in groups if pending.urgent else ():
            if pending.block.number >= self._reported.get(group, 0):
                self._conditions.end(_named("blobs", group), "blobs have been found", l1_block=pending.block)
        if not pending.clients:
            self._requests.remove(pending)
        return not pending.clients

    def _groups(self, pending: PendingRequest) -> set[str]:
        """Return the groups of the clients that wait for an answer."""
        return {self._bus.group_of(client) for client in pending.clients.values()}

    async def _step_inputs(self, group: str) -> float:
        pause = self._inputs[group].step()
        self.publish_health()
        return pause

    async def _step(self) -> float:
        """Start the fetches that are due, and send responses again that could not be sent."""
        for task in [task for task in self._fetches if task.done()]:
            self._fetches.discard(task)
            task.result()
        now = time.monotonic()
        self._requests.expire(now)
        all_sent = all([self._respond(pending) for pending in self._requests if not pending.missing])
        for pending in self._requests.due(now):
            self._start_fetch(pending)
        self._meter.set("l1_source_cache_size", len(self._requests.cache), type=BLOBS)
        self.publish_health()
        return self._requests.next_retry(now, IDLE_SECONDS) if all_sent else RESEND_SECONDS

    def _start_fetch(self, pending: PendingRequest) -> None:
        """Start a fetch unless too many run; for an urgent one there is room for one more of each client that waits."""
        waiting = {client for other in self._requests if other.urgent for client in other.clients}
        if len(self._fetches) < MAX_FETCHES + (len(waiting) if pending.urgent else 0):
            pending.is_fetching = True
            self._fetches.add(asyncio.create_task(self._fetch(pending), name=f"blobs of L1 block {pending.block}"))

    async def _fetch(self, pending: PendingRequest) -> None:
        """Fetch and verifies once; authentic blobs are kept even if others are missing."""
        began = time.monotonic()
        try:
            await self._fetch_missing(pending)
        except _FetchErrors as error:
            self._failed(pending, error)
        finally:
            pending.is_fetching = False
            self._work.wake.set()
            tracing.add("blobs", began, pending.block.hash, count=len(pending.blobs), missing=len(pending.missing))
        self._respond(pending)

    async def _fetch_missing(self, pending: PendingRequest) -> None:
        """Fetch what is missing of a request from an endpoint. Raises one of _FetchErrors if any still is [O6]."""
        if not self._endpoints.all:
            raise SourcesFailedError(SourceFailure(Failed.NO_SOURCE, NO_ENDPOINT))
        slot = await self._endpoints.clock.slot_at(pending.block.timestamp)
        offer = await self._endpoints.fetch(slot, pending.missing, prefetch=not pending.urgent)
        wanted = tuple(ref.hash for ref in pending.missing)
        verified = await self._verify(wanted, offer.blobs, pending)
        if pending.missing:
            failure = _lacking(offer, len(wanted), verified, pending)
            self._endpoints.failed(offer, failure.failed)
            raise SourcesFailedError(failure)

    async def _verify(
        self, wanted: Sequence[Hash], offered: Sequence[OfferedBlob], pending: PendingRequest
    ) -> BlobsVerified:
        """Take those of the offered blobs that are wanted and authentic."""
        verified = await self._verifier.verify(tuple(wanted), tuple(offered), pending)
        pending.add(verified.contents)
        self._cache(verified.contents)
        return verified

    def _cache(self, contents: Sequence[BlobContent]) -> None:
        """Keep blobs, and count those that others gave way to."""
        cache = self._requests.cache
        for content in contents:
            before, is_new = len(cache), content.hash not in cache
            cache.put(content.hash, content, content_size(content))
            evicted = "true" if len(cache) < before + is_new else "false"
            self._meter.count("l1_source_cache_add", int(is_new), type=BLOBS, evicted=evicted)

    def _failed(self, pending: PendingRequest, error: Exception) -> None:
        """Record that blobs are missing. The slot may be wrong, unless a worker failed."""
        if isinstance(error, TaskFailed):
            pending.failed(None, one_line(str(error)), False, time.monotonic())
            reason = one_line(str(error))
            log.warn("could not verify blobs", code=Code.WORKER_FAILED.text, l1_block=pending.block, error=reason)
            return
        self._endpoints.clock.doubt()
        if not isinstance(error, SourcesFailedError):
            kind = Failed.OTHER_CHAIN if isinstance(error, BeforeGenesisError) else Failed.NO_ANSWER
            error = SourcesFailedError(SourceFailure(kind, str(error)))
        text = f"{error} ({self._endpoints.clock})" if error.not_found else str(error)
        code = classify(error.failures, time.time() - pending.block.timestamp)
        pending.failed(code, one_line(text), error.not_found, time.monotonic())
        self._report(pending)

    def _report(self, pending: PendingRequest) -> None:
        """Log the failure of a request that derivation waits for; others may come in time."""
        if pending.code is None or not pending.urgent:
            log.debug("could not prefetch blobs", l1_block=pending.block, error=str(pending.error))
            return
        pending.is_reported = True
        age = seconds("age", time.time() - pending.block.timestamp)
        sources = len(self._endpoints.all)
        text = "no source has the blobs that derivation waits for"
        for group in self._groups(pending):
            self._reported[group] = pending.block.number
            name, answer = _named("blobs", group), pending.reason
            self._conditions.report(
                name, pending.code, text, l1_block=pending.block, **age, sources=sources, answer=answer
            )

    def publish_health(self) -> None:
        """Publish the problems of the periodic task with the errors of urgent requests."""
        urgent = [pending for pending in self._requests if pending.urgent and pending.missing]
        errors = [pending.error for pending in urgent if pending.error is not None]
        errors += [error for inputs in self._inputs.values() for error in inputs.errors]
        self._publisher.set(Health((*self.runtime_problems, *errors)))
        self._counts.step(self._endpoint_counts, self._queue_length)

    def _endpoint_counts(self) -> Endpoints:
        return Endpoints((*self._endpoints.counts(), *[inputs.counts() for inputs in self._inputs.values()]))

    def _queue_length(self) -> QueueLength:
        return QueueLength(len(self._requests), self._workers.scheduler.outstanding)


def _lacking(offer: BlobOffer, wanted: int, verified: BlobsVerified, pending: PendingRequest) -> SourceFailure:
    """Why an offer lacks blobs. More blobs than were asked for come from a source that does not see the whole query."""
    missing = (f"{len(pending.missing)} of {len(pending.blobs)} blobs are missing",)
    text = f"{offer.endpoint.name}: " + "; ".join(verified.problems[:3] or missing)
    if not verified.problems:
        return SourceFailure(Failed.HAS_NONE, text)
    return SourceFailure(Failed.OTHER_BLOBS if len(offer.blobs) > wanted else Failed.WRONG_BLOBS, text)


build = BlobsStage
