"""A blobs process for several chains: none waits for the blobs or the inputs of another [LHD32]."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.blobs.config import BlobsConfig, DaServerConfig
from rollup_node.stages.blobs.process import stage as blobs
from rollup_node.stages.blobs.process.stage import MAX_FETCHES
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.messages.blobs import BlobsRequest, BlobsResponse, InputRequest, InputResponse
from rollup_node.stages.protocol.commitments import keccak_commitment
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import BlobRef, L1BlockRef
from tests.support.processes.stage_runner import running_stage
from tests.support.servers.fake_beacon import GENESIS, SLOT, FakeBeacon, KnownBlob
from tests.support.servers.http_listener import app_for_every_path, listening
from tests.support.timing.conditions import until

CHAINS = ("10", "130")
ROLES = ("blobs", "compute", *(f"derivation.{chain}" for chain in CHAINS))
KnownBlobs = Sequence[KnownBlob]


def block(number: int) -> L1BlockRef:
    """Return a block of the one slot that has blobs."""
    return L1BlockRef(number.to_bytes(32, "big"), number, bytes(32), GENESIS + 12 * SLOT)


class HeldBeacon(FakeBeacon):
    """Does not answer for the `held` blobs until it is `released`."""

    def __init__(self, known: KnownBlobs, held: KnownBlobs = ()) -> None:
        super().__init__(known)
        self.held, self.released, self.waiting = {to_hex(item.hash) for item in held}, asyncio.Event(), 0

    async def respond(self, request: web.Request) -> web.StreamResponse:
        if self.held.intersection(request.query.getall("versioned_hashes", [])):
            self.waiting += 1
            await self.released.wait()
        return await super().respond(request)


class Chains:
    """The derivations of both chains."""

    def __init__(self, buses: dict[str, Bus]) -> None:
        self.answers: dict[str, list[Any]] = {chain: [] for chain in CHAINS}
        self.clients = {c: buses[f"derivation.{c}"].connect("blobs.contents", self.answers[c].append) for c in CHAINS}

    def request(self, chain: str, number: int, known: KnownBlob, urgent: bool = True) -> None:
        self.clients[chain].send(BlobsRequest(block(number), (BlobRef(0, known.hash),), urgent))

    def received(self, chain: str) -> list[bytes | None]:
        return [c.data for answer in self.answers[chain] if isinstance(answer, BlobsResponse) for c in answer.contents]


@asynccontextmanager
async def running(config: BlobsConfig) -> AsyncIterator[Chains]:
    async with running_stage("blobs", lambda bus, meter: blobs.build(config, bus, meter), ROLES) as buses:
        yield Chains(buses)


async def test_no_chain_waits_for_the_fetches_of_another(small_blobs: KnownBlobs) -> None:
    """All fetches that run are of one chain, and none ends."""
    beacon = HeldBeacon(small_blobs, small_blobs[:1])
    async with listening(beacon.app()) as urls, running(BlobsConfig(urls[0])) as chains:
        for number in range(MAX_FETCHES):
            chains.request("10", number, small_blobs[0], urgent=False)
        await until(lambda: beacon.waiting == MAX_FETCHES)
        chains.request("10", 50, small_blobs[0])
        await until(lambda: beacon.waiting == MAX_FETCHES + 1)
        chains.request("130", 1, small_blobs[1])
        await until(lambda: chains.received("130"))
        assert not chains.answers["10"]
        beacon.released.set()
        await until(lambda: chains.received("10"))


async def test_what_one_chain_lacks_is_logged_until_it_is_there(small_blobs: KnownBlobs) -> None:
    """Whatever the other chain finds meanwhile."""
    lines = list[log.Record]()
    log.configure("blobs", log.Level.INFO, lines.append)
    beacon = FakeBeacon(small_blobs[1:])
    async with listening(beacon.app()) as urls, running(BlobsConfig(urls[0])) as chains:
        chains.request("10", 1, small_blobs[0])
        await until(lambda: chains.answers["10"])
        chains.request("130", 9, small_blobs[1])
        await until(lambda: chains.received("130"))
        assert "blobs have been found" not in [line.message for line in lines]
        beacon.blobs.append(small_blobs[0])
        await until(lambda: chains.received("10"))
        await until(lambda: "blobs have been found" in [line.message for line in lines])


async def test_each_chain_has_its_own_da_server() -> None:
    """[ADA2] One without Alt-DA gets no answer, from no server."""
    inputs = {chain: f"input of {chain}".encode() for chain in CHAINS}
    asked: list[tuple[str, str]] = []

    def server(chain: str) -> web.Application:
        async def handler(request: web.Request) -> web.Response:
            asked.append((chain, request.path))
            return web.Response(body=inputs[chain])

        return app_for_every_path(handler)

    async with listening(*map(server, CHAINS)) as urls:
        servers = {chain: DaServerConfig(url) for chain, url in zip(CHAINS, urls, strict=True)}
        async with running(BlobsConfig(None, da_servers=servers)) as chains:
            for chain in CHAINS:
                chains.clients[chain].send(InputRequest(keccak_commitment(inputs[chain]), True))
            await until(lambda: all(chains.answers.values()))
            for chain in CHAINS:
                assert chains.answers[chain] == [InputResponse(keccak_commitment(inputs[chain]), inputs[chain])]
        assert sorted(chain for chain, _ in asked) == list(CHAINS)
        asked.clear()
        async with running(BlobsConfig(None, da_servers={"10": servers["10"]})) as chains:
            chains.clients["130"].send(InputRequest(keccak_commitment(inputs["130"]), True))
            chains.clients["10"].send(InputRequest(keccak_commitment(inputs["10"]), True))
            await until(lambda: chains.answers["10"])
        assert not chains.answers["130"] and [chain for chain, _ in asked] == ["10"]
