"""A supervisor at the interop server: WebSocket and HTTP with a JWT, and an engine process behind it [IOP1 to IOP6]."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import orjson
import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, WSServerHandshakeError

from rollup_node.stages.engine.heads import interop
from rollup_node.stages.engine.process.interop_server import MAX_RECEIPTS
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.interop import InteropEvent
from rollup_node.stages.protocol.block_refs import ref_object
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.rpc.config import RpcConfig, RpcProcessConfig
from rollup_node.stages.rpc.process import interop_server, websocket
from rollup_node.stages.rpc.process.interop_server import InteropRpcServer
from rollup_node.stages.rpc.process.listener import Listener
from rollup_node.stages.rpc.process.stage import RpcStage
from tests.stages.engine.heads.test_interop import FORKS
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.engine_node import EngineNode, follow
from tests.support.engine.fake_engine import SlowEngine
from tests.support.p2p.hosts import running_tasks

SECRET = b"\x33" * 32


def bearer(secret: bytes = SECRET, age: int = 0) -> dict[str, str]:
    return {"Authorization": f"Bearer {jwt.encode({'iat': int(time.time()) - age}, secret, algorithm='HS256')}"}


class Supervisor:
    """A supervisor's client, of a node whose engine has three blocks, and answers some reads when it is `ready`."""

    def __init__(self, engine: SlowEngine, directory: Path) -> None:
        self.chain, self.engine, self._directory = engine.chain, engine, directory
        self.refs = follow(self.chain, self.engine, 3)
        self._last = 0
        self._notifications: deque[Any] = deque()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Supervisor"]:
        """Run engine and rpc process."""
        self.node = EngineNode(self.chain, self.engine, self._directory, interop=True)
        config = RpcConfig("v", self.chain.rollup, "127.0.0.1", interop_addr="127.0.0.1", interop_jwt=SECRET)
        self.stage = RpcStage(RpcProcessConfig({"": config}), self.node.buses["rpc"], Meter("rpc"))
        async with self.node.running(), ClientSession() as self.http:
            await self.stage.start()
            try:
                async with running_tasks(*self.stage.periodic_tasks):
                    yield self
            finally:
                await self.stage.close()

    @property
    def listener(self) -> Listener:
        assert self.stage.interop is not None
        return self.stage.interop

    @property
    def server(self) -> InteropRpcServer:
        assert self.stage.interop_server is not None
        return self.stage.interop_server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.port}"

    async def post(self, method: str, *params: Any, headers: dict[str, str] | None = None) -> Any:
        """Return the response object to a call by HTTP."""
        body = {"jsonrpc": "2.0", "id": 1, "method": f"interop_{method}", "params": params}
        sent = {"Content-Type": "application/json", **(bearer() if headers is None else headers)}
        async with self.http.post(self.url + "/", data=orjson.dumps(body), headers=sent) as response:
            text = await response.read()
            return orjson.loads(text) if response.status == 200 else response.status

    async def connect(self, path: str = "/") -> ClientWebSocketResponse:
        """Return a WebSocket connection."""
        return await self.http.ws_connect(self.url + path, headers=bearer())

    async def call(self, socket: ClientWebSocketResponse, method: str, *params: Any) -> Any:
        """Return the response object to a call by WebSocket; notifications before it are kept."""
        self._last += 1
        await socket.send_json({"jsonrpc": "2.0", "id": self._last, "method": f"interop_{method}", "params": params})
        while True:
            result = await socket.receive_json()
            if result.get("id") == self._last:
                return result
            self._notifications.append(result)

    async def reset(self, socket: ClientWebSocketResponse) -> list[dict[str, Any]]:
        """The supervisor names unsafe, cross unsafe, local safe, cross safe and finalized head, which it returns."""
        names = [{"hash": to_hex(self.refs[number].hash), "number": number} for number in (3, 3, 2, 1, 0)]
        assert (await self.call(socket, "reset", *names))["result"] is None
        return names

    async def notification(self, socket: ClientWebSocketResponse, kind: str) -> Any:
        """Return the next notification of an event of this kind; those before it are dropped."""
        while True:
            result = self._notifications.popleft() if self._notifications else await socket.receive_json()
            if kind in result["params"]["result"]["data"]:
                return result


@pytest.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[Supervisor]:
    async with asyncio.timeout(30), SlowEngine(chain_with(FORKS)).serving() as engine:
        assert isinstance(engine, SlowEngine)
        async with Supervisor(engine, tmp_path).running() as running:
            yield running


@pytest.mark.option("interop.rpc.addr")
async def test_a_supervisor_manages_the_node_by_websocket(supervisor: Supervisor) -> None:
    """From the first event to a finalized block."""
    refs, engine = supervisor.refs, supervisor.engine
    for path in ("/", "/ws"):
        await (await supervisor.connect(path)).close()
    socket = await supervisor.connect()
    response = await supervisor.call(socket, "subscribe", "events")
    subscription = response["result"]
    names = await supervisor.reset(socket)
    notification = await supervisor.notification(socket, "unsafeBlock")
    assert notification["method"] == "interop_subscription"
    assert notification["params"]["subscription"] == subscription
    assert notification["params"]["result"]["data"]["unsafeBlock"]["hash"] == to_hex(refs[3].hash)
    l1 = supervisor.chain.l1_ref(102)
    source = {"hash": to_hex(l1.hash), "number": 102}
    assert (await supervisor.call(socket, "updateCrossSafe", names[2], source))["result"] is None
    assert (await supervisor.call(socket, "updateFinalized", names[3]))["result"] is None
    await supervisor.node.until(lambda: engine.finalized == refs[1].hash)
    assert engine.safe == refs[2].hash
    assert (await supervisor.call(socket, "chainID"))["result"] == "901"
    result = await supervisor.call(socket, "updateFinalized", {"hash": "0x" + "99" * 32})
    assert result["error"]["code"] == -32000
    assert (await supervisor.call(socket, "unsubscribe", subscription))["result"] is True
    assert (await supervisor.call(socket, "unsubscribe", subscription))["error"]["code"] == -32000
    await socket.send_str("nonsense")
    assert (await socket.receive_json())["error"]["code"] == -32700
    await socket.send_json([{"jsonrpc": "2.0", "id": 7, "method": "interop_chainID"}, 5])
    assert [item["id"] for item in await socket.receive_json()] == [7, None]
    await socket.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are repeated soon."""
    monkeypatch.setattr(interop, "RESET_SECONDS", 0.3)
    monkeypatch.setattr(interop, "EXHAUSTED_SECONDS", 0.6)


async def test_a_supervisor_that_missed_an_event_gets_it_again(quick: None, supervisor: Supervisor) -> None:
    """One that connects after the first event, and has no next L1 block when it is asked for it first [IOP29]."""
    node, server = supervisor.node, supervisor.server
    await node.until(lambda: server.client.stream.last > 0)
    await node.until(lambda: node.has_problem("waiting for the interop supervisor to call interop_reset"))
    socket = await supervisor.connect()
    await supervisor.call(socket, "subscribe", "events")
    await supervisor.notification(socket, "reset")
    await supervisor.reset(socket)
    await node.until(lambda: node.unsafe == 3)
    assert node.status is not None
    origin = supervisor.chain.l1_ref(105)
    node.buses["derivation"].publish("status.derivation").set(DerivationStatus(node.status.reset, origin, True))
    first = await supervisor.notification(socket, "exhaustL1")
    second = await supervisor.notification(socket, "exhaustL1")
    assert first["params"]["result"] == second["params"]["result"]
    assert second["params"]["result"]["data"]["exhaustL1"]["source"]["number"] == 105
    provided = supervisor.chain.l1_ref(106)
    assert (await supervisor.call(socket, "provideL1", ref_object(provided)))["result"] is None
    await node.until(lambda: node.status is not None and node.status.provided_l1 == provided)
    await socket.close()


async def test_http_and_events_that_are_pulled(supervisor: Supervisor) -> None:
    result: Any = {}
    while "result" not in result:
        result = await supervisor.post("pullEvent")
        assert "result" in result or result["error"] == {"code": -39001, "message": "out of events"}
    assert result["result"] == {"reset": "cannot continue derivation until Engine has been reset"}
    response = await supervisor.post("l2BlockRefByNumber", 2)
    assert response["result"]["hash"] == to_hex(supervisor.refs[2].hash)
    assert (await supervisor.post("subscribe", "events"))["error"]["code"] == -32601
    assert (await supervisor.post("other"))["error"]["code"] == -32601
    conflict = {"hash": "0x" + "99" * 32, "number": 3}
    error = (await supervisor.post("reset", *(conflict,) * 5))["error"]
    assert error["code"] == -39002 and error["data"]["number"] == 3


async def test_all_but_the_health_needs_a_token(supervisor: Supervisor) -> None:
    async with supervisor.http.get(supervisor.url + "/healthz") as response:
        assert (response.status, await response.json()) == (200, {"version": "v0.0.0"})
    for headers in ({}, bearer(b"\x44" * 32), bearer(age=100)):
        assert await supervisor.post("chainID", headers=headers) == 401
        with pytest.raises(WSServerHandshakeError) as caught:
            await supervisor.http.ws_connect(supervisor.url, headers=headers)
        assert caught.value.status == 401


async def test_a_slow_reader_and_a_large_message_end_the_connection(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "MAX_WAITING", 8)
    monkeypatch.setattr(interop_server, "MAX_MESSAGE", 1000)
    socket = await supervisor.connect()
    await supervisor.call(socket, "subscribe", "events")
    server = supervisor.server
    for number in range(1, 40):
        server.client.stream.add(number << 40, InteropEvent(reset="x" * 100_000))
    while (await socket.receive()).type not in (WSMsgType.CLOSED, WSMsgType.ERROR, WSMsgType.CLOSE):
        pass
    large = await supervisor.connect()
    await large.send_str("[" + " " * 2000 + "]")
    assert (await large.receive()).type is WSMsgType.CLOSE and large.close_code == 1009
    other = await supervisor.connect()
    assert (await supervisor.call(other, "chainID"))["result"] == "901", "others are served"


async def test_what_is_received_is_released(supervisor: Supervisor) -> None:
    """A connection that lives for months does not count as holding all that it has ever sent."""
    socket = await supervisor.connect()
    for _ in range(20):
        await supervisor.call(socket, "chainID", *["x" * 1000])
    assert supervisor.listener.held < 5000


def request(number: int, method: str, *params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": f"interop_{method}", "params": params}


def calls_under_way() -> int:
    return sum(task.get_name() == "websocket call" for task in asyncio.all_tasks())


async def test_calls_are_answered_at_the_same_time_and_decisions_in_order(supervisor: Supervisor) -> None:
    engine = supervisor.engine
    socket = await supervisor.connect()
    engine.ready.clear()
    provided = ref_object(supervisor.chain.l1_ref(105))
    absent = {"hash": "0x" + "99" * 32, "number": 9}
    receipts = request(1, "fetchReceipts", to_hex(supervisor.refs[2].hash))
    await socket.send_json([receipts, request(2, "updateFinalized", absent)])
    await socket.send_json(request(3, "provideL1", provided))
    await socket.send_json(request(5, "chainID"))
    assert (await socket.receive_json())["id"] == 5, "it does not wait for those before it"
    await supervisor.node.until(lambda: len(engine.slow) == 1)
    await socket.ping(b"now")
    await socket.send_json(request(6, "chainID"))
    assert (await socket.receive_json())["id"] == 6
    engine.ready.set()
    assert [item["id"] for item in await socket.receive_json()] == [1, 2], "decisions keep their order"
    assert (await socket.receive_json())["id"] == 3


async def test_a_connection_has_sixteen_calls_under_way_and_leaves_none(supervisor: Supervisor) -> None:
    engine = supervisor.engine
    wanted = to_hex(supervisor.refs[2].hash)
    engine.ready.clear()
    socket, other = await supervisor.connect(), await supervisor.connect()
    for number in range(1, 17):
        await socket.send_json(request(number, "fetchReceipts", wanted))
    await supervisor.node.until(lambda: calls_under_way() == 16)
    await socket.send_json(request(17, "chainID"))
    assert (await supervisor.call(other, "chainID"))["result"] == "901", "others are served"
    assert calls_under_way() == 16
    engine.ready.set()
    answered = [(await socket.receive_json())["id"] for _ in range(17)]
    assert answered[0] != 17 and sorted(answered) == list(range(1, 18))
    engine.ready.clear()
    asked = len(engine.slow)
    async with ClientSession() as leaving:
        gone = await leaving.ws_connect(supervisor.url, headers=bearer())
        for number in range(20):
            await gone.send_json(request(number, "fetchReceipts", wanted))
        await supervisor.node.until(lambda: calls_under_way() == 16)
    await supervisor.node.until(lambda: calls_under_way() == 0)
    assert len(engine.slow) <= asked + MAX_RECEIPTS, "they did not run to their ends"
    await supervisor.node.until(lambda: supervisor.listener.held < 5000)
    engine.ready.set()


async def test_a_batch_ends_at_25_megabytes(supervisor: Supervisor) -> None:
    supervisor.engine.answers["eth_getBlockReceipts"] = [["x" * 1_000_000]] * 100
    socket = await supervisor.http.ws_connect(supervisor.url, headers=bearer(), max_msg_size=0)
    wanted = to_hex(supervisor.refs[2].hash)
    await socket.send_json([request(number, "fetchReceipts", wanted) for number in range(100)])
    result = await socket.receive_json()
    assert len(result) == 100 and all("result" in item for item in result[:25])
    assert {item["error"]["code"] for item in result[26:]} == {-32003}
    assert len(supervisor.engine.answers["eth_getBlockReceipts"]) > 70, "nothing is read for those"


async def test_what_waits_for_a_client_that_does_not_read_is_bounded_in_bytes(supervisor: Supervisor) -> None:
    socket = await supervisor.connect()
    await supervisor.call(socket, "subscribe", "events")
    server = supervisor.server
    event = InteropEvent(reset="x" * 1_000_000)
    for number in range(1, 200):
        server.client.stream.add(number << 40, event)
        assert server.waiting_bytes < interop_server.MAX_WAITING_BYTES + 1_001_000
    assert server.client.stream.pull() == {"reset": event.reset}, "it has no subscriber any more"
    await supervisor.node.until(lambda: server.waiting_bytes == 0)
    other = await supervisor.connect()
    assert (await supervisor.call(other, "chainID"))["result"] == "901", "others are served"
