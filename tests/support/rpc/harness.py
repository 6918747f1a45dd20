"""The rpc stage with the buses of the other processes, and an HTTP client."""

import asyncio
import io
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import orjson
from aiohttp import ClientSession

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import Health, Message
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.messages.p2p import PeerRequest, PeerResponse, PublishSignedRequest
from rollup_node.stages.protocol.config import Genesis, SystemConfig
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.config import RpcConfig, RpcProcessConfig
from rollup_node.stages.rpc.connections import Limits
from rollup_node.stages.rpc.process.listener import Handler, Listener
from rollup_node.stages.rpc.process.stage import RpcStage, build
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.support.chains.chain_fixture import make_rollup
from tests.support.timing.conditions import until

L1 = L1BlockRef(b"\x01" * 32, 10, b"\x02" * 32, 100)
L2 = L2BlockRef(b"\x03" * 32, 20, b"\x04" * 32, 200, BlockId(10, b"\x01" * 32), 2)
ROLLUP = make_rollup(
    {"regolith": 0, "canyon": 5},
    genesis=Genesis(
        BlockId(1, b"\x01" * 32), BlockId(0, b"\x02" * 32), 5, SystemConfig(b"\x01" * 20, ZERO_HASH, ZERO_HASH, 30)
    ),
    chain_op_config=None,
)


def peer_response(request: PeerRequest) -> PeerResponse:
    """Return what the p2p process answers: the method and its argument, but an error to `protectPeer`."""
    if request.method == "protectPeer":
        return PeerResponse(request.id, b"", "no connection manager", -32000)
    return PeerResponse(request.id, orjson.dumps([request.method, request.argument]), None, -32000)


class ServedStage:
    """An rpc stage with the buses of all processes, and a client of its server."""

    stage: RpcStage
    buses: dict[str, Bus]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run the stage and the buses."""
        async with running_buses(self.buses), ClientSession() as self.http:
            await self.stage.start()
            self.url = self.stage.rpc.local_url
            try:
                yield self
            finally:
                await self.stage.close()

    async def post(
        self, data: bytes | io.BytesIO | AsyncIterable[bytes], path: str = "/", **headers: str
    ) -> tuple[int, bytes]:
        """Status and body of a POST to the JSON-RPC endpoint."""
        sent = {"Content-Type": "application/json", **headers}
        async with self.http.post(self.url + path, data=data, headers=sent) as response:
            return response.status, await response.read()

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET."""
        async with self.http.get(self.url + path) as response:
            return response.status, await response.read()

    async def call(self, method: str, *params: Any, path: str = "/") -> Any:
        """Return the result of a JSON-RPC call, or the error's code and message."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        status, answer = await self.post(orjson.dumps(body), path)
        assert status == 200, answer
        result = orjson.loads(answer)
        return (result["error"]["code"], result["error"]["message"]) if "error" in result else result["result"]


class RpcHarness(ServedStage):
    """The rpc stage under test; `options` are fields of RpcConfig.

    `control_requests` are those that came on `engine.control`, and `on_control` makes the response to one, or None for
    no response. `signed_blocks` are those to publish; the p2p process answers `publish_error`."""

    def __init__(self, directory: Path, **options: Any) -> None:
        deriving = ("blobs", "derivation") if options.get("derives", True) else ()
        others = ("l1", *deriving, "engine", *(("p2p",) if options.get("p2p") else ()))
        self.buses = in_process_buses(CHANNELS, directory, dict.fromkeys((*others, "rpc"), 1))
        usual = RpcConfig(
            version="v1.2.3-dev",
            rollup=ROLLUP,
            addr="127.0.0.1",
            enable_admin=True,
            metrics_addr="127.0.0.1",
            metrics_dir=str(directory),
            pprof_addr="127.0.0.1",
            pprof_dir=str(directory),
            network="test-net",
            ready_l1_lag=12,
            status_addr="127.0.0.1",
        )
        self.config = msgspec.structs.replace(usual, **options)
        self.meter = Meter("rpc")
        self.stage = build(RpcProcessConfig({"": self.config}), self.buses["rpc"], self.meter)
        self.status = {name: self.buses[name].publish(f"status.{name}") for name in others}
        self.control_requests: list[Any] = []
        self.signed_blocks: list[PublishSignedRequest] = []
        self.publish_error: str | None = None
        self.on_control: Callable[[Any], Message | None] = lambda request: None
        self._control = self.buses["engine"].serve("engine.control", self._answer_control)
        if options.get("p2p"):
            self._peers = self.buses["p2p"].serve("p2p.control", self._answer_peer_request)

    def _answer_control(self, client: ProcessId, request: Message) -> None:
        self.control_requests.append(request)
        response = self.on_control(request)
        if response is not None:
            self._control.send(client, response)

    def _answer_peer_request(self, client: ProcessId, request: PeerRequest | PublishSignedRequest) -> None:
        if isinstance(request, PublishSignedRequest):
            self.signed_blocks.append(request)
            self._peers.send(client, PeerResponse(request.id, b"null", self.publish_error, -32000))
        else:
            self._peers.send(client, peer_response(request))

    until = staticmethod(until)

    async def until_unready(self) -> list[str]:
        """Wait until `/readyz` is 503; its reasons. A status is kept for a moment."""
        async with asyncio.timeout(10):
            while True:
                status, body = await self.get("/readyz")
                if status == 503:
                    return list(orjson.loads(body)["reasons"])
                await asyncio.sleep(0.02)

    async def until_ready(self) -> None:
        """Publish the states of a node that works, and waits until `/readyz` shows it."""
        self.status["l1"].set(L1Heads(L1, L1, L1))
        self.status["engine"].set(EngineStatus(1, L2, L2, L2, L2, L2, True, True))
        if self.config.derives:
            self.status["derivation"].set(DerivationStatus(1, L1, True))
        for status in self.status.values():
            status.set(Health(()))
        async with asyncio.timeout(10):
            while (await self.get("/readyz"))[0] != 200:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def running_listener(
    handler: Handler, limits: Limits, addr: str = "127.0.0.1", meter: Meter | None = None
) -> AsyncIterator[Listener]:
    """Run a server with one handler."""
    listener = Listener(handler, "rpc", addr, 0, limits, meter or Meter("rpc"))
    async with asyncio.timeout(30):
        await listener.start()
        try:
            yield listener
        finally:
            await listener.close()


RunWithRpc = Callable[..., AbstractAsyncContextManager[RpcHarness]]
"""Runs a harness with options."""
