"""The client of the Alt-DA server, and the pending requests for inputs of commitments [ADA1 to ADA3]."""

import asyncio
import time
from collections.abc import Callable

import msgspec

from rollup_node.ipc.bus.bus import ProcessId, Server
from rollup_node.stages.blobs.config import DaServerConfig
from rollup_node.stages.blobs.pending_requests import INPUT_CACHE_BYTES, Found, PendingInput, PendingInputs, input_size
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.connection import is_compressed
from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError, endpoint_name
from rollup_node.stages.io.http.endpoint_record import EndpointRecord, RpcMeter
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.messages.base import EndpointCounts, Problem
from rollup_node.stages.messages.blobs import InputRequest, InputResponse, InputTooLarge, InputUnavailable
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.bounded_cache import BoundedCache
from rollup_node.stages.protocol.commitments import KECCAK, MAX_KECCAK_INPUT, Commitment
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak_256

RPC, METHOD = "da-server", "get"
MAX_BODY = 32 << 20
"""Bytes of an input: twice what the DA layers in use take."""
MAX_HASHED = 1 << 30
"""Bytes of an input of a keccak commitment that are hashed without being kept: if they match, it is skipped [AD7]."""
AHEAD_BODY = 4 << 20
"""Bytes of an input that is read ahead: several are at the same time."""
UNLIMITED_SECONDS = 600.0
"""Bounds a request without a timeout of its own: a server that sends byte by byte must not stop derivation for good."""
_NOT_FOUND = 404


class InputNotFoundError(EndpointError):
    """The DA server answers that it does not have the input."""


class TooLargeAheadError(EndpointError):
    """The input is too large to be read before it is needed."""


class DaClient:
    """One DA server."""

    def __init__(self, config: DaServerConfig, meter: Meter) -> None:
        self.name = endpoint_name(config.url)
        self.record = EndpointRecord("da-server", self.name)
        self._verify, self._meter = config.verify_on_read, RpcMeter(meter, RPC)
        self._timeout = config.get_timeout or UNLIMITED_SECONDS
        self._http = HttpClient(config.url, self.name)

    async def get(self, commitment: Commitment, ahead: bool = False) -> InputResponse | InputTooLarge:
        """Return an input. Raises InputNotFoundError, TooLargeAheadError if it is `ahead` of need, or EndpointError."""
        answers = InputNotFoundError, TooLargeAheadError
        with self._meter.timed(METHOD), self.record.timed(is_answer=lambda error: isinstance(error, answers)):
            read = await self._exchange(commitment, ahead)
        size = len(read.data) if isinstance(read, InputResponse) else read.size
        self._meter.exchanged(METHOD, len(commitment.encode()), size)
        return read

    async def close(self) -> None:
        await self._http.close()

    async def _exchange(self, commitment: Commitment, ahead: bool) -> InputResponse | InputTooLarge:
        url = self._http.below(f"get/{to_hex(commitment.encode())}")
        hashed = commitment.kind == KECCAK and self._verify
        limit = AHEAD_BODY if ahead else MAX_HASHED if hashed else MAX_BODY
        reading = InputReading(commitment, limit, hashed)
        try:
            answer = await self._http.get(url, {"Accept-Encoding": "identity"}, self._timeout, limit, reading.take)
        except AnswerTooLargeError:
            return reading.too_large(self.name)
        if answer.status == _NOT_FOUND:
            raise InputNotFoundError(self.name, f"does not have the input of {commitment}", answer.status)
        if answer.status != 200:
            raise EndpointError(self.name, f"HTTP status {answer.status}", answer.status)
        if is_compressed(answer.headers.get("content-encoding", "")):
            raise EndpointError(self.name, "the input is compressed, which was not asked for")
        return reading.input(self.name)


class InputReading:
    """A body that is read, of at most `limit` bytes; it is `hashed` if it has to match.

    Of one that is too large to be used nothing is kept, and whether it matches still decides if it is skipped [AD7]."""

    def __init__(self, commitment: Commitment, limit: int, hashed: bool) -> None:
        self._commitment, self._limit = commitment, limit
        self._most = MAX_KECCAK_INPUT if commitment.kind == KECCAK else limit
        self._hasher = keccak_256() if hashed else None
        self._body, self._size = bytearray(), 0

    def take(self, part: bytes) -> None:
        """Take some bytes."""
        self._size += len(part)
        if self._size <= self._most:
            self._body += part
        else:
            self._body.clear()
        if self._hasher is not None:
            self._hasher.update(part)

    def input(self, endpoint: str) -> InputResponse | InputTooLarge:
        """Return what a whole body is. Raises EndpointError where it does not match."""
        if self._hasher is not None and self._hasher.digest() != self._commitment.content:
            text = f"sends {self._size} bytes that do not match commitment {self._commitment}"
            raise EndpointError(endpoint, text)
        if self._size > self._most:
            return InputTooLarge(self._commitment, self._size)
        return InputResponse(self._commitment, bytes(self._body))

    def too_large(self, endpoint: str) -> InputTooLarge:
        """Return what a body of more than the limit is. Raises EndpointError where it has to be read again."""
        if self._hasher is None and self._most < self._limit:
            return InputTooLarge(self._commitment, self._limit + 1)
        error = TooLargeAheadError if self._limit == AHEAD_BODY else EndpointError
        raise error(endpoint, f"the input is longer than {self._limit} bytes")


log = Logger("da")

IDLE_SECONDS = 5.0


class InputServer:
    """The pending requests, the cache, at most `max_requests` fetches; one ahead of need gives way to a needed one.

    An unverified input is valid for one start, which is kept with it, so wrong ones do not survive a reset [ADA16]."""

    def __init__(self, config: DaServerConfig, server: Server, meter: Meter, wake: Callable[[], None]) -> None:
        self._client, self._verifies = DaClient(config, meter), config.verify_on_read
        self.name = self._client.name
        self._max_requests = max(1, config.max_requests)
        self._server, self._meter, self._wake = server, meter, wake
        self._pending = PendingInputs()
        self._cache: BoundedCache[Commitment, tuple[Found, int | None]] = BoundedCache(INPUT_CACHE_BYTES)
        self._fetches: dict[asyncio.Task[None], PendingInput] = {}
        self._condition = LastingCondition(log)
        self._reported: Commitment | None = None

    def counts(self) -> EndpointCounts:
        """How the DA server answers."""
        return self._client.record.counts(in_use=True)

    @property
    def errors(self) -> list[Problem]:
        """Why inputs that derivation waits for are missing."""
        waiting = (pending for pending in self._pending if pending.urgent and pending.error)
        return [Problem(None, "input of a commitment", str(pending.error)) for pending in waiting]

    def on_request(self, client: ProcessId, request: InputRequest) -> None:
        """Answer from the cache, or have the input fetched."""
        answer, valid_for = self._cache.get(request.commitment) or (None, None)
        if answer is None or valid_for not in (None, request.start):
            self._pending.request(client, request, time.monotonic())
            self._wake()
        elif request.urgent:
            self._server.send(client, answer)

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
        return self._pending.next_retry(now, IDLE_SECONDS)

    async def close(self) -> None:
        """Cancel the fetches and close the connections."""
        await cancel_all(self._fetches)
        await self._client.close()

    def _cancel_prefetch(self) -> None:
        for task, pending in self._fetches.items():
            if not pending.urgent:
                task.cancel()
                return

    async def _fetch(self, pending: PendingInput) -> None:
        answer: Found | InputUnavailable
        start, began = pending.start, dict(pending.clients)
        verified = self._verifies and pending.key.kind == KECCAK
        try:
            answer = await self._client.get(pending.key, ahead=not pending.urgent)
            if not verified and start != pending.start:
                return  # it is read again for the new start
            if pending.key == self._reported:
                self._condition.end("the DA server returns inputs again", commitment=str(pending.key))
            self._cache.put(answer.commitment, (answer, None if verified else start), input_size(answer))
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
            self._reported = pending.key
            code = Code.ALTDA_MISSING if not_found else Code.ALTDA_UNREACHABLE
            text = "the DA server does not return an input that derivation waits for"
            self._condition.report(code, text, commitment=str(pending.key), error=error)
        else:
            log.debug("could not read an input ahead", commitment=str(pending.key), error=error)
        return pending.failed(str(error), not_found, time.monotonic())
