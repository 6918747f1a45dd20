"""JSON-RPC messages over one connection for all requests, which is opened again when it is lost [WSK1 to WSK7]."""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError, NoAnswerError
from rollup_node.stages.io.http.json_answers import answered_ids
from rollup_node.stages.protocol.answer_limits import RECEIPTS, AnswerLimit
from rollup_node.stages.protocol.foreign_json import MalformedJsonError
from rollup_node.stages.protocol.pacing import backoff

MAX_MESSAGE = RECEIPTS.bytes
"""Bytes of a message: those of the largest answer of any method."""

SHARED_MESSAGE = 12 << 20
"""Bytes of a message on the connection of all requests: more than an ordinary L1 block or a batch of headers. A request
whose answer may be longer has a connection of its own, whose messages obey its limit."""

FIRST_PAUSE, MAX_PAUSE = 0.1, 3.0
"""Seconds until a connection is opened again after the first failure in a row, and at most."""

MAX_UNREQUESTED = 100
"""So many answers to no request, with none to a request between them, end a connection."""

MAX_GIVEN_UP = 10_000
"""So many of the last requests that were given up are known, so that their answers may come late."""


@dataclass
class _Request:
    """What was sent and is not answered yet: a call, or a batch of several ids."""

    answer: asyncio.Future[bytes]
    max_values: int
    is_batch: bool


class MessageConnection(ABC):
    """An open connection; `what` is its kind. A transport that opens one gets its notifications and, once, its loss."""

    def __init__(self, name: str, what: str) -> None:
        self.name, self._what = name, what
        self.has_answered = False
        self.on_notification: Callable[[], None] = lambda: None
        self.on_lost: Callable[[MessageConnection, str], None] = lambda *_: None
        self._loop = asyncio.get_running_loop()
        self._requests: dict[bytes, _Request] = {}
        self._given_up: dict[bytes, None] = {}
        self._unrequested = 0

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether another request can be sent."""

    @abstractmethod
    async def send(self, body: bytes) -> None:
        """Send a message. Raises EndpointError."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection, within a second."""

    async def ask(self, body: bytes, ids: Sequence[int], limit: AnswerLimit) -> bytes:
        """Send a request and return the message that answers it. Raises EndpointError."""
        request = _Request(self._loop.create_future(), limit.values, len(ids) > 1)
        keys = [b"%d" % id_ for id_ in ids]
        self._requests.update(dict.fromkeys(keys, request))
        try:
            await self.send(body)
            return await request.answer
        finally:
            for key in keys:
                self._requests.pop(key, None)
            if request.answer.cancel() or request.answer.cancelled():
                self._give_up(keys)
            else:
                # asyncio logs an exception that nobody has looked at.
                request.answer.exception()

    def _give_up(self, keys: Sequence[bytes]) -> None:
        """Nobody waits for the answer any more; it may still come."""
        self._given_up.update(dict.fromkeys(keys))
        while len(self._given_up) > MAX_GIVEN_UP:
            del self._given_up[next(iter(self._given_up))]

    def lose(self, reason: str, too_much: bool = False) -> None:
        """Fail the requests in flight: the connection is lost, perhaps since a message is longer than its limit."""
        # Whose answer was too large is not known: each request can be made again with a larger limit.
        kind = AnswerTooLargeError if too_much else EndpointError
        for request in self._requests.values():
            if not request.answer.done():
                request.answer.set_exception(kind(self.name, self._lost_text(reason)))
        self._requests.clear()
        self.on_lost(self, self._lost_text(reason))

    def _lost_text(self, reason: str) -> str:
        return f"the {self._what} connection was lost ({reason})"

    def take(self, message: bytes) -> None:
        """Give a message to the request it answers. Raises MalformedJsonError, also after too many to none."""
        most = max((request.max_values for request in self._requests.values()), default=1000)
        ids = answered_ids(message, most)
        if ids is None:
            self.on_notification()
            return
        request = next((self._requests[id_] for id_ in ids if id_ in self._requests), None)
        if request is None and ids == [b"null"]:
            request = self._only_request()
        if request is None and any(id_ in self._given_up for id_ in ids):
            self.has_answered = True
            for id_ in ids:
                self._given_up.pop(id_, None)
            return
        if request is None or request.answer.done():
            self._unrequested += 1
            if self._unrequested > MAX_UNREQUESTED:
                raise MalformedJsonError(f"more than {MAX_UNREQUESTED} answers to no request")
            return
        self._unrequested, self.has_answered = 0, True
        request.answer.set_result(message)

    def _only_request(self) -> _Request | None:
        """Return what an error without an id is about: a request that the endpoint could not read, or a batch."""
        waiting = list(self._requests.values())
        waiting = [item for item in waiting if item.is_batch] or waiting
        return waiting[0] if waiting and all(item is waiting[0] for item in waiting) else None


class MessageTransport(ABC):
    """Exchanges messages with one endpoint.

    `max_message` are the bytes of a message on the shared connection, of which one that is longer ends it.
    `on_notification` is called for each notification, and when a connection is lost over which a subscription was made.
    `subscribed` is set by the subscriber, and cleared when the connection is lost."""

    what = ""
    """The kind of connection, for errors."""

    def __init__(self, name: str, on_notification: Callable[[], None] | None, max_message: int) -> None:
        self.name = name
        self.subscribed = False
        self._max_message = max_message
        self._on_notification = on_notification or (lambda: None)
        self._opening = asyncio.Lock()
        self._connection: MessageConnection | None = None
        self._failures = 0
        self._retry_at, self._failure = 0.0, ""

    @abstractmethod
    async def connect(self, max_message: int) -> MessageConnection:
        """Return another connection, which a message of more than `max_message` bytes ends. Raises EndpointError."""

    async def exchange(self, body: bytes, ids: Sequence[int], timeout: float, limit: AnswerLimit) -> bytes:
        """Return the answer to a request, which is never sent again. Raises EndpointError, AnswerTooLargeError."""
        connection = None
        try:
            async with asyncio.timeout(timeout) as deadline:
                connection = await self._open(deadline, timeout)
                if limit.bytes <= self._max_message:
                    answer = await connection.ask(body, ids, limit)
                else:
                    answer = await self._ask_alone(body, ids, limit)
        except TimeoutError:
            if connection is None:
                raise EndpointError(self.name, f"no {self.what} connection within {timeout:g} s") from None
            raise NoAnswerError(self.name, timeout) from None
        self._failures = 0
        if len(answer) > limit.bytes:
            raise AnswerTooLargeError(self.name, f"the answer is longer than {limit.bytes} bytes")
        return answer

    async def _ask_alone(self, body: bytes, ids: Sequence[int], limit: AnswerLimit) -> bytes:
        connection = await self.connect(limit.bytes)
        try:
            return await connection.ask(body, ids, limit)
        finally:
            await connection.close()

    async def reconnect(self) -> None:
        """Close the connection; the next exchange opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        self._unsubscribe()

    async def close(self) -> None:
        """Close the connection for good; nobody is notified any more."""
        self._on_notification = lambda: None
        await self.reconnect()

    async def _open(self, deadline: asyncio.Timeout, timeout: float) -> MessageConnection:
        """Return the open connection, or another one, unless the last attempt was a moment ago."""
        if self._connection is not None and self._connection.is_open:
            return self._connection
        async with self._opening:
            if self._connection is not None and self._connection.is_open:
                return self._connection
            if time.monotonic() < self._retry_at:
                raise EndpointError(self.name, self._failure)
            await self.reconnect()
            try:
                connection = await self.connect(self._max_message)
            except EndpointError as error:
                self._failed(str(error).removeprefix(f"{self.name}: "))
                raise
            except asyncio.CancelledError:
                if deadline.expired():
                    self._failed(f"no {self.what} connection within {timeout:g} s")
                raise
            connection.on_notification, connection.on_lost = lambda: self._on_notification(), self._lost
            self._connection = connection
            return connection

    def _failed(self, failure: str) -> None:
        """Have the next attempt made after a pause that grows, with jitter."""
        self._failures += 1
        pause = backoff(self._failures, FIRST_PAUSE, MAX_PAUSE)
        self._retry_at, self._failure = time.monotonic() + pause * random.uniform(0.5, 1.0), failure

    def _unsubscribe(self) -> None:
        if self.subscribed:
            self.subscribed = False
            self._on_notification()

    def _lost(self, connection: MessageConnection, text: str) -> None:
        if connection is not self._connection:
            return
        # One that never answered counts as a failure: an endpoint that closes at once is not asked at once again.
        if not connection.has_answered:
            self._failed(text)
        self._unsubscribe()
