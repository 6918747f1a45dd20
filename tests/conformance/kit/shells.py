"""The processes l1 and blobs, driven over real messages against endpoints on loopback that misbehave as told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import ckzg
from aiohttp import web

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.kzg import load_setup, versioned_hash
from rollup_node.stages.blobs.process import stage as blobs_process
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process import stage as l1_process
from rollup_node.stages.protocol.types import BlobRef, Hash
from rollup_node.tools.devnet.l1 import beacon
from rollup_node.tools.devnet.l1.sidecars import Blob
from tests.conformance.kit.chain import GENESIS_TIME, L1_BLOCK_TIME, forks_until, rollup
from tests.support.http_listener import Methods, json_rpc_app, listening
from tests.support.stage_runner import run_within, running_stage

ROLLUP = rollup(forks_until("ecotone"))
TIMEOUT = 0.3


class Asking:
    """Derivation's end of a channel: what came, and asking again until it has."""

    def __init__(self, bus: Bus, channel: str) -> None:
        self.answers: list[Any] = []
        self._client = bus.connect(channel, self.answers.append)

    async def until(self, ask: Any, condition: Callable[[Any], bool]) -> Any:
        """The first answer for which the condition holds."""
        for attempt in range(1000):
            if attempt % 20 == 0:
                self._client.send(ask)
            await asyncio.sleep(0.01)
            for answer in self.answers:
                if condition(answer):
                    return answer
        raise AssertionError(f"no such answer: {self.answers[-3:]}")


@asynccontextmanager
async def l1_running(methods: Methods) -> AsyncIterator[Asking]:
    """The l1 process with this endpoint."""
    async with listening(json_rpc_app(methods)) as urls:
        config = L1Config(urls, ROLLUP, poll_interval=0.05, epoch_poll_interval=0, timeout=2.0)
        async with running_stage("l1", lambda bus, meter: l1_process.build(config, bus, meter)) as buses:
            yield Asking(buses["derivation"], "l1.blocks")


@asynccontextmanager
async def blobs_running(app: web.Application) -> AsyncIterator[Asking]:
    """The blobs process with this Beacon API, which must answer within 0.3 s."""
    async with listening(app) as urls:
        config = BlobsConfig(urls[0], ROLLUP, timeout=TIMEOUT)
        async with running_stage("blobs", lambda bus, meter: blobs_process.build(config, bus, meter)) as buses:
            yield Asking(buses["derivation"], "blobs.contents")


def bounded(use: Callable[[], Awaitable[None]]) -> None:
    """Runs it for at most 20 seconds."""
    run_within(20, use)


class Beacon:
    """A Beacon API with some blobs in slot 1. `delays` are seconds by which the next answers about blobs are late,
    and without `has_blobs` it has none."""

    def __init__(self, contents: Sequence[bytes]) -> None:
        self.genesis_time, self.slot_seconds = GENESIS_TIME, L1_BLOCK_TIME
        self.has_blobs = True
        self.delays: list[float] = []
        self._blobs = [_sidecar(content) for content in contents]

    @property
    def refs(self) -> tuple[BlobRef, ...]:
        return tuple(BlobRef(place, name) for place, (name, _) in enumerate(self._blobs))

    def blobs_at(self, slot: int) -> Sequence[tuple[Hash, Blob]] | None:
        """As the embedded L1's Beacon API asks it."""
        return self._blobs if slot == 1 and self.has_blobs else None

    def app(self) -> web.Application:
        """The API with its delays."""

        @web.middleware
        async def late(request: web.Request, handler: Any) -> Any:
            if "/blob" in request.path and self.delays:
                await asyncio.sleep(self.delays.pop(0))
            return await handler(request)

        app = beacon.application(self)
        app.middlewares.append(late)
        return app


def _sidecar(content: bytes) -> tuple[Hash, Blob]:
    setup = load_setup()
    commitment = bytes(ckzg.blob_to_kzg_commitment(content, setup))
    proof = bytes(ckzg.compute_blob_kzg_proof(content, commitment, setup))
    return versioned_hash(commitment), Blob(content, commitment, proof)
