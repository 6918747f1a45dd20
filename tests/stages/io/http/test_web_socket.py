"""JSON-RPC over WebSocket with a real server: answers in any order, lost connections, refused handshakes, and endpoints
that send anything [WSK1 to WSK6]."""

import asyncio
import re
import resource
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from rollup_node.stages.io.http import message_transport, web_socket
from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.answer_limits import RECEIPTS
from tests.support.servers.http_listener import app_for_every_path, listening
from tests.support.servers.web_socket_server import UNREADABLE_DATE, Answer, WebSocketServer, web_socket_url

SECONDS = 20.0
"""For an answer that comes."""


@asynccontextmanager
async def client_of(server: WebSocketServer, **options: Any) -> AsyncIterator[JsonRpcClient]:
    async with listening(server.app) as (url,):
        client = JsonRpcClient(f"{web_socket_url(url)}/secret-key", **options)
        try:
            yield client
        finally:
            await client.close()
            await server.drop_connections()


async def failure_of(client: JsonRpcClient, method: str = "eth_x", timeout: float | None = None) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        await client.call(method, timeout=timeout)
    assert str(caught.value).startswith("127.0.0.1:")
    assert "secret-key" not in str(caught.value)
    return caught.value


async def connected_again(client: JsonRpcClient) -> Any:
    """Return the result of a call that is repeated while the pause after a failure lasts."""
    async with asyncio.timeout(20):
        while True:
            with suppress(EndpointError):
                return await client.call("eth_x")
            await asyncio.sleep(0.01)


async def test_calls_and_batches_share_one_connection() -> None:
    server = WebSocketServer()
    async with client_of(server, max_batch=3, max_concurrency=5) as client:
        calls = [client.call("eth_x", n) for n in range(20)]
        assert await asyncio.gather(*calls) == [["eth_x", [n]] for n in range(20)]
        batch = await client.batch([("eth_y", [n]) for n in range(7)])
        assert batch == [["eth_y", [n]] for n in range(7)]
    assert len(server.handshakes) == 1
    assert [len(request) for request in server.requests if isinstance(request, list)] == [3, 3]


async def test_every_handshake_has_a_token_of_its_own() -> None:
    tokens = iter(["one", "two"])
    server = WebSocketServer()
    async with client_of(server, headers=lambda: {"Authorization": next(tokens)}) as client:
        await client.call("a")
        await client.call("b")
        await server.drop_connections()
        await connected_again(client)
    assert [handshake["Authorization"] for handshake in server.handshakes] == ["one", "two"]


@pytest.mark.parametrize(
    ("status", "ahead", "text"),
    [
        (401, 0, ": the token is refused"),
        (401, 100, r": the token is refused, our clock is (99|100|101) s ahead of that of the endpoint"),
        (403, -3600, r": the token is refused, our clock is 3(599|600|601) s behind that of the endpoint"),
        (503, 100, ""),
        *((401, date, ": the token is refused") for date in (UNREADABLE_DATE, "?", "")),
    ],
)
async def test_a_refused_handshake_names_status_and_clock(status: int, ahead: int | str, text: str) -> None:
    """[WSK4] A date that cannot be read is left out."""
    server = WebSocketServer()
    date = ahead if isinstance(ahead, str) else format_datetime(datetime.now(UTC) - timedelta(seconds=ahead), True)
    server.refuse = lambda: web.Response(status=status, headers={"Date": date})
    async with client_of(server) as client:
        error = await failure_of(client)
    assert error.status == status
    assert re.search(rf": HTTP status {status} in the WebSocket handshake{text}$", str(error))


async def test_a_redirect_is_refused() -> None:
    server = WebSocketServer()
    server.refuse = lambda: web.Response(status=307, headers={"Location": "http://127.0.0.1:1/"})
    async with client_of(server) as client:
        assert "a redirect instead of a WebSocket handshake" in str(await failure_of(client))


async def test_a_connection_that_hangs_is_a_failed_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """[WSK5]"""
    monkeypatch.setattr(message_transport, "FIRST_PAUSE", 3.0)
    accepted: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
    client = JsonRpcClient(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/secret-key", timeout=0.2)
    for _ in range(2):
        assert "no WebSocket connection within 0.2 s" in str(await failure_of(client))
    await client.close()
    server.close()
    for writer in accepted:
        writer.close()
    assert len(accepted) == 1


async def test_a_call_that_is_cancelled_is_no_failed_attempt() -> None:
    server = WebSocketServer()
    async with client_of(server) as client:
        call = asyncio.create_task(client.call("eth_x"))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert await client.call("eth_x") == ["eth_x", []]


def _sends(*messages: str) -> Answer:
    async def answer(_: WebSocketServer, socket: web.WebSocketResponse, __: Any) -> None:
        for message in messages:
            await socket.send_str(message)

    return answer


def _closes(code: int) -> Answer:
    async def answer(_: WebSocketServer, socket: web.WebSocketResponse, __: Any) -> None:
        await socket.close(code=code)

    return answer


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (_sends("garbage"), "lost (malformed message, the answer is not JSON: garbage)"),
        (_sends("[" * 600_000), "lost (malformed message, the answer has 600000 values"),
        (_sends("7"), "lost (malformed message, "),
        (_sends("[1]"), "lost (malformed message, "),
        (_sends('{"id":1}'), "the answer to eth_x has neither result nor error"),
        (_sends('{"jsonrpc":"2.0","method":"eth_subscription"}', "[]"), "no answer within 0.3 s"),
        (_closes(1000), "the WebSocket connection was lost (closed by the endpoint, code 1000)"),
        (_closes(1009), "the WebSocket connection was lost (closed by the endpoint, code 1009)"),
    ],
)
async def test_what_an_endpoint_may_send(answer: Answer, text: str) -> None:
    """Each is an error of the request, and the client goes on with an endpoint that answers properly [WSK3].

    With 1009 an endpoint refuses a request that is too large for it; for answers this end has the same code."""
    server = WebSocketServer(answer=answer)
    async with client_of(server, timeout=0.3) as client:
        error = await failure_of(client)
        assert text in str(error) and not isinstance(error, AnswerTooLargeError)
        assert len(server.requests) == 1, "nothing is sent again"
        server.answer = WebSocketServer.answer_properly
        assert await connected_again(client) == ["eth_x", []]


@asynccontextmanager
async def _raw_server(frames: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """Yield a server that completes the handshake with aiohttp and then writes what it likes to the connection."""

    async def handler(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        assert request.transport is not None
        await frames(request.transport)  # type: ignore[arg-type]
        return socket

    async with listening(app_for_every_path(handler)) as (url,):
        yield web_socket_url(url)


async def test_a_message_of_many_frames_is_refused_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """[WSK2] They do not make the process grow by more than the limit, which is smaller here."""
    limit = 1 << 24
    assert limit > message_transport.SHARED_MESSAGE
    monkeypatch.setattr(message_transport, "SHARED_MESSAGE", limit)

    async def write(transport: Any) -> None:
        part = bytes(1 << 20)
        for index in range(1024):
            if transport.is_closing():
                return
            transport.write((b"\x01" if index == 0 else b"\x00") + b"\x7f" + struct.pack(">Q", len(part)) + part)
            await asyncio.sleep(0)
            while transport.get_write_buffer_size() > 1 << 20 and not transport.is_closing():
                await asyncio.sleep(0.001)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(AnswerTooLargeError, match=f"a message is longer than {limit} bytes"):
        async with _raw_server(write) as url:
            client = JsonRpcClient(url, timeout=30.0)
            try:
                await client.call("eth_x")
            finally:
                await client.close()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 3 * limit // 2


async def test_no_message_is_longer_than_any_answer_of_the_client() -> None:
    """[WSK2] The length alone ends the connection; an answer may have just the limit."""

    async def announce(transport: Any) -> None:
        transport.write(b"\x81\x7f" + struct.pack(">Q", 65_537))
        await asyncio.sleep(10)

    async with _raw_server(announce) as url:
        client = JsonRpcClient(url, timeout=5.0, max_body=65_536)
        with pytest.raises(AnswerTooLargeError, match="a message is longer than 65536 bytes"):
            await client.call("eth_x")
        await client.close()

    async def answer(_: WebSocketServer, socket: web.WebSocketResponse, request: Any) -> None:
        start = f'{{"id":{request["id"]},"result":"'
        await socket.send_str(start + "x" * (65_536 - len(start) - 2) + '"}')

    async with client_of(WebSocketServer(answer=answer), max_body=65_536) as client:
        assert set(await client.call("eth_x")) == {"x"}


async def test_a_long_answer_to_a_short_call_is_refused_while_a_long_one_is_received(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[WSK2] The call that may have a long answer waits on a connection of its own.

    With the limit of go-ethereum's client, 32 MiB, op-node cannot read the receipts of a large block."""
    assert RECEIPTS.bytes > 32 << 20
    monkeypatch.setattr(message_transport, "SHARED_MESSAGE", 2 << 20)

    async def answer(_: WebSocketServer, socket: web.WebSocketResponse, request: Any) -> None:
        if request["method"] == "eth_getBlockReceipts":
            await asyncio.sleep(0.1)
        await socket.send_str(f'{{"id":{request["id"]},"result":"{"x" * (5 << 20)}"}}')

    async with client_of(WebSocketServer(answer=answer), timeout=SECONDS) as client:
        calls = [client.call(method) for method in ("eth_getBlockReceipts", "eth_chainId", "eth_x")]
        results: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
    assert len(results[0]) == 5 << 20
    assert [type(error) for error in results[1:]] == [AnswerTooLargeError, AnswerTooLargeError]


@pytest.mark.fault("F8")
async def test_an_endpoint_without_pongs_is_named_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """[WSK1]"""
    monkeypatch.setattr(web_socket, "HEARTBEAT", 0.2)
    async with _raw_server(lambda _: asyncio.sleep(5)) as url:
        client = JsonRpcClient(url, timeout=5.0)
        with pytest.raises(EndpointError, match=r"was lost \(no pong within 0.1 s\)"):
            await client.call("eth_x")
        await client.close()


async def test_a_subscription_notifies_and_its_loss_does() -> None:
    """[WSK6]"""
    server = WebSocketServer()
    notified = asyncio.Event()
    async with client_of(server, on_notification=notified.set) as client:
        assert client.can_subscribe
        assert not client.is_subscribed
        await client.subscribe("newHeads")
        assert client.is_subscribed
        for cause in (server.notify, server.drop_connections):
            notified.clear()
            await cause()
            async with asyncio.timeout(10):
                await notified.wait()
        assert not client.is_subscribed
        await connected_again(client)
        await client.subscribe("newHeads")
        assert len(server.subscribers) == 1
