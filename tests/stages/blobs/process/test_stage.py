"""The blobs process with real messages, a compute worker and Beacon APIs that misbehave in known ways."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import ckzg
import pytest
from aiohttp import web

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.node.runtime.task_runner import Problems, TaskRunner
from rollup_node.stages.blobs import kzg
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process import client
from rollup_node.stages.blobs.process import stage as blobs
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.compute.process import stage as compute
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.blobs import BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.protocol.blob_codec import decode_blob
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.types import BlobRef, BlockId, L1BlockRef
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.devnet.serving.jsonrpc_server import Listener

GENESIS, SLOT = 1000, 7
BLOCK = L1BlockRef(b"\x11" * 32, 50, b"\x10" * 32, GENESIS + 12 * SLOT)
NOWHERE = BlockId(0, bytes(32))
ROLLUP = RollupConfig(
    genesis=Genesis(NOWHERE, NOWHERE, 0, SystemConfig(bytes(20), bytes(32), bytes(32), 1)),
    block_time=2,
    max_sequencer_drift=600,
    seq_window_size=3600,
    channel_timeout=300,
    l1_chain_id=1,
    l2_chain_id=10,
    fork_times={},
    batch_inbox=bytes(20),
    deposit_contract=bytes(20),
    l1_system_config=bytes(20),
)


class Beacon:
    """A Beacon API with the real blobs in slot 7; each route can be taken away or spoiled."""

    def __init__(self, real_blobs: Any) -> None:
        self.real = list(real_blobs)
        self.asked: list[str] = []
        self.headers: list[str | None] = []
        self.status: dict[str, int] = {}
        self.delay = 0.0
        self.change: Callable[[list[Any]], Any] = lambda listed: listed
        self.drops_query = False

    def app(self) -> web.Application:
        app = web.Application()
        for route, answer in (
            ("/eth/v1/beacon/genesis", self.genesis),
            ("/eth/v1/config/spec", self.spec),
            ("/eth/v1/beacon/blobs/{slot}", self.blobs),
            ("/eth/v1/beacon/blob_sidecars/{slot}", self.sidecars),
            ("/eth/v1/beacon/blinded_blocks/{slot}", self.block),
        ):
            app.router.add_get(route, self._answering(answer, route.split("/")[4]))
        return app

    def _answering(self, answer: Callable[[web.Request], Any], name: str) -> Any:
        async def handler(request: web.Request) -> web.Response:
            self.asked.append(name)
            self.headers.append(request.headers.get("X-Key"))
            await asyncio.sleep(self.delay)
            if name in self.status:
                return web.Response(status=self.status[name], text="<html>no</html>")
            if request.match_info.get("slot", str(SLOT)) != str(SLOT):
                return web.json_response({"code": 404}, status=404)
            return web.json_response({"data": answer(request)})

        return handler

    def genesis(self, request: web.Request) -> Any:
        return {"genesis_time": str(GENESIS)}

    def spec(self, request: web.Request) -> Any:
        return {"SLOT_DURATION_MS": "12000"}

    def blobs(self, request: web.Request) -> Any:
        hashes = request.query.getall("versioned_hashes")
        chosen = [each for each in self.real if self.drops_query or "0x" + each.hash.hex() in hashes]
        return self.change(["0x" + each.blob.hex() for each in chosen])

    def sidecars(self, request: web.Request) -> Any:
        indices = request.query.getall("indices", [])
        return self.change(
            [
                {
                    "index": str(index),
                    "blob": "0x" + each.blob.hex(),
                    "kzg_commitment": "0x" + each.commitment.hex(),
                    "kzg_proof": "0x" + self.proof(each).hex(),
                }
                for index, each in enumerate(self.real)
                if not indices or str(index) in indices
            ]
        )

    def block(self, request: web.Request) -> Any:
        return {"message": {"body": {"blob_kzg_commitments": ["0x" + each.commitment.hex() for each in self.real]}}}

    def proof(self, real: Any) -> bytes:
        return bytes(ckzg.compute_blob_kzg_proof(real.blob, real.commitment, kzg.load_setup()))


class World:
    """The process under test and derivation's end of its channel."""

    def __init__(self, buses: dict[str, Bus], beacons: list[Beacon]) -> None:
        self.beacons = beacons
        self.found: list[BlobsResponse] = []
        self.missing: list[BlobsUnavailable] = []
        self.health: list[Health] = []
        self._asking = buses["derivation"].connect("blobs.contents", self._take)
        buses["rpc"].subscribe("status.blobs", self.health.append)

    def _take(self, message: BlobsResponse | BlobsUnavailable) -> None:
        (self.found if isinstance(message, BlobsResponse) else self.missing).append(message)  # type: ignore[arg-type]

    def ask(self, places: list[int], urgent: bool = True) -> None:
        refs = tuple(BlobRef(place, self.beacons[0].real[place].hash) for place in places)
        self._asking.send(BlobsRequest(BLOCK, refs, urgent))

    async def until(self, condition: Callable[[], Any], seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{self.missing[-1:]} {self.health[-1:]}"
            await asyncio.sleep(0.01)

    async def has(self, places: list[int]) -> None:
        """The blobs of these places arrive, once asked for."""
        self.ask(places)
        await self.until(lambda: self.found)
        contents = self.found.pop().contents
        real = [self.beacons[0].real[place] for place in places]
        assert [content.hash for content in contents] == [each.hash for each in real]
        assert [content.data for content in contents] == [decode_blob(each.blob) for each in real]


@asynccontextmanager
async def world(beacons: list[Beacon], **options: Any) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rn-")))
        urls = []
        for beacon in beacons:
            listener = Listener(beacon.app(), 0)
            await listener.start()
            stack.push_async_callback(listener.stop)
            urls.append(listener.url)
        roles = {"l1": 1, "blobs": 1, "derivation": 1, "compute": 1, "rpc": 1}
        buses = in_process_buses(CHANNELS, folder, roles)
        meter = Meter("blobs")
        compute.build(ComputeConfig(kzg=False), buses["compute"], meter)
        config = BlobsConfig(urls[0] if urls else None, ROLLUP, fallbacks=tuple(urls[1:]), timeout=5.0, **options)
        stage = blobs.build(config, buses["blobs"], meter)
        end = World(buses, beacons)
        await stack.enter_async_context(running_buses(buses))
        await stage.start()
        driver = TaskRunner(stage, meter, Problems(stage, meter), "blobs")
        running = [asyncio.create_task(driver.run(activity)) for activity in driver.periodic_tasks]
        try:
            yield end
        finally:
            driver.stop()
            await asyncio.wait(running, timeout=1.0)
            for task in running:
                task.cancel()
            results = await asyncio.gather(*running, return_exceptions=True)
            await stage.close()
        for result in results:
            if isinstance(result, Exception):
                raise result


def run(use: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await use()

    asyncio.run(bounded())


@pytest.fixture
def beacon(real_blobs: Any) -> Beacon:
    return Beacon(real_blobs)


@pytest.fixture
def other(real_blobs: Any) -> Beacon:
    return Beacon(real_blobs)


def test_blobs_come_in_the_order_asked_for_and_are_kept(beacon: Beacon) -> None:
    async def use() -> None:
        async with world([beacon], header=("X-Key", "abc")) as w:
            await w.has([4, 1, 4, 3])
            assert beacon.asked == ["genesis", "spec", "blobs", "blinded_blocks"]
            assert beacon.headers == ["abc"] * 4
            await w.has([3, 1])
            assert len(beacon.asked) == 4
            await w.has([5])
            assert beacon.asked[4:] == ["blobs"]

    run(use)


def test_blobs_of_several_blocks_fetched_ahead_are_checked_by_their_commitments(beacon: Beacon) -> None:
    async def use() -> None:
        async with world([beacon]) as w:
            for place in range(6):
                w.ask([place], urgent=False)
            await w.until(lambda: len(w.found) == 6)
            assert beacon.asked.count("blobs") == beacon.asked.count("blinded_blocks") == 6

    run(use)


def test_a_missing_block_route_is_left_alone(beacon: Beacon) -> None:
    beacon.status["blinded_blocks"] = 404

    async def use() -> None:
        async with world([beacon]) as w:
            await w.has([0, 1])
            await w.has([2, 3])
            assert beacon.asked.count("blinded_blocks") == 1

    run(use)


def reordered(listed: list[Any]) -> Any:
    return listed[::-1]


def with_a_stranger(listed: list[Any]) -> Any:
    return [*listed[:1], "0x" + bytes(kzg.BLOB_SIZE).hex(), *listed[1:]]


@pytest.mark.parametrize("change", [reordered, with_a_stranger])
def test_answers_in_another_order_or_with_more_are_sorted_out(change: Any, beacon: Beacon) -> None:
    beacon.change = change

    async def use() -> None:
        async with world([beacon]) as w:
            await w.has([0, 1])

    run(use)


def test_a_proxy_that_drops_the_query(beacon: Beacon) -> None:
    beacon.drops_query = True

    async def use() -> None:
        async with world([beacon]) as w:
            await w.has([2, 5])

    run(use)


@pytest.mark.parametrize("status", [404, 400, 501])
def test_sidecars_where_there_is_no_blobs_route(status: int, beacon: Beacon) -> None:
    beacon.status["blobs"] = status

    async def use() -> None:
        async with world([beacon]) as w:
            await w.has([2, 0])
            await w.has([3])
            assert beacon.asked[2:] == ["blobs", "blob_sidecars", "blob_sidecars"]

    run(use)


def test_an_empty_answer_of_the_blobs_route_leads_to_sidecars(beacon: Beacon) -> None:
    answers = [lambda listed: [], lambda listed: listed]
    beacon.change = lambda listed: answers.pop(0)(listed)

    async def use() -> None:
        async with world([beacon]) as w:
            await w.has([2])

    run(use)


def test_all_sidecars_are_fetched_on_demand(beacon: Beacon) -> None:
    beacon.drops_query = True

    async def use() -> None:
        async with world([beacon], fetch_all_sidecars=True, slot_seconds=12) as w:
            await w.has([2])
            assert beacon.asked == ["genesis", "blob_sidecars"]

    run(use)


def test_fallbacks_have_what_the_primary_lost(beacon: Beacon, other: Beacon) -> None:
    beacon.status = {"blobs": 404, "blob_sidecars": 404}

    async def use() -> None:
        async with world([beacon, other], header=("X-Key", "abc")) as w:
            await w.has([2])
            assert other.asked == ["blobs"]
            assert other.headers == [None]
            await w.has([3])
            assert other.asked == ["blobs", "blobs"]
            assert beacon.asked == ["genesis", "spec", "blobs", "blob_sidecars"]

    run(use)


def test_bad_blobs_lead_to_another_endpoint(beacon: Beacon, other: Beacon) -> None:
    def spoiled(listed: list[Any]) -> Any:
        return [text[:900] + ("1" if text[900] == "0" else "0") + text[901:] for text in listed]

    beacon.change = spoiled

    async def use() -> None:
        async with world([beacon, other]) as w:
            await w.has([0, 1])
            assert any("was not asked for" in missing.error for missing in w.missing)

    run(use)


def test_blobs_that_nobody_has_are_missing_and_found_when_they_turn_up(beacon: Beacon) -> None:
    beacon.status = {"blobs": 404, "blob_sidecars": 404}

    async def use() -> None:
        async with world([beacon]) as w:
            w.ask([0])
            await w.until(lambda: w.missing)
            assert w.missing[0].not_found
            assert w.missing[0].block_hash == BLOCK.hash
            assert "has no blobs of slot 7" in w.missing[0].error
            await w.until(lambda: w.health and w.health[-1].problems)
            beacon.status = {}
            await w.has([0])
            await w.until(lambda: w.health[-1] == Health(()))

    run(use)


@pytest.mark.parametrize(("route", "status"), [("genesis", 500), ("spec", 503), ("blobs", 500), ("blob_sidecars", 500)])
def test_errors_are_not_taken_for_absence(route: str, status: int, beacon: Beacon) -> None:
    beacon.status = {"blobs": 404, "blob_sidecars": 404, route: status}

    async def use() -> None:
        async with world([beacon]) as w:
            w.ask([0])
            await w.until(lambda: w.missing)
            assert not w.missing[0].not_found
            assert f"HTTP status {status}" in w.missing[0].error

    run(use)


def test_a_slow_endpoint_gets_company(beacon: Beacon, other: Beacon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "HEDGE_SECONDS", 0.1)
    beacon.delay = 4.0

    async def use() -> None:
        async with world([beacon, other]) as w:
            begun = time.monotonic()
            await w.has([0])
            assert time.monotonic() - begun < 3.5

    run(use)


def test_a_beacon_chain_that_began_later_is_another_one(beacon: Beacon) -> None:
    beacon.genesis = lambda request: {"genesis_time": "5000"}  # type: ignore[method-assign]

    async def use() -> None:
        async with world([beacon]) as w:
            w.ask([0])
            await w.until(lambda: w.missing)
            assert "belongs to another chain" in w.missing[0].error

    run(use)


def test_without_an_endpoint_only_a_real_need_is_critical(real_blobs: Any) -> None:
    async def use() -> None:
        with pytest.raises(CriticalError, match=r"give one with --l1\.beacon"):
            async with world([]) as w:
                w.beacons = [Beacon(real_blobs)]
                w.ask([0], urgent=False)
                await asyncio.sleep(0.2)
                assert w.health == [Health(())]
                w.ask([0], urgent=True)
                await asyncio.sleep(0.3)

    run(use)
