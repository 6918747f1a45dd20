"""The blobs process with real messages, a compute worker and Beacon APIs that misbehave in known ways."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.blobs import kzg
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process import client as beacon_client
from rollup_node.stages.blobs.process import stage as blobs
from rollup_node.stages.blobs.process.stage import BlobsStage
from rollup_node.stages.blobs.tasks import decode_blob
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import Endpoints, Health, QueueLength
from rollup_node.stages.messages.blobs import BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.types import BlobRef, L1BlockRef
from tests.support.processes.stage_runner import running_stage
from tests.support.servers.fake_beacon import GENESIS, SLOT, FakeBeacon, KnownBlob
from tests.support.servers.http_listener import listening
from tests.support.timing.conditions import until

BLOCK = L1BlockRef(b"\x11" * 32, 50, b"\x10" * 32, GENESIS + 12 * SLOT)
KnownBlobs = tuple[KnownBlob, ...]


class BlobsClient:
    """Derivation's end of the channel, and the published health."""

    def __init__(self, buses: dict[str, Bus], known: Sequence[KnownBlob], meter: Meter) -> None:
        self.meter = meter
        self.responses: list[BlobsResponse] = []
        self.unavailable: list[BlobsUnavailable] = []
        self.health: list[Health] = []
        self._known = known
        self._client = buses["derivation"].connect("blobs.contents", self._on_response)
        self.endpoints: list[Endpoints] = []
        self.queue: QueueLength | None = None
        buses["rpc"].subscribe("status.blobs", self._on_status)

    def _on_response(self, message: BlobsResponse | BlobsUnavailable) -> None:
        if isinstance(message, BlobsResponse):
            self.responses.append(message)
        else:
            self.unavailable.append(message)

    def _on_status(self, message: Endpoints | QueueLength | Health) -> None:
        if isinstance(message, Health):
            self.health.append(message)
        elif isinstance(message, Endpoints):
            self.endpoints.append(message)
        else:
            self.queue = message

    def request(self, indices: list[int], urgent: bool = True, block: L1BlockRef = BLOCK) -> None:
        """Request blobs by their indices."""
        refs = tuple(BlobRef(index, self._known[index].hash) for index in indices)
        self._client.send(BlobsRequest(block, refs, urgent))

    async def receives(self, indices: list[int]) -> None:
        """Request blobs and waits until their contents arrive in the same order."""
        self.request(indices)
        await until(lambda: self.responses)
        contents = self.responses.pop().contents
        known = [self._known[index] for index in indices]
        assert [content.hash for content in contents] == [item.hash for item in known]
        assert [content.data for content in contents] == [decode_blob(item.blob) for item in known]


@asynccontextmanager
async def running_blobs(
    beacons: Sequence[FakeBeacon],
    build_stage: Callable[[BlobsConfig, Bus, Meter], BlobsStage] = blobs.build,
    **options: Any,
) -> AsyncIterator[BlobsClient]:
    """Yield the blobs process with these Beacon APIs, the first as primary; `options` of BlobsConfig."""
    async with listening(*(beacon.app() for beacon in beacons)) as urls:
        config = BlobsConfig(urls[0], fallbacks=urls[1:], timeout=5.0, **options)
        meters: list[Meter] = []

        def build(bus: Bus, meter: Meter) -> BlobsStage:
            meters.append(meter)
            return build_stage(config, bus, meter)

        async with running_stage("blobs", build) as buses:
            yield BlobsClient(buses, beacons[0].blobs, meters[0])


@pytest.fixture
def beacon(small_blobs: KnownBlobs) -> FakeBeacon:
    """Return the primary Beacon API."""
    return FakeBeacon(small_blobs)


@pytest.fixture
async def client(beacon: FakeBeacon) -> AsyncIterator[BlobsClient]:
    """Yield derivation's end of a process that has this Beacon API alone."""
    async with running_blobs([beacon]) as client:
        yield client


@pytest.fixture
def fallback(small_blobs: KnownBlobs) -> FakeBeacon:
    """Return a second Beacon API."""
    return FakeBeacon(small_blobs)


async def test_blobs_come_in_the_requested_order_and_are_cached(recorded_blobs: KnownBlobs) -> None:
    """[RPC94]"""
    beacon = FakeBeacon(recorded_blobs)
    async with running_blobs([beacon], header=("X-Key", "abc")) as client:
        await client.receives([4, 1, 4, 3])
        assert beacon.requested == ["genesis", "spec", "blobs", "blinded_blocks"]
        assert beacon.keys == ["abc"] * 4
        await client.receives([3, 1])
        assert len(beacon.requested) == 4
        await client.receives([5])
        assert beacon.requested[4:] == ["blobs"]
        text = client.meter.text().decode()
        for line in (
            'l1_source_cache_get{hit="true",type="blobs"} 1.0',
            'l1_source_cache_get{hit="false",type="blobs"} 2.0',
            'l1_source_cache_add{evicted="false",type="blobs"} 4.0',
            'l1_source_cache_add{evicted="true",type="blobs"} 0.0',
            'rpc_client_responses_total{error="<nil>",method="blobs",rpc="beacon"} 2.0',
        ):
            assert f"op_node_default_{line}\n" in text
        await until(lambda: client.endpoints[-1].endpoints[0].requests == 5)
        (result,) = client.endpoints[-1].endpoints
        assert (result.kind, result.in_use, result.errors, result.failing) == ("beacon", True, 0, False)
        await until(lambda: client.queue == QueueLength(0, 0))


async def test_prefetched_blobs_are_verified_by_commitments(beacon: FakeBeacon, client: BlobsClient) -> None:
    for index in range(6):
        client.request([index], urgent=False)
    await until(lambda: len(client.responses) == 6)
    assert beacon.requested.count("blobs") == beacon.requested.count("blinded_blocks") == 6


@pytest.mark.parametrize("bare", [False, True])
async def test_commitments_of_a_block_in_gloas(
    bare: bool, beacon: FakeBeacon, client: BlobsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[BCN19] The blinded route is asked once, and no blob is verified alone."""
    beacon.in_gloas, beacon.bare = True, bare
    computed: list[int] = []
    monkeypatch.setattr(kzg, "commit_without_setup", counting(computed, kzg.commit_without_setup))
    await client.receives([1, 0, 2])
    await client.receives([4, 5, 3])
    assert beacon.requested[2:] == ["blobs", "blinded_blocks", "blocks", "blobs", "blocks"]
    assert len(computed) == 2, "one random combination for each request"


def counting(calls: list[int], function: Callable[..., bytes]) -> Callable[..., bytes]:
    """Return the function, which notes each call."""

    def counted(*arguments: Any) -> bytes:
        calls.append(len(calls))
        return function(*arguments)

    return counted


OTHER_SHAPE = '{"data":{"message":{"body":{"execution_payload_envelope":{}}}}}'


@pytest.mark.parametrize(
    ("status", "words", "closes"),
    [
        (404, OTHER_SHAPE, True),
        (500, OTHER_SHAPE, True),
        (200, OTHER_SHAPE, True),
        (404, '{"code":404,"message":"Block not found"}', False),
    ],
)
async def test_only_block_routes_that_fail_are_not_tried_again(
    status: int, words: str, closes: bool, beacon: FakeBeacon, client: BlobsClient
) -> None:
    """[BCN19] Blobs are verified one by one then, also after blocks of another shape; a block may be missing once."""
    beacon.status, beacon.words = {"blinded_blocks": status, "blocks": status}, words
    await client.receives([0, 1])
    beacon.status = {}
    await client.receives([2, 3])
    assert beacon.requested[2:] == ["blobs", "blinded_blocks", "blocks", "blobs", *["blinded_blocks"] * (not closes)]


@pytest.mark.fault("F15")
@pytest.mark.condition("C1")
async def test_a_proxy_that_drops_the_query(beacon: FakeBeacon, client: BlobsClient) -> None:
    """[BCN10]"""
    beacon.ignores_hashes = True
    await client.receives([2, 5])


@pytest.mark.fault("F12")
async def test_sidecars_if_the_blobs_route_returns_none(beacon: FakeBeacon, client: BlobsClient) -> None:
    changes: list[Callable[[list[Any]], list[Any]]] = [lambda listed: [], lambda listed: listed]
    beacon.change = lambda listed: changes.pop(0)(listed)
    await client.receives([2])


@pytest.mark.fault("F16")
async def test_an_archive_that_sends_bare_lists_and_has_no_other_route(
    beacon: FakeBeacon, fallback: FakeBeacon
) -> None:
    """[BCN10] As blob-archiver: the clock comes from the beacon node, which lacks the blobs."""
    beacon.status = {"blobs": 404, "blob_sidecars": 404}
    fallback.bare = True
    fallback.status = dict.fromkeys(("genesis", "spec", "blinded_blocks", "blocks"), 404)
    async with running_blobs([beacon, fallback]) as client:
        await client.receives([2, 4])
        fallback.status["blobs"] = 404
        await client.receives([3, 1])
        assert fallback.requested[-2:] == ["blobs", "blob_sidecars"]


@pytest.mark.option("l1.beacon.fetch-all-sidecars")
async def test_all_sidecars_are_fetched_by_option(beacon: FakeBeacon) -> None:
    """[BCN11]"""
    beacon.ignores_hashes = True
    async with running_blobs([beacon], fetch_all_sidecars=True, slot_seconds=12) as client:
        await client.receives([2])
        assert beacon.requested == ["genesis", "blob_sidecars"]


@pytest.mark.option("l1.beacon-fallbacks", "l1.beacon-header")
@pytest.mark.condition("C1")
async def test_fallbacks_have_what_the_primary_lost(beacon: FakeBeacon, fallback: FakeBeacon) -> None:
    """[BCN9, BCN12]"""
    beacon.status = {"blobs": 404, "blob_sidecars": 404}
    async with running_blobs([beacon, fallback], header=("X-Key", "abc")) as client:
        await client.receives([2])
        assert fallback.requested == ["genesis", "spec", "blobs"]
        assert fallback.keys == [None] * 3
        await client.receives([3])
        assert fallback.requested[3:] == ["blobs"]
        assert beacon.requested == ["genesis", "spec", "blobs", "blob_sidecars"]


def with_a_changed_digit(listed: list[Any]) -> list[Any]:
    return [text[:900] + ("1" if text[900] == "0" else "0") + text[901:] for text in listed]


@pytest.mark.parametrize(
    ("change", "error"),
    [(with_a_changed_digit, "was not requested"), (lambda listed: listed[:1], "1 of 2 blobs are missing")],
)
async def test_bad_or_too_few_blobs_lead_to_another_endpoint(
    change: Callable[[list[Any]], list[Any]], error: str, beacon: FakeBeacon, fallback: FakeBeacon
) -> None:
    """[BCN13]"""
    beacon.change = change
    async with running_blobs([beacon, fallback]) as client:
        await client.receives([0, 1])
        assert any(error in unavailable.error for unavailable in client.unavailable)


CUSTODY = "the node does not custody enough data columns to reconstruct blobs"


@pytest.mark.fault("F12", "F13")
@pytest.mark.sign("BLOB-CUSTODY", line=True, readyz=True)
async def test_the_words_of_the_beacon_node_and_what_to_do_are_said_once(
    beacon: FakeBeacon, client: BlobsClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """[BCN8, BCN14, BCN17, LOG15]"""
    log.set_level(log.Level.INFO)
    await client.receives([1])
    beacon.status = {"blobs": 404, "blob_sidecars": 404}
    beacon.words = orjson.dumps({"code": 404, "message": f"Not found: {CUSTODY}"}).decode()
    client.request([0], urgent=False)
    await until(lambda: client.unavailable)
    # While another fetch runs it is open whether they are there.
    while sum(item.not_found for item in client.unavailable) < 4:
        client.request([0])
        await asyncio.sleep(0.05)
    assert {item.error.partition(":")[0] for item in client.unavailable} == {"BLOB-CUSTODY"}
    assert all(item.block_hash == BLOCK.hash for item in client.unavailable)
    assert "has no blobs of slot 7" in client.unavailable[0].error
    await until(lambda: client.health and client.health[-1].problems)
    # A reset reads an earlier block again, whose blobs are cached.
    client.request([1], block=L1BlockRef(b"e" * 32, BLOCK.number - 1, bytes(32), BLOCK.timestamp - 12))
    await until(lambda: client.responses)
    shown = capsys.readouterr().err
    assert "blobs have been found" not in shown
    client.responses.clear()
    beacon.status = {}
    await client.receives([0])
    await until(lambda: client.health[-1] == Health(()))
    first, last = (line for line in (shown + capsys.readouterr().err).splitlines() if "BLOB-" in line)
    for text in ("warn", "derivation waits for", "code=BLOB-CUSTODY", "sources=1", CUSTODY, "--semi-supernode"):
        assert text in first
    assert f"do={Code.BLOB_CUSTODY.remedy}" in first
    assert "blobs have been found" in last and "waited=" in last and "tried=" in last


async def test_a_source_that_ignores_the_query_and_lacks_the_blobs(beacon: FakeBeacon, client: BlobsClient) -> None:
    """[BCN17]"""
    beacon.ignores_hashes = True
    beacon.blobs, wanted = beacon.blobs[1:], beacon.blobs
    beacon.status = {"blob_sidecars": 404}
    client._known = wanted
    client.request([0])
    await until(lambda: client.unavailable)
    assert client.unavailable[0].error.startswith("BLOB-FILTER: ")


@pytest.mark.parametrize(("route", "status"), [("genesis", 500), ("spec", 503), ("blobs", 500), ("blob_sidecars", 500)])
async def test_errors_are_not_taken_for_not_found(
    route: str, status: int, beacon: FakeBeacon, client: BlobsClient
) -> None:
    """[BCN8]"""
    beacon.status = {"blobs": 404, "blob_sidecars": 404, route: status}
    client.request([0])
    await until(lambda: client.unavailable)
    assert not client.unavailable[0].not_found
    assert f"HTTP status {status}" in client.unavailable[0].error


@pytest.mark.fault("F20")
async def test_the_next_endpoint_is_requested_when_one_is_slow(
    beacon: FakeBeacon, fallback: FakeBeacon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beacon_client, "HEDGE_SECONDS", 0.1)
    beacon.delay = 60.0
    async with running_blobs([beacon, fallback]) as client:
        await client.receives([0])
        assert "blobs" in fallback.requested


async def test_an_earlier_block_than_genesis_belongs_to_another_chain(beacon: FakeBeacon) -> None:
    beacon.genesis_time = 5000
    async with running_blobs([beacon]) as client:
        client.request([0])
        await until(lambda: client.unavailable)
        assert "belongs to another chain" in client.unavailable[0].error
