"""Events for a supervisor, its calls, and a supervisor of a node with an engine process behind it [IOP1 to IOP22]."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import jwt
import orjson
import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSServerHandshakeError

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.engine.core import interop
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.interop import (
    DerivedPair,
    InteropEvent,
    InteropEvents,
    InteropEventsRequest,
    InteropRequest,
    InteropResponse,
    Replacement,
)
from rollup_node.stages.protocol.block_refs import ref_object
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import BlockId, BlockRef
from rollup_node.stages.rpc import jsonrpc
from rollup_node.stages.rpc.config import RpcConfig, RpcProcessConfig
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.stages.rpc.parameters import parse_params
from rollup_node.stages.rpc.process import interop_server
from rollup_node.stages.rpc.process.interop_server import (
    MAX_QUEUED,
    InteropClient,
    InteropRpcServer,
    interop_methods,
    shown_event,
)
from rollup_node.stages.rpc.process.stage import RpcStage
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.stages.engine.core.test_interop import FORKS
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.engine_node import EngineNode, follow
from tests.support.engine.fake_engine import SlowEngine
from tests.support.processes.recording_bus import RecordingBus
from tests.support.processes.stage_runner import driven

REF = BlockRef(b"\x01" * 32, 7, b"\x02" * 32, 70)
SHOWN = {"hash": "0x" + "01" * 32, "number": 7, "parentHash": "0x" + "02" * 32, "timestamp": 70}
PAIR = DerivedPair(REF, REF)


def reset(text: str) -> InteropEvent:
    return InteropEvent(reset=text)


def stream_of_events() -> InteropClient:
    return InteropClient(cast(Bus, RecordingBus()))


def test_events_are_pulled_in_their_order() -> None:
    stream = stream_of_events()
    for number in (5, 6, 6, 4):
        stream.add(number, reset(str(number)))
    assert stream.last == 6
    assert [stream.pull(), stream.pull()] == [{"reset": "5"}, {"reset": "6"}], "each is taken once"
    with pytest.raises(JsonRpcError, match="out of events") as caught:
        stream.pull()
    assert caught.value.code == -39001
    for number in range(7, MAX_QUEUED + 9):
        stream.add(number, reset(str(number)))
    assert stream.pull() == {"reset": "9"}, "the oldest are dropped"


def test_a_repeated_event_takes_one_place() -> None:
    stream = stream_of_events()
    stream.add(1, InteropEvent(unsafe_block=REF))
    for number in range(2, 2 * MAX_QUEUED):
        stream.add(number, reset("again"))
    assert stream.last == 2 * MAX_QUEUED - 1
    assert [stream.pull(), stream.pull()] == [{"unsafeBlock": SHOWN}, {"reset": "again"}]
    with pytest.raises(JsonRpcError, match="out of events"):
        stream.pull()
    stream.add(2 * MAX_QUEUED, reset("again"))
    assert stream.pull() == {"reset": "again"}, "it is sent again once it was taken"


def test_a_subscriber_gets_what_comes_after() -> None:
    stream = stream_of_events()
    first: list[dict[str, Any]] = []
    second: list[dict[str, Any]] = []
    stream.add(1, reset("1"))
    stream.subscribe(take_first := first.append)
    stream.add(2, reset("2"))
    stream.subscribe(take_second := second.append)
    stream.unsubscribe(take_first)
    stream.add(3, reset("3"))
    assert (first, second) == ([{"data": {"reset": "2"}}], [{"data": {"reset": "3"}}])
    with pytest.raises(JsonRpcError):
        stream.pull()
    assert second[-1] == {"data": None, "close": True}, "whoever pulls ends the subscription"
    stream.add(4, reset("4"))
    stream.unsubscribe(take_second)
    assert stream.pull() == {"reset": "4"}


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (InteropEvent(unsafe_block=REF), {"unsafeBlock": SHOWN}),
        (InteropEvent(exhaust_l1=PAIR), {"exhaustL1": {"source": SHOWN, "derived": SHOWN}}),
        (
            InteropEvent(derivation_update=PAIR, derivation_origin_update=REF),
            {"derivationUpdate": {"source": SHOWN, "derived": SHOWN}, "derivationOriginUpdate": SHOWN},
        ),
        (
            InteropEvent(replace_block=Replacement(REF, b"\x03" * 32)),
            {"replaceBlock": {"replacement": SHOWN, "invalidated": "0x" + "03" * 32}},
        ),
    ],
)
def test_events_as_json(event: InteropEvent, shown: dict[str, Any]) -> None:
    assert shown_event(event) == shown


BLOCK = {"hash": "0x" + "01" * 32, "number": 7}
ID = BlockId(7, b"\x01" * 32)


class Engine:
    """The engine process: it keeps the calls, and fails those of `failing` methods."""

    def __init__(self, directory: Path) -> None:
        self.buses = in_process_buses(CHANNELS, directory, {"engine": 1, "rpc": 1})
        self.calls: list[InteropRequest] = []
        self.failing: set[str] = set()
        self._server = self.buses["engine"].serve("engine.interop", self._take)
        self.client = InteropClient(self.buses["rpc"])
        self.methods = {method.name: method for method in interop_methods(self.client)}

    def _take(self, peer: ProcessId, message: InteropEventsRequest | InteropRequest) -> None:
        if isinstance(message, InteropEventsRequest):
            events = tuple((number, InteropEvent(reset=str(number))) for number in (1, 2) if number > message.after)
            self._server.send(peer, InteropEvents(events))
            return
        self.calls.append(message)
        if message.method in self.failing:
            self._server.send(peer, InteropResponse(message.id, b"null", "conflicting block", -39002, b'{"number":3}'))
        else:
            self._server.send(peer, InteropResponse(message.id, b'"done"'))

    async def call(self, name: str, *params: Any) -> Any:
        """Return a call as the server makes it, without a node."""
        method = self.methods[f"interop_{name}"]
        return await method.run(None, *parse_params(list(params), method.parsers))


async def test_calls_go_to_the_engine_process(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    async with running_buses(engine.buses), asyncio.timeout(10):
        provided = {**BLOCK, "parentHash": "0x" + "02" * 32, "timestamp": 70}
        calls: list[tuple[str, tuple[Any, ...], InteropRequest]] = [
            ("updateCrossUnsafe", (BLOCK,), InteropRequest(0, "updateCrossUnsafe", (ID,))),
            ("updateCrossSafe", (BLOCK, BLOCK), InteropRequest(0, "updateCrossSafe", (ID, ID))),
            ("invalidateBlock", ({**BLOCK, "timestamp": 9},), InteropRequest(0, "invalidateBlock", (ID,))),
            ("reset", (BLOCK,) * 5, InteropRequest(0, "reset", (ID,) * 5)),
            ("resetPreInterop", (), InteropRequest(0, "resetPreInterop")),
            ("fetchReceipts", (BLOCK["hash"],), InteropRequest(0, "fetchReceipts", (BlockId(0, ID.hash),))),
            ("outputV0AtTimestamp", (70,), InteropRequest(0, "outputV0AtTimestamp", number=70)),
            ("provideL1", (provided,), InteropRequest(0, "provideL1", l1=BlockRef(ID.hash, 7, b"\x02" * 32, 70))),
        ]
        for number, (name, params, request) in enumerate(calls, 1):
            assert orjson.dumps(await engine.call(name, *params)) == b'"done"'
            assert engine.calls[-1] == InteropRequest(number, name, request.blocks, request.l1, request.number)
        engine.failing.add("reset")
        with pytest.raises(JsonRpcError, match="conflicting block") as caught:
            await engine.call("reset", *(BLOCK,) * 5)
        assert caught.value.code == -39002 and orjson.dumps(caught.value.data) == b'{"number":3}'


# --- with an engine process ---------------------------------------------------------------------------------------

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
        meter = Meter("rpc")
        self.stage = RpcStage(RpcProcessConfig({"": config}), self.node.buses["rpc"], meter)
        async with self.node.running(), ClientSession() as self.http, driven(self.stage, meter, "rpc"):
            yield self

    @property
    def server(self) -> InteropRpcServer:
        (server,) = self.stage.streams
        assert isinstance(server, InteropRpcServer)
        return server

    @property
    def url(self) -> str:
        return self.stage.servers["interop.rpc"].local_url

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
    for name in (subscription, ""):
        assert (await supervisor.call(socket, "unsubscribe", name))["error"]["code"] == -32000
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
    await node.until(lambda: server.client.last > 0)
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
    socket = await supervisor.connect()
    for _ in range(20):
        await supervisor.call(socket, "chainID", *["x" * 1000])
    assert supervisor.stage.servers["interop.rpc"].held < 5000, "a connection does not hold all that it has ever sent"
    await socket.close()


def request(number: int, method: str, *params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": f"interop_{method}", "params": params}


async def test_decisions_keep_their_order_and_delay_no_other_call(supervisor: Supervisor) -> None:
    """[IOP31]"""
    engine = supervisor.engine
    socket = await supervisor.connect()
    engine.ready.clear()
    absent = {"hash": "0x" + "99" * 32, "number": 9}
    receipts = request(1, "fetchReceipts", to_hex(supervisor.refs[2].hash))
    await socket.send_json([receipts, request(2, "updateFinalized", absent)])
    await socket.send_json(request(3, "provideL1", ref_object(supervisor.chain.l1_ref(105))))
    await socket.send_json(request(5, "chainID"))
    assert (await socket.receive_json())["id"] == 5, "it does not wait for those before it"
    engine.ready.set()
    assert [item["id"] for item in await socket.receive_json()] == [1, 2], "decisions keep their order"
    assert (await socket.receive_json())["id"] == 3


async def test_a_batch_ends_at_25_megabytes(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jsonrpc.MAX_BATCH_RESPONSE == 25_000_000
    monkeypatch.setattr(jsonrpc, "MAX_BATCH_RESPONSE", 250_000)
    supervisor.engine.answers["eth_getBlockReceipts"] = [["x" * 10_000]] * 100
    socket = await supervisor.connect()
    wanted = to_hex(supervisor.refs[2].hash)
    await socket.send_json([request(number, "fetchReceipts", wanted) for number in range(100)])
    result = await socket.receive_json()
    assert len(result) == 100 and all("result" in item for item in result[:25])
    assert {item["error"]["code"] for item in result[26:]} == {-32003}
    assert len(supervisor.engine.answers["eth_getBlockReceipts"]) > 70, "nothing is read for those"


async def test_what_waits_for_a_client_that_does_not_read_is_bounded_in_bytes(supervisor: Supervisor) -> None:
    socket = await supervisor.connect()
    await supervisor.call(socket, "subscribe", "events")
    (session,) = supervisor.server.sessions
    event = InteropEvent(reset="x" * 1_000_000)
    for number in range(1, 200):
        supervisor.server.client.add(number << 40, event)
        assert session.waiting_bytes < interop_server.MAX_WAITING_BYTES + 1_001_000
    assert supervisor.server.client.pull() == {"reset": event.reset}, "it has no subscriber any more"
    await supervisor.node.until(lambda: not supervisor.server.sessions)
    other = await supervisor.connect()
    assert (await supervisor.call(other, "chainID"))["result"] == "901", "others are served"
