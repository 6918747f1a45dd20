"""Beacon endpoints: URLs, limits and error texts."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.kzg import BLOB_SIZE, versioned_hash
from rollup_node.stages.blobs.process.client import BeaconEndpoints, SourcesFailedError
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.protocol.types import BlobRef
from tests.support.servers.http_listener import Handler, app_for_every_path, listening

WANTED = [BlobRef(0, b"\x01" * 32), BlobRef(2, b"\x02" * 32)]


@asynccontextmanager
async def beacon_endpoints(
    handler: Handler, path: str = "", meter: Meter | None = None, **options: Any
) -> AsyncIterator[BeaconEndpoints]:
    """Yield the endpoints of a server that answers by this handler; `options` of BlobsConfig."""
    async with listening(app_for_every_path(handler)) as urls:
        endpoints = BeaconEndpoints(BlobsConfig(urls[0] + path, **options), meter or Meter("blobs"))
        try:
            yield endpoints
        finally:
            await endpoints.close()


async def test_path_and_key_of_the_url_are_kept() -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.path_qs)
        return web.Response(status=404)

    meter = Meter("blobs")
    async with beacon_endpoints(handler, path="/base/?key=abc", meter=meter) as endpoints:
        with pytest.raises(SourcesFailedError) as caught:
            await endpoints.fetch(7, WANTED)
        assert caught.value.not_found
    text = meter.text().decode()
    assert re.search(r'endpoint_failures_total{endpoint="127.0.0.1:\d+",fault="has_none",rpc="beacon"} 1.0', text)
    assert 'rpc_client_responses_total{error="http_404",method="blobs",rpc="beacon"} 1.0' in text
    first, second = "0x" + "01" * 32, "0x" + "02" * 32
    assert seen == [
        f"/base/eth/v1/beacon/blobs/7?key=abc&versioned_hashes={first}&versioned_hashes={second}",
        "/base/eth/v1/beacon/blob_sidecars/7?key=abc&indices=0&indices=2",
    ]


@pytest.mark.option("l1.beacon.slot-duration-override")
async def test_genesis_and_slot_duration_are_requested_once() -> None:
    """[BCN2, BCN3, BCN7]"""
    requested: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        requested.append(request.path)
        return web.json_response({"data": {"genesis_time": "10", "SECONDS_PER_SLOT": "2"}})

    async with beacon_endpoints(handler) as endpoints:
        assert [await endpoints.clock.slot_at(time) for time in (10, 13, 20)] == [0, 1, 5]
    assert requested == ["/eth/v1/beacon/genesis", "/eth/v1/config/spec"]
    requested.clear()
    async with beacon_endpoints(handler, slot_seconds=5) as endpoints:
        assert [await endpoints.clock.slot_at(time) for time in (10, 13, 20)] == [0, 0, 2]
    assert requested == ["/eth/v1/beacon/genesis"]


BLOB = b"\x01" * BLOB_SIZE


async def test_blobs_are_asked_for_in_ssz() -> None:
    """[BCN18]"""

    async def handler(request: web.Request) -> web.Response:
        accepted.append((request.headers["Accept"], request.headers["Accept-Encoding"]))
        return web.Response(body=BLOB, content_type="application/octet-stream")

    accepted: list[tuple[str, str]] = []
    async with beacon_endpoints(handler) as endpoints:
        assert [blob.blob for blob in (await endpoints.fetch(7, WANTED[:1])).blobs] == [BLOB]
    assert accepted == [("application/octet-stream;q=1.0,application/json;q=0.9", "identity")]


@pytest.mark.parametrize("status", [200, 406, 415])
async def test_an_endpoint_whose_ssz_fails_is_asked_for_json(status: int) -> None:
    """Also for the next blobs; and a response without a media type is JSON."""

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append("octet-stream" in request.headers["Accept"])
        if asked[-1]:
            return web.Response(body=b"no blob", status=status, content_type="application/octet-stream")
        response = web.Response(body=orjson.dumps({"data": ["0x" + BLOB.hex()]}))
        response.headers.pop("Content-Type", None)
        return response

    asked: list[bool] = []
    async with beacon_endpoints(handler) as endpoints:
        for _ in range(2):
            assert [blob.blob for blob in (await endpoints.fetch(7, WANTED[:1])).blobs] == [BLOB]
    assert asked == [True, False, False]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, "<html>please log in</html>"),
        (200, '{"data":null}'),
        (200, "{}"),
        (203, ""),
        (401, "no"),
        (403, "not in your plan"),
        (500, "panic"),
        (502, "<html>"),
        (503, "no"),
    ],
)
async def test_where_the_blobs_route_answers_badly_sidecars_are_asked_for(status: int, body: str) -> None:
    """[BCN5] The proof may be absent [BCN11]. Where they are missing too, both answers are named."""
    commitment = bytes(48)
    wanted = [BlobRef(0, versioned_hash(commitment))]
    sidecar = {"index": "0", "blob": "0x" + BLOB.hex(), "kzg_commitment": "0x" + commitment.hex()}

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path.split("/")[-2])
        if asked[-1] == "blobs":
            return web.Response(status=status, text=body, content_type="text/html" if "<" in body else "text/plain")
        return web.json_response({"data": sidecars}, status=200 if sidecars else 404)

    asked, sidecars = list[str](), [sidecar]
    async with beacon_endpoints(handler) as endpoints:
        for _ in range(2):
            (blob,) = (await endpoints.fetch(7, wanted)).blobs
            assert (blob.blob, blob.commitment, blob.proof) == (BLOB, commitment, None)
    assert [route for route in asked if route != "blobs"] == ["blob_sidecars"] * 2
    assert asked[-2:] == ["blob_sidecars"] * 2, "the blobs route is not asked again soon"
    sidecars.clear()
    async with beacon_endpoints(handler) as endpoints:
        with pytest.raises(SourcesFailedError, match=rf"({status}|JSON|malformed).*; blob_sidecars: "):
            await endpoints.fetch(7, wanted)


async def test_a_source_that_throttles_is_not_asked_for_sidecars_as_well() -> None:
    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path.split("/")[-2])
        return web.Response(status=429)

    asked: list[str] = []
    async with beacon_endpoints(handler) as endpoints:
        with pytest.raises(SourcesFailedError, match="429"):
            await endpoints.fetch(7, WANTED[:1])
    assert asked == ["blobs"]


NOT_FOUND = '{"code":404,"message":"Block not found"}'


@pytest.mark.fault("F18")
@pytest.mark.parametrize(
    ("status", "body", "other", "is_asked_again"),
    [
        (404, "404 page not found", NOT_FOUND, False),
        (405, "", NOT_FOUND, False),
        (501, "", NOT_FOUND, False),
        (400, "", NOT_FOUND, True),
        (404, NOT_FOUND, NOT_FOUND, True),
        (404, "<html>", "<html>", True),
    ],
)
async def test_a_route_that_the_server_lacks_is_not_asked_for_again(
    status: int, body: str, other: str, is_asked_again: bool
) -> None:
    """[BCN5] Unlike blobs that it lacks, which may come, and the routes of a proxy without its backend."""

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path.split("/")[-2])
        is_blobs = asked[-1] == "blobs"
        return web.Response(status=status if is_blobs else 404, text=body if is_blobs else other)

    asked: list[str] = []
    async with beacon_endpoints(handler) as endpoints:
        for _ in range(2):
            with pytest.raises(SourcesFailedError) as caught:
                await endpoints.fetch(7, WANTED[:1])
            assert caught.value.not_found
    assert asked == ["blobs", "blob_sidecars", *["blobs"] * is_asked_again, "blob_sidecars"]
