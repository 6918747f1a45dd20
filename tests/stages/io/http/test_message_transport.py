"""The matching of answers to requests, and when a connection is opened again, over connections of no network."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from rollup_node.stages.io.http import message_transport
from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError
from rollup_node.stages.io.http.message_transport import MAX_UNREQUESTED, MessageConnection, MessageTransport
from rollup_node.stages.protocol.answer_limits import SMALL
from rollup_node.stages.protocol.foreign_json import MalformedJsonError


class MemoryConnection(MessageConnection):
    def __init__(self) -> None:
        super().__init__("endpoint", "memory")
        self.sent: list[bytes] = []
        self._is_open = True

    @property
    def is_open(self) -> bool:
        return self._is_open

    async def send(self, body: bytes) -> None:
        self.sent.append(body)

    async def close(self) -> None:
        self.end("closed")

    def end(self, reason: str, too_much: bool = False) -> None:
        if self._is_open:
            self._is_open = False
            self.lose(reason, too_much)


class MemoryTransport(MessageTransport):
    """Its connections, and how many attempts fail before the next."""

    what = "memory"

    def __init__(self) -> None:
        super().__init__("endpoint", lambda: self.notified.append(None), 1 << 20)
        self.notified: list[None] = []
        self.connections: list[MemoryConnection] = []
        self.failures = self.attempts = 0

    async def connect(self, max_message: int) -> MessageConnection:
        self.attempts += 1
        if self.failures:
            self.failures -= 1
            raise EndpointError(self.name, "cannot connect (no reason)")
        self.connections.append(MemoryConnection())
        return self.connections[-1]


@asynccontextmanager
async def asking(transport: MemoryTransport, *ids: int) -> AsyncIterator[tuple[MemoryConnection, asyncio.Task[bytes]]]:
    """Yield the connection after a request was sent, and the request's task."""
    sent = sum(len(connection.sent) for connection in transport.connections)
    task = asyncio.create_task(transport.exchange(b"{}", ids, 5.0, SMALL))
    while sum(len(connection.sent) for connection in transport.connections) == sent:
        await asyncio.sleep(0)
    yield transport.connections[-1], task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_answer_goes_to_the_request_of_its_id() -> None:
    transport = MemoryTransport()
    async with asking(transport, 1) as (connection, call), asking(transport, 2, 3) as (_, batch):
        connection.take(b'[{"id":3},{"id":2}]')
        connection.take(b'{"method":"eth_subscription"}')
        connection.take(b'{"id":1}')
        assert (await call, await batch) == (b'{"id":1}', b'[{"id":3},{"id":2}]')
    async with asking(transport, 4) as (connection, call):
        connection.take(b'{"id":4,"result":"' + b"x" * SMALL.bytes + b'"}')
        with pytest.raises(AnswerTooLargeError, match=f"^endpoint: the answer is longer than {SMALL.bytes} bytes$"):
            await call
    assert transport.attempts == len(transport.notified) == 1


async def test_an_error_without_an_id_is_that_of_the_only_batch_or_request() -> None:
    """And of none of several."""
    transport = MemoryTransport()
    async with asking(transport, 1) as (connection, first), asking(transport, 2) as (_, second):
        connection.take(b'{"error":1}')
        await asyncio.sleep(0)
        assert not first.done() and not second.done()
    async with asking(transport, 1) as (connection, call), asking(transport, 2, 3) as (_, batch):
        for waiting in (batch, call):
            connection.take(b'{"id":null,"error":1}')
            assert await waiting == b'{"id":null,"error":1}'


async def test_a_late_answer_is_excused_and_too_many_to_nobody_are_not() -> None:
    """[WSK2]"""
    transport = MemoryTransport()
    async with asking(transport, 1), asking(transport, 2, 3):
        pass
    async with asking(transport, 4) as (connection, _):
        connection.take(b'{"id":1}')
        connection.take(b'[{"id":3},{"id":2}]')
        for _ in range(MAX_UNREQUESTED):
            connection.take(b'{"id":1}')
        with pytest.raises(MalformedJsonError, match="more than 100 answers to no request"):
            connection.take(b'{"id":1}')


@pytest.mark.parametrize(("too_much", "kind"), [(False, EndpointError), (True, AnswerTooLargeError)])
async def test_a_lost_connection_fails_all_and_ends_a_subscription(too_much: bool, kind: type[EndpointError]) -> None:
    """[WSK3, WSK6]"""
    transport = MemoryTransport()
    async with asking(transport, 1) as (connection, first), asking(transport, 2) as (_, second):
        transport.subscribed = True
        connection.end("reason", too_much)
        for task in (first, second):
            with pytest.raises(kind, match=r"^endpoint: the memory connection was lost \(reason\)$") as caught:
                await task
            assert type(caught.value) is kind
    assert not transport.subscribed and len(transport.notified) == 1


async def test_attempts_pause_after_failures_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """[WSK5]"""
    now = 100.0
    monkeypatch.setattr(message_transport, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(message_transport, "random", SimpleNamespace(uniform=lambda low, high: high))
    transport = MemoryTransport()
    transport.failures = 3
    first = message_transport.FIRST_PAUSE
    # The pauses are doubled each time.
    for later, attempts in ((0.0, 1), (0.9 * first, 1), (0.2 * first, 2), (1.8 * first, 2), (0.4 * first, 3)):
        now += later
        with pytest.raises(EndpointError, match="cannot connect"):
            await transport.exchange(b"", [1], 5.0, SMALL)
        assert transport.attempts == attempts
    now += message_transport.MAX_PAUSE
    async with asking(transport, 1) as (connection, task):
        connection.take(b'{"id":1}')
        await task
        connection.end("restart")
    # It has answered: the next is opened at once.
    async with asking(transport, 2) as (connection, _):
        connection.end("at once")
    with pytest.raises(EndpointError, match="at once"):
        await transport.exchange(b"", [3], 5.0, SMALL)
    assert transport.attempts == 5
