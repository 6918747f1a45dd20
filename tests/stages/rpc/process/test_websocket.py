"""One WebSocket connection: calls at the same time and in order, and how it ends. Subscriptions of the heads: what is
sent and when, to whom, and how much [RPC100]."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, ClientWSTimeout, WSMsgType, WSServerHandshakeError, web

from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.types import L2BlockRef
from rollup_node.stages.rpc import jsonrpc
from rollup_node.stages.rpc.connections import Limits
from rollup_node.stages.rpc.jsonrpc import JsonRpcRequest, ParsedBody, Response
from rollup_node.stages.rpc.process import websocket
from rollup_node.stages.rpc.process.listener import Exchange
from rollup_node.stages.rpc.process.websocket import (
    HEADS,
    MAX_CALLS,
    MAX_SUBSCRIPTIONS,
    Session,
    SessionServer,
    WebSocketRpcServer,
    asks_for_websocket,
)
from rollup_node.stages.rpc.responses import l2_ref
from tests.support.rpc.harness import L2, RpcHarness, running_listener


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
async def echoing() -> AsyncIterator[ClientWebSocketResponse]:
    async def handle(request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        assert asks_for_websocket(request)
        return await sessions.serve(request, exchange, 1000, lambda connection: Echo(connection, 10_000))

    sessions = SessionServer[Echo]()
    Echo.go, Echo.running, Echo.answers, Echo.ends = asyncio.Event(), 0, 0, 0
    async with (
        running_listener(handle, Limits(10, 10, 1 << 20)) as listener,
        ClientSession() as http,
        http.ws_connect(listener.local_url, timeout=ClientWSTimeout(ws_close=0.2)) as socket,
    ):
        yield socket
    assert not sessions.sessions


def call(method: str, number: int) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": number}


async def until_running(count: int) -> None:
    while Echo.running != count:
        await asyncio.sleep(0.01)


async def test_a_call_that_waits_delays_no_other() -> None:
    async with echoing() as socket:
        await socket.send_json(call("wait", 1))
        await socket.send_bytes(b'{"jsonrpc": "2.0", "id": 2, "method": "x", "params": 2}')
        assert (await socket.receive_json())["result"] == 2
        for text, code in (("{", -32700), ("[]", -32600)):
            await socket.send_str(text)
            assert (await socket.receive_json())["error"]["code"] == code, "no call"
        Echo.go.set()
        assert (await socket.receive_json())["result"] == 1
        assert Echo.answers == 2


async def test_what_is_ordered_is_answered_in_order() -> None:
    async with echoing() as socket:
        await socket.send_json([call("wait", 1)])
        await socket.send_json([call("x", 2), {"jsonrpc": "2.0", "method": "x"}])
        await until_running(1)
        Echo.go.set()
        assert [len(await socket.receive_json()) for _ in range(2)] == [1, 1]


async def test_only_so_many_calls_are_under_way_and_none_is_left() -> None:
    async with echoing() as socket:
        for number in range(2 * MAX_CALLS):
            await socket.send_json(call("wait", number))
        await until_running(MAX_CALLS)
        await socket.close()
        await until_running(0)
    assert (Echo.answers, Echo.ends) == (0, 1)


async def test_a_bug_and_a_long_message_end_the_connection(capfd: pytest.CaptureFixture[str]) -> None:
    async with echoing() as socket:
        await socket.send_json(call("crash", 1))
        assert (await socket.receive()).type in (WSMsgType.CLOSED, WSMsgType.CLOSE, WSMsgType.ERROR)
    async with echoing() as socket:
        await socket.send_str("x" * 1001)
        assert (await socket.receive()).data == 1009, "longer than the server takes"


# --- subscriptions of the heads --------------------------------------------------------------------------------------

SECRET = b"\x11" * 32


def block(number: int) -> L2BlockRef:
    return msgspec.structs.replace(L2, number=number, hash=number.to_bytes(32, "big"))


def status(unsafe: int | None, safe: int = 1, finalized: int = 1) -> EngineStatus:
    known = None if unsafe is None else block(unsafe)
    return EngineStatus(1, known, block(safe), block(safe), block(safe), block(finalized), True, True)


class Client:
    """A harness with a WebSocket."""

    def __init__(self, rpc: RpcHarness, socket: ClientWebSocketResponse) -> None:
        self.rpc, self.socket = rpc, socket

    async def call(self, method: str, *params: Any) -> Any:
        await self.socket.send_json({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        answer = await self.socket.receive_json()
        return answer.get("result", answer.get("error"))

    async def heads(self, unsafe: int | None, safe: int = 1, finalized: int = 1) -> None:
        """The engine process publishes heads, and the rpc process has seen them."""
        message = status(unsafe, safe, finalized)
        self.rpc.status["engine"].set(message)
        known = (message.unsafe, message.safe)
        await self.rpc.until(
            lambda: (view := self.rpc.stage.node.seen.engine) is not None and (view.unsafe, view.safe) == known
        )


@asynccontextmanager
async def connected(folder: Path, path: str = "/", **options: Any) -> AsyncIterator[Client]:
    async with (
        asyncio.timeout(30),
        RpcHarness(folder, ws_enabled=True, **options).running() as rpc,
        rpc.http.ws_connect(rpc.url + path) as socket,
    ):
        yield Client(rpc, socket)


@pytest.mark.option("rpc.ws-enabled")
@pytest.mark.parametrize(
    ("method", "changed"),
    [
        ("ws_subscribe_unsafe_head", {"unsafe": 9}),
        ("ws_subscribe_safe_head", {"safe": 9}),
        ("ws_subscribe_finalized_head", {"finalized": 9}),
    ],
)
async def test_a_change_of_the_head_is_sent_and_no_other(method: str, changed: dict[str, int], tmp_path: Path) -> None:
    async with connected(tmp_path, "/ws") as client:
        await client.heads(1)
        subscription = await client.call(method)
        before = {"unsafe": 1, "safe": 1, "finalized": 1}
        other = next(name for name in before if name not in changed)
        await client.heads(**{**before, other: 5, "unsafe": 5 if "unsafe" not in changed else 1})
        await client.heads(**{**before, **changed})
        assert await client.socket.receive_json() == {
            "jsonrpc": "2.0",
            "method": method,
            "params": {"subscription": subscription, "result": l2_ref(block(9))},
        }


async def test_a_subscription_ends(tmp_path: Path) -> None:
    """An unknown head is no change; a node that stops says so."""
    async with connected(tmp_path) as client:
        await client.heads(1)
        first, second = [await client.call("ws_subscribe_unsafe_head") for _ in range(2)]
        assert first != second
        assert await client.call("ws_unsubscribe_safe_head", first) is False, "of another head"
        assert await client.call("ws_unsubscribe_unsafe_head", first) is True
        assert await client.call("ws_unsubscribe_unsafe_head", first) is False
        assert (await client.call("ws_unsubscribe_unsafe_head"))["code"] == -32602
        for unsafe in (None, 1, 2):
            await client.heads(unsafe)
        params = (await client.socket.receive_json())["params"]
        assert (params["subscription"], params["result"]["number"]) == (second, 2)
        assert (await client.call("ws_subscribe_nothing"))["code"] == -32601
        await client.rpc.stage.close()
        assert (await client.socket.receive()).type is WSMsgType.CLOSE


async def test_every_method_is_served_and_batches_end_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(tmp_path) as client:
        assert (await client.call("optimism_rollupConfig"))["l2_chain_id"] == 901
        monkeypatch.setattr(websocket, "MAX_WAITING_BYTES", 100)
        call = {"jsonrpc": "2.0", "id": 1, "method": "optimism_rollupConfig"}
        await client.socket.send_json([call, call, {"jsonrpc": "2.0", "method": "optimism_version"}])
        first, second = await client.socket.receive_json()
        assert "result" in first and second["error"] == {"code": -32003, "message": "response too large"}


async def test_who_may_connect(tmp_path: Path) -> None:
    async with connected(tmp_path, vhosts=("name",), cors_domains=("https://a",), jwt_secret=SECRET) as client:

        async def status_of(**headers: str) -> int:
            try:
                async with client.rpc.http.ws_connect(client.rpc.url, headers=headers):
                    return 101
            except WSServerHandshakeError as error:
                return error.status

        assert [await status_of(Host=name) for name in ("name", "other")] == [101, 403]
        assert [await status_of(Origin=name) for name in ("https://a", "https://b")] == [101, 403]
        assert "unauthorized" in (await client.call("admin_sequencerActive"))["message"]
        token = jwt.encode({"iat": int(time.time())}, SECRET, algorithm="HS256")
        headers = {"Authorization": f"Bearer {token}"}
        async with client.rpc.http.ws_connect(client.rpc.url, headers=headers) as socket:
            answer = await Client(client.rpc, socket).call("admin_sequencerActive")
        assert not isinstance(answer, dict) or "unauthorized" not in answer["message"]


async def test_connections_and_subscriptions_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MAX_SESSIONS", 1)
    async with connected(tmp_path) as client:
        with pytest.raises(WSServerHandshakeError) as error:
            await client.rpc.http.ws_connect(client.rpc.url)
        assert error.value.status == 503
        names = [await client.call(method) for method in list(HEADS) * 6]
        assert [isinstance(name, str) for name in names] == [True] * MAX_SUBSCRIPTIONS + [False] * 2
        assert names[-1] == {"code": -32000, "message": "a connection has at most 16 subscriptions"}
        await client.socket.send_str("x" * (websocket.MAX_MESSAGE + 1))
        assert (await client.socket.receive()).data == 1009


@pytest.mark.parametrize(("bound", "most"), [("MAX_WAITING_BYTES", 1000), ("MAX_WAITING", 8)])
async def test_a_client_that_does_not_read_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(websocket, bound, most)
    async with connected(tmp_path) as client:
        assert await client.call("ws_subscribe_unsafe_head")
        # Nothing is sent while these come: the loop has no turn between them.
        for number in range(100):
            client.rpc.stage.node.on_engine(status(100 + number))
        with pytest.raises((ConnectionError, TypeError)):
            for _ in range(100):
                await client.socket.receive_json()
        (server,) = client.rpc.stage.streams
        assert isinstance(server, WebSocketRpcServer)
        await client.rpc.until(lambda: not server.sessions)
