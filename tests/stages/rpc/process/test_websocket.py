"""One WebSocket connection: calls at the same time and in order, and how it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, web

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.rpc import jsonrpc
from rollup_node.stages.rpc.connections import Limits
from rollup_node.stages.rpc.jsonrpc import JsonRpcRequest, ParsedBody, Response
from rollup_node.stages.rpc.process.listener import Exchange, Listener
from rollup_node.stages.rpc.process.websocket import (
    MAX_CALLS,
    OpenSessions,
    Session,
    asks_for_websocket,
    new_subscription,
    subscription,
)


class Echo(Session):
    """Answers with the parameters; `wait` waits for `go`, `crash` is a bug."""

    go: asyncio.Event
    running = answers = ends = 0

    async def respond(self, item: JsonRpcRequest, deadline: float, size: int) -> Response | None:
        Echo.running += 1
        try:
            if item.method == "wait":
                await self.go.wait()
            elif item.method == "crash":
                raise ZeroDivisionError
            return None if item.is_notification else jsonrpc.success_response(item.id, item.params)
        finally:
            Echo.running -= 1

    def answered(self, body: ParsedBody) -> None:
        Echo.answers += 1

    def ended(self) -> None:
        Echo.ends += 1

    def is_ordered(self, body: ParsedBody) -> bool:
        return body.is_batch


@asynccontextmanager
async def connected() -> AsyncIterator[ClientWebSocketResponse]:
    async def handle(request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        assert asks_for_websocket(request)
        return await sessions.serve(request, exchange, 1000, lambda connection: Echo(connection, 10_000))

    sessions = OpenSessions[Echo]()
    Echo.go, Echo.running, Echo.answers, Echo.ends = asyncio.Event(), 0, 0, 0
    listener = Listener(handle, "echo", "127.0.0.1", 0, Limits(10, 10, 1 << 20), Meter("rpc"))
    await listener.start()
    try:
        async with asyncio.timeout(30), ClientSession() as http, http.ws_connect(listener.local_url) as socket:
            yield socket
    finally:
        await listener.close()
        assert not sessions.open


def call(method: str, number: int) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": number}


async def until_running(count: int) -> None:
    while Echo.running != count:
        await asyncio.sleep(0.01)


async def test_a_call_that_waits_delays_no_other() -> None:
    async with connected() as socket:
        await socket.send_json(call("wait", 1))
        await socket.send_bytes(b'{"jsonrpc": "2.0", "id": 2, "method": "x", "params": 2}')
        assert (await socket.receive_json())["result"] == 2
        Echo.go.set()
        assert (await socket.receive_json())["result"] == 1
        assert Echo.answers == 2


async def test_what_is_ordered_is_answered_in_order() -> None:
    async with connected() as socket:
        await socket.send_json([call("wait", 1)])
        await socket.send_json([call("x", 2), {"jsonrpc": "2.0", "method": "x"}])
        await until_running(1)
        Echo.go.set()
        assert [len(await socket.receive_json()) for _ in range(2)] == [1, 1]


async def test_only_so_many_calls_are_under_way_and_none_is_left() -> None:
    async with connected() as socket:
        for number in range(2 * MAX_CALLS):
            await socket.send_json(call("wait", number))
        await until_running(MAX_CALLS)
        await socket.close()
        await until_running(0)
    assert (Echo.answers, Echo.ends) == (0, 1)


@pytest.mark.parametrize("text", ["{", "[]"])
async def test_what_is_no_call_is_answered_with_an_error(text: str) -> None:
    async with connected() as socket:
        await socket.send_str(text)
        assert (await socket.receive_json())["error"]["code"] in (-32700, -32600)


async def test_a_bug_and_a_long_message_end_the_connection(capfd: pytest.CaptureFixture[str]) -> None:
    async with connected() as socket:
        await socket.send_json(call("crash", 1))
        assert (await socket.receive()).type in (WSMsgType.CLOSED, WSMsgType.CLOSE, WSMsgType.ERROR)
    async with connected() as socket:
        await socket.send_str("x" * 1001)
        assert (await socket.receive()).data == 1009


async def test_a_request_for_something_else_becomes_no_connection() -> None:
    async with connected() as socket:
        assert socket.close_code is None
    assert len({new_subscription() for _ in range(100)}) == 100
    expected = {"jsonrpc": "2.0", "method": "m", "params": {"subscription": "0x1", "result": 2}}
    assert subscription("m", "0x1")(2) == expected
