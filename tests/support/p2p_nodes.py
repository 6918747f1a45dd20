"""The p2p stage of whole nodes for tests: on the loopback interface, with buses whose other ends the test holds."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import orjson

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.ipc.bus.testing import pumping
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.l1 import RuntimeConfig
from rollup_node.stages.messages.p2p import (
    PayloadRequest,
    PayloadResponse,
    PeerRequest,
    PeerResponse,
    PeerStatus,
    PublishRequest,
    PublishResponse,
    UnsafeBlock,
    UnsafeBlocksRequest,
)
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.identity.peer_id import Identity, peer_text
from rollup_node.stages.p2p.process.stage import P2pStage, build
from rollup_node.stages.protocol.block_hash import payload_block_hash
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.topology import CHANNELS
from tests.support.p2p_blocks import SIGNER, block, chain, chain_config
from tests.support.p2p_hosts import driven

KEY = b"\x11" * 32
"""The secret of `p2p_blocks.SIGNER`."""


def play(scene: Callable[[], Awaitable[None]], seconds: float = 40.0) -> None:
    """Runs a scene of a bounded time in an event loop of its own."""

    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await scene()

    asyncio.run(bounded())


def chain_of_now(length: int = 600, last_fork: str = "jovian") -> RollupConfig:
    """The made-up chain, begun so many seconds ago."""
    config = chain_config(last_fork)
    started = int(time.time()) - length
    forks = dict.fromkeys(config.fork_times, started)
    genesis = msgspec.structs.replace(config.genesis, l2_time=started)
    return msgspec.structs.replace(config, genesis=genesis, fork_times=forks)


def now_block(number: int = 1, version: int = 4, **changes: Any) -> ExecutionPayload:
    """A block of this second."""
    return block(version, number, timestamp=int(time.time()), **changes)


def timed_chain(rollup: RollupConfig, count: int, first: int = 1, version: int = 4) -> list[ExecutionPayload]:
    """Linked blocks at the times that the chain has for their numbers."""
    blocks: list[ExecutionPayload] = []
    for plain in chain(count, version, first):
        parent = blocks[-1].block_hash if blocks else plain.parent_hash
        at = rollup.genesis.l2_time + rollup.block_time * plain.block_number
        made = msgspec.structs.replace(plain, parent_hash=parent, timestamp=at)
        blocks.append(msgspec.structs.replace(made, block_hash=payload_block_hash(made)))
    return blocks


class P2pNode:
    """The stage, and what its neighbours heard."""

    def __init__(self, number: int, rollup: RollupConfig, directory: Path, **options: Any) -> None:
        self.arrived: list[ExecutionPayload] = []
        self.done: dict[int, str | None] = {}
        self.answers: dict[int, PeerResponse] = {}
        self.blocks: dict[int, ExecutionPayload] = {}
        self.status: PeerStatus | None = None
        self.health: tuple[str, ...] | None = None
        self._last = 0
        defaults: dict[str, Any] = {
            "priv_raw": bytes([number]) * 32,
            "listen_ip": "127.0.0.1",
            "listen_tcp": 0,
            "no_discovery": True,
            "netrestrict": ("127.0.0.0/8",),
        }
        self.config = P2pConfig(rollup, **{**defaults, **options})
        directory = directory / str(number)
        directory.mkdir(exist_ok=True)
        self.buses = Bus.for_test(CHANNELS, directory, dict.fromkeys(("l1", "engine", "p2p", "rpc"), 1))
        self.meter = Meter("p2p")
        self.l1 = self.buses["l1"].publish("status.l1")
        self.l1.set(RuntimeConfig(SIGNER.address))
        self.stage: P2pStage = build(self.config, self.buses["p2p"], self.meter)
        self.engine = self.buses["engine"].connect("p2p.blocks", self._from_p2p)
        self.payloads = self.buses["engine"].serve("engine.payloads", self._wanted)
        self.calls = self.buses["rpc"].connect("p2p.control", self._answered)
        self.buses["rpc"].subscribe("status.p2p", self._status)

    @property
    def address(self) -> str:
        """Its whole multiaddr, once it runs."""
        return f"/ip4/127.0.0.1/tcp/{self.stage.host.port}/p2p/{self.peer}"

    @property
    def peer(self) -> str:
        """Its peer id."""
        return peer_text(Identity(self.config.priv_raw or b"").peer_id)

    def _from_p2p(self, message: UnsafeBlock | PublishResponse) -> None:
        if isinstance(message, UnsafeBlock):
            self.arrived.append(message.payload)
        else:
            self.done[message.id] = message.error

    def _wanted(self, peer: ProcessId, want: PayloadRequest) -> None:
        self.payloads.send(peer, PayloadResponse(want.id, self.blocks.get(want.number), None))

    def _answered(self, answer: PeerResponse) -> None:
        self.answers[answer.id] = answer

    def _status(self, message: Any) -> None:
        if isinstance(message, PeerStatus):
            self.status = message
        elif isinstance(message, Health):
            self.health = message.problems

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["P2pNode"]:
        async with pumping(self.buses):
            await self.stage.start()
            self.engine.send(UnsafeBlocksRequest(0, None))
            try:
                async with driven(*self.stage.activities):
                    yield self
            finally:
                await self.stage.close()

    async def until(self, condition: Callable[[], Any], seconds: float = 15.0) -> Any:
        async with asyncio.timeout(seconds):
            while not (found := condition()):
                await asyncio.sleep(0.01)
            return found

    async def publish(self, payload: ExecutionPayload) -> str | None:
        """Publishes a block as the engine process does, again and again; the error text."""
        self._last += 1
        number = self._last
        async with asyncio.timeout(15.0):
            while number not in self.done:
                self.engine.send(PublishRequest(number, payload))
                await asyncio.sleep(0.05)
        return self.done[number]

    async def call(self, method: str, argument: object = "") -> Any:
        """An opp2p call; the result, or the error's code and text."""
        self._last += 1
        number = self._last
        self.calls.send(PeerRequest(number, method, str(argument)))
        answer: PeerResponse = await self.until(lambda: self.answers.get(number), 35.0)
        return orjson.loads(answer.result) if answer.error is None else (answer.code, answer.error)

    async def in_mesh(self) -> None:
        """Waits until the mesh of the present topic has a member."""
        await self.until(lambda: self.stage.gossip.mesh(time.time()))

    def counted(self, start: str) -> float:
        """The sum of the metrics whose lines begin so."""
        lines = [line for line in self.meter.text().decode().splitlines() if line.startswith(start)]
        return sum(float(line.split()[-1]) for line in lines)
