"""The rpc stage with the other processes played by buses, and an HTTP session, for tests."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from aiohttp import ClientSession

from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.messages.p2p import PeerRequest, PeerResponse
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.process.stage import RpcStage, build
from rollup_node.stages.topology import CHANNELS

L1 = L1BlockRef(b"\x01" * 32, 10, b"\x02" * 32, 100)
L2 = L2BlockRef(b"\x03" * 32, 20, b"\x04" * 32, 200, BlockId(10, b"\x01" * 32), 2)
ROLLUP = RollupConfig(
    genesis=Genesis(
        BlockId(1, b"\x01" * 32), BlockId(0, b"\x02" * 32), 5, SystemConfig(b"\x01" * 20, ZERO_HASH, ZERO_HASH, 30)
    ),
    block_time=2,
    max_sequencer_drift=600,
    seq_window_size=20,
    channel_timeout=10,
    l1_chain_id=900,
    l2_chain_id=901,
    fork_times={"regolith": 0, "canyon": 5},
    batch_inbox=b"\x02" * 20,
    deposit_contract=b"\x03" * 20,
    l1_system_config=b"\x04" * 20,
)


def answer_for_peers(asked: PeerRequest) -> PeerResponse:
    """Tells what was asked; `protectPeer` is refused."""
    told = orjson.dumps([asked.method, asked.argument])
    is_refused = asked.method == "protectPeer"
    return PeerResponse(asked.id, b"" if is_refused else told, "no connection manager" if is_refused else None, -32000)


class World:
    """The rpc stage, its neighbours, and an HTTP session."""

    def __init__(self, directory: Path, **config: Any) -> None:
        others = ("l1", "blobs", "derivation", "engine", *(("p2p",) if config.get("p2p") else ()))
        roles = dict.fromkeys((*others, "rpc"), 1)
        self.buses = in_process_buses(CHANNELS, directory, roles)
        values = {"enable_admin": True, "metrics_enabled": False, **config}
        self.config = RpcConfig(
            addr="127.0.0.1",
            port=0,
            version="v1.2.3-dev",
            metrics_addr="127.0.0.1",
            metrics_port=0,
            metrics_dir=str(directory),
            rollup=ROLLUP,
            **values,
        )
        self.meter = Meter("rpc")
        self.stage: RpcStage = build(self.config, self.buses["rpc"], self.meter)
        self.status = {name: self.buses[name].publish(f"status.{name}") for name in others}
        self.asked: list[Any] = []
        self.answer: Callable[[Any], Any] = lambda message: None
        self.control = self.buses["engine"].serve("engine.control", self.take)
        if config.get("p2p"):
            self.peers = self.buses["p2p"].serve(
                "p2p.control", lambda peer, asked: self.peers.send(peer, answer_for_peers(asked))
            )

    def tell_of_peers(self, peer: Any, asked: PeerRequest) -> None:
        self.peers.send(peer, answer_for_peers(asked))

    def take(self, peer: Any, message: Any) -> None:
        self.asked.append(message)
        answer = self.answer(message)
        if answer is not None:
            self.control.send(peer, answer)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["World"]:
        async with running_buses(self.buses), ClientSession() as self.http:
            await self.stage.start()
            self.url = f"http://127.0.0.1:{self.stage.rpc.port}"
            try:
                yield self
            finally:
                await self.stage.close()

    async def post(self, data: bytes | io.BytesIO, **headers: str) -> tuple[int, bytes]:
        sent = {"Content-Type": "application/json", **headers}
        async with self.http.post(self.url + "/", data=data, headers=sent) as response:
            return response.status, await response.read()

    async def call(self, method: str, *params: Any) -> Any:
        """The result, or the error's code and message."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        status, answer = await self.post(orjson.dumps(body))
        assert status == 200
        found = orjson.loads(answer)
        return (found["error"]["code"], found["error"]["message"]) if "error" in found else found["result"]

    def all_well(self) -> None:
        self.status["l1"].set(L1Heads(L1, L1, L1))
        self.status["engine"].set(EngineStatus(1, L2, L2, L2, L2, L2, True, True))
        self.status["derivation"].set(DerivationStatus(1, L1, True, 5))
        for status in self.status.values():
            status.set(Health(()))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.01)

    async def until_ready(self) -> None:
        self.all_well()
        async with asyncio.timeout(10):
            while (await self.get("/readyz"))[0] != 200:
                await asyncio.sleep(0.02)

    async def get(self, path: str) -> tuple[int, bytes]:
        async with self.http.get(self.url + path) as response:
            return response.status, await response.read()
