"""The p2p stage of whole nodes for tests: on the loopback interface; the test drives the other ends of its buses."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import orjson

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.l1 import RuntimeConfig, RuntimeConfigs
from rollup_node.stages.messages.p2p import (
    LatestBlocksRequest,
    LatestBlocksResponse,
    PayloadRequest,
    PayloadResponse,
    PeerRequest,
    PeerResponse,
    PeerStatus,
    PublishRequest,
    PublishResponse,
    PublishSignedRequest,
    UnsafeBlock,
    UnsafeBlocksRequest,
)
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity, peer_id_text
from rollup_node.stages.p2p.process.stage import P2pStage, build
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash
from rollup_node.stages.protocol.types import Address, BlockId
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.support.p2p.blocks import NO_ORIGIN, SIGNER, block, chain, chain_config, publish_request
from tests.support.p2p.hosts import config
from tests.support.processes.stage_runner import driven
from tests.support.timing.conditions import until

KEY = b"\x11" * 32
"""The secret of `p2p_blocks.SIGNER`."""


def chain_of_now(length: int = 600, last_fork: str = "jovian") -> RollupConfig:
    """Return the test chain, with its genesis so many seconds ago."""
    return chain_since(int(time.time()) - length, last_fork)


def chain_since(started: int, last_fork: str = "jovian") -> RollupConfig:
    """Return the test chain, with its genesis at a Unix time."""
    config = chain_config(last_fork)
    forks = dict.fromkeys(config.fork_times, started)
    genesis = msgspec.structs.replace(config.genesis, l2_time=started)
    return msgspec.structs.replace(config, genesis=genesis, fork_times=forks)


def now_block(number: int = 1, version: int = 4, **changes: Any) -> ExecutionPayload:
    """Return a block with the present timestamp."""
    return block(version, number, timestamp=int(time.time()), **changes)


def timed_chain(rollup: RollupConfig, count: int, first: int = 1, version: int = 4) -> list[ExecutionPayload]:
    """Linked blocks with the timestamps of their numbers."""
    blocks: list[ExecutionPayload] = []
    for untimed in chain(count, version, first):
        parent = blocks[-1].block_hash if blocks else untimed.parent_hash
        at = rollup.genesis.l2_time + rollup.block_time * untimed.block_number
        timed = msgspec.structs.replace(untimed, parent_hash=parent, timestamp=at)
        blocks.append(msgspec.structs.replace(timed, block_hash=payload_block_hash(timed)))
    return blocks


class P2pNode:
    """The stage, and what the engine and rpc processes receive from it."""

    def __init__(self, number: int, rollup: RollupConfig, directory: Path, **options: Any) -> None:
        self.received_blocks: list[ExecutionPayload] = []
        self.publish_errors: dict[int, str | None] = {}
        self.latest_blocks: dict[BlockId, tuple[ExecutionPayload, ...]] = {}
        self.peer_responses: dict[int, PeerResponse] = {}
        self.own_chain: dict[int, ExecutionPayload] = {}
        self.payload_error: str | None = None
        self.status: PeerStatus | None = None
        self.health: tuple[str, ...] | None = None
        self._last = 0
        self.config = config(**{"rollup": rollup, "priv_raw": bytes([number]) * 32, **options})
        directory = directory / str(number)
        directory.mkdir(exist_ok=True)
        self.buses = in_process_buses(CHANNELS, directory, dict.fromkeys(("l1", "engine", "p2p", "rpc"), 1))
        self.meter = Meter("p2p")
        self.l1 = self.buses["l1"].publish("status.l1")
        self.set_signer(SIGNER.address)
        self.stage: P2pStage = build(self.config, self.buses["p2p"], self.meter)
        self.engine = self.buses["engine"].connect("p2p.blocks", self._on_block_message)
        self.payloads = self.buses["engine"].serve("engine.payloads", self._on_payload_request)
        self.calls = self.buses["rpc"].connect("p2p.control", self._on_peer_response)
        self.buses["rpc"].subscribe("status.p2p", self._on_status)

    def set_signer(self, address: Address) -> None:
        """Publish the unsafe block signer of its chain."""
        self.l1.set(RuntimeConfigs({self.config.rollup.l2_chain_id: RuntimeConfig(address)}))

    @property
    def address(self) -> str:
        """Its whole multiaddr, once it runs."""
        return f"/ip4/127.0.0.1/tcp/{self.stage.host.port}/p2p/{self.peer}"

    @property
    def peer(self) -> str:
        """Its peer id."""
        return peer_id_text(NetworkIdentity(self.config.priv_raw or b"").peer_id)

    def _on_block_message(self, message: UnsafeBlock | LatestBlocksResponse | PublishResponse) -> None:
        if isinstance(message, UnsafeBlock):
            self.on_block(message.payload)
        elif isinstance(message, LatestBlocksResponse):
            self.latest_blocks[message.head] = message.blocks
        else:
            self.publish_errors[message.id] = message.error

    def on_block(self, payload: ExecutionPayload) -> None:
        """The engine process receives a block."""
        self.received_blocks.append(payload)

    def _on_payload_request(self, peer: ProcessId, request: PayloadRequest) -> None:
        self.payloads.send(peer, PayloadResponse(request.id, self.own_chain.get(request.number), self.payload_error))

    def _on_peer_response(self, response: PeerResponse) -> None:
        self.peer_responses[response.id] = response

    def _on_status(self, message: Any) -> None:
        if isinstance(message, PeerStatus):
            self.status = message
        elif isinstance(message, Health):
            self.health = tuple(map(str, message.problems))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["P2pNode"]:
        async with running_buses(self.buses), driven(self.stage, self.meter, "p2p"):
            self.engine.send(UnsafeBlocksRequest(0, None))
            yield self

    until = staticmethod(until)

    async def publish(self, payload: ExecutionPayload, parent_origin: BlockId = NO_ORIGIN) -> str | None:
        """Publish a block as the engine process does, repeatedly; returns the error."""
        self._last += 1
        number = self._last
        await self._repeat(publish_request(payload, number, parent_origin), lambda: number in self.publish_errors)
        return self.publish_errors[number]

    async def latest_above(self, head: BlockId) -> tuple[ExecutionPayload, ...]:
        """Return the latest blocks above a head, for which the engine process asks until it has them."""
        self.latest_blocks.pop(head, None)
        await self._repeat(LatestBlocksRequest(head), lambda: head in self.latest_blocks)
        return self.latest_blocks[head]

    async def _repeat(self, request: PublishRequest | LatestBlocksRequest, is_answered: Callable[[], bool]) -> None:
        async with asyncio.timeout(15.0):
            while not is_answered():
                self.engine.send(request)
                await asyncio.sleep(0.05)

    async def call(self, method: str, argument: object = "") -> Any:
        """Return an opp2p call; the result, or the error's code and text."""
        self._last += 1
        number = self._last
        self.calls.send(PeerRequest(number, method, str(argument)))
        response: PeerResponse = await self.until(lambda: self.peer_responses.get(number), 35.0)
        return orjson.loads(response.result) if response.error is None else (response.code, response.error)

    async def publish_signed(self, number: int, payload: ExecutionPayload, signature: bytes) -> str | None:
        """Publish a block with its signature, as opstack_publishBlockV1 does; returns the error."""
        self.calls.send(PublishSignedRequest(number, payload, signature))
        response: PeerResponse = await self.until(lambda: self.peer_responses.get(number))
        return response.error

    async def wait_for_blocks(self, count: int) -> None:
        """Wait until the engine process has received so many blocks."""
        await self.until(lambda: len(self.received_blocks) >= count)

    async def wait_for_peers(self, *others: "P2pNode") -> None:
        """Wait until the other nodes are connected."""
        wanted = {other.stage.host.peer_id for other in others}
        await self.until(lambda: wanted <= set(self.stage.host.peers()), 30)

    async def wait_for_sync_peers(self, count: int) -> None:
        """Wait until so many connected peers have identified themselves."""
        await self.until(lambda: sum(info.identify is not None for info in self.stage.host.connections()) >= count)

    async def wait_for_mesh(self) -> None:
        """Wait until the mesh of the present topic has a member."""
        await self.until(lambda: self.stage.gossip.mesh_size(time.time()))

    def metric_sum(self, start: str) -> float:
        """Return the sum of the metrics whose lines begin so."""
        lines = [line for line in self.meter.text().decode().splitlines() if line.startswith(start)]
        return sum(float(line.split()[-1]) for line in lines)


@contextlib.asynccontextmanager
async def meshed_pair(rollup: RollupConfig, directory: Path, **options: Any) -> AsyncIterator[tuple[P2pNode, P2pNode]]:
    """Yield a node with these options and one that is connected to it, once both gossip."""
    async with (
        P2pNode(1, rollup, directory, **options).running() as source,
        P2pNode(2, rollup, directory, static=(source.address,)).running() as node,
    ):
        await source.wait_for_mesh()
        yield source, node
