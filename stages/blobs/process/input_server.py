"""Answers derivation's requests for inputs of Alt-DA commitments from the DA server, the most urgent first."""

import asyncio
import time
from collections.abc import Callable

import msgspec

from rollup_node.ipc.bus.bus import ProcessId, Server
from rollup_node.stages.blobs.config import DaServerConfig
from rollup_node.stages.blobs.input_requests import Found, InputCache, PendingInput, PendingInputs
from rollup_node.stages.blobs.process.da_client import DaClient, InputNotFoundError, TooLargeAheadError
from rollup_node.stages.io.http.jsonrpc import EndpointError
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import EndpointCounts, Problem
from rollup_node.stages.messages.blobs import InputRequest, InputUnavailable
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.commitments import KECCAK, Commitment

log = get_logger("da")

IDLE_SECONDS = 5.0


class InputServer:
    """The pending requests, the cache, and the running fetches, at most `max_requests`.

    A fetch ahead of need gives way to one that derivation waits for."""

    def __init__(self, config: DaServerConfig, server: Server, meter: Meter, wake: Callable[[], None]) -> None:
        self._client, self._verifies = DaClient(config, meter), config.verify_on_read
        self._max_requests = max(1, config.max_requests)
        self._server, self._meter, self._wake = server, meter, wake
        self._pending, self._cache = PendingInputs(), InputCache()
        self._fetches: dict[asyncio.Task[None], PendingInput] = {}
        self._condition = LastingCondition(log)
        self._reported: Commitment | None = None

    @property
    def name(self) -> str:
        """The DA server."""
        return self._client.name

    def counts(self) -> EndpointCounts:
        """How the DA server answers."""
        return self._client.record.counts(in_use=True)

    @property
    def errors(self) -> list[Problem]:
        """Why inputs that derivation waits for are missing."""
        waiting = (pending for pending in self._pending if pending.urgent and pending.error)
        return [Problem(None, "input of a commitment", str(pending.error)) for pending in waiting]

    def on_request(self, client: ProcessId, request: InputRequest) -> None:
        """Answers from the cache, or has the input fetched."""
        found = self._cache.get(request.commitment, request.start)
        if found is None:
            self._pending.request(client, request, time.monotonic())
            self._wake()
        elif request.urgent:
            self._server.send(client, found)

    def step(self) -> float:
        """Start the fetches that are due; seconds until the next step, if nothing wakes it."""
        for task in [task for task in self._fetches if task.done()]:
            del self._fetches[task]
            if not task.cancelled():
                task.result()
        now = time.monotonic()
        self._pending.expire(now)
        due = self._pending.due(now)
        if due and due[0].urgent and len(self._fetches) >= self._max_requests:
            self._cancel_prefetch()
        for pending in due[: self._max_requests - len(self._fetches)]:
            pending.is_fetching = True
            self._fetches[asyncio.create_task(self._fetch(pending), name="input of a commitment")] = pending
        retry = self._pending.next_retry(now)
        return IDLE_SECONDS if retry is None else min(max(retry, 0.05), IDLE_SECONDS)

    async def close(self) -> None:
        """Cancel the fetches and closes the connections."""
        for task in self._fetches:
            task.cancel()
        await asyncio.gather(*self._fetches, return_exceptions=True)
        await self._client.close()

    def _cancel_prefetch(self) -> None:
        for task, pending in self._fetches.items():
            if not pending.urgent:
                task.cancel()
                return

    async def _fetch(self, pending: PendingInput) -> None:
        answer: Found | InputUnavailable
        start, began = pending.start, dict(pending.clients)
        verified = self._verifies and pending.commitment.kind == KECCAK
        try:
            answer = await self._client.get(pending.commitment, ahead=not pending.urgent)
            if not verified and start != pending.start:
                return  # it is read again for the new start
            if pending.commitment == self._reported:
                self._condition.end("the DA server returns inputs again", commitment=pending.commitment)
            self._cache.put(answer, None if verified else start)
            self._pending.remove(pending)
        except EndpointError as error:
            answer = self._failed(pending, error)
        finally:
            pending.is_fetching = False
            self._wake()
        # A lost answer is no harm: the client repeats its request.
        for row, (client, _) in pending.clients.items():
            asker, number = began.get(row, (client, 0))
            if isinstance(answer, InputUnavailable):
                answer = msgspec.structs.replace(answer, number=number if asker == client else 0)
            self._server.send(client, answer)

    def _failed(self, pending: PendingInput, error: EndpointError) -> InputUnavailable:
        if isinstance(error, TooLargeAheadError):
            return pending.postponed(str(error))
        not_found = isinstance(error, InputNotFoundError)
        self._meter.count("storage_errors")
        if pending.urgent:
            self._reported = pending.commitment
            code = Code.ALTDA_MISSING if not_found else Code.ALTDA_UNREACHABLE
            text = "the DA server does not return an input that derivation waits for"
            self._condition.report(code, text, commitment=pending.commitment, error=error)
        else:
            log.debug("could not read an input ahead", commitment=pending.commitment, error=error)
        return pending.failed(str(error), not_found, time.monotonic())
