"""Beacon endpoints: URLs, limits and error texts."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import orjson
import pytest
from aiohttp import web

from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.kzg import BLOB_SIZE, versioned_hash
from rollup_node.stages.blobs.process import client
from rollup_node.stages.blobs.process.client import BeaconEndpoints, BlobsNotFoundError
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.protocol.types import BlobRef
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.processes.stage_runner import run_within
from tests.support.servers.http_listener import Handler, app_for_every_path, listening

T = TypeVar("T")
WANTED = [BlobRef(0, b"\x01" * 32), BlobRef(2, b"\x02" * 32)]


def with_endpoints(
    handler: Handler,
    use: Callable[[BeaconEndpoints], Awaitable[T]],
    path: str = "",
    meter: Meter | None = None,
    **options: Any,
) -> T:
    """Run `use` with an endpoint that answers by this handler; `options` of BlobsConfig."""

    async def main() -> T:
        async with listening(app_for_every_path(handler)) as urls:
            endpoints = BeaconEndpoints(BlobsConfig(urls[0] + path, PLAIN_ROLLUP, **options), meter or Meter("blobs"))
            try:
                return await use(endpoints)
            finally:
                await endpoints.close()

    return run_within(30, main)


def test_path_and_key_of_the_url_are_kept() -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.path_qs)
        return web.Response(status=404)

    async def use(endpoints: BeaconEndpoints) -> None:
        with pytest.raises(BlobsNotFoundError):
            await endpoints.fetch(7, WANTED)

    meter = Meter("blobs")
    with_endpoints(handler, use, path="/base/?key=abc", meter=meter)
    text = meter.text().decode()
    assert re.search(r'endpoint_failures_total{endpoint="127.0.0.1:\d+",fault="has_none",rpc="beacon"} 1.0', text)
    assert 'rpc_client_responses_total{error="http_404",method="blobs",rpc="beacon"} 1.0' in text
    first, second = "0x" + "01" * 32, "0x" + "02" * 32
    assert seen == [
        f"/base/eth/v1/beacon/blobs/7?key=abc&versioned_hashes={first}&versioned_hashes={second}",
        "/base/eth/v1/beacon/blob_sidecars/7?key=abc&indices=0&indices=2",
    ]


def test_responses_are_limited_and_errors_do_not_show_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ORDINARY_BODY", 500)
    monkeypatch.setattr(client, "MAX_BODY", 1000)

    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=b" " * 5000)

    async def use(endpoints: BeaconEndpoints) -> None:
        with pytest.raises(EndpointError, match="longer than 1000 bytes") as caught:
            await endpoints.fetch(7, WANTED)
        assert "abc" not in str(caught.value)

    with_endpoints(handler, use, path="/?key=abc")


def test_a_slow_response_times_out() -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    async def use(endpoints: BeaconEndpoints) -> None:
        with pytest.raises(EndpointError, match=r"no answer within 0\.05 s"):
            await endpoints.clock.slot_at(100)

    with_endpoints(handler, use, timeout=0.05)


def test_the_error_of_a_refused_connection_has_no_credentials() -> None:
    async def main() -> None:
        endpoints = BeaconEndpoints(BlobsConfig("http://user:pw@127.0.0.1:1/key", PLAIN_ROLLUP), Meter("blobs"))
        with pytest.raises(EndpointError, match=r"127\.0\.0\.1:1: cannot connect \(Connection refused\)") as caught:
            await endpoints.clock.slot_at(100)
        assert "pw" not in str(caught.value)
        assert "key" not in str(caught.value)
        await endpoints.close()

    run_within(30, main)


def test_html_is_an_error() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="<html>")

    async def use(endpoints: BeaconEndpoints) -> None:
        with pytest.raises(EndpointError, match="the answer is not JSON"):
            await endpoints.fetch(7, WANTED)

    with_endpoints(handler, use)


@pytest.mark.option("l1.beacon.slot-duration-override")
def test_genesis_and_slot_duration_are_requested_once() -> None:
    """[BCN2, BCN3, BCN7]"""
    requested: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        requested.append(request.path)
        return web.json_response({"data": {"genesis_time": "10", "SECONDS_PER_SLOT": "2"}})

    async def use(endpoints: BeaconEndpoints) -> list[int]:
        return [await endpoints.clock.slot_at(item) for item in (10, 13, 20)]

    assert with_endpoints(handler, use) == [0, 1, 5]
    assert requested == ["/eth/v1/beacon/genesis", "/eth/v1/config/spec"]
    requested.clear()
    assert with_endpoints(handler, use, slot_seconds=5) == [0, 0, 2]
    assert requested == ["/eth/v1/beacon/genesis"]


BLOB = b"\x01" * BLOB_SIZE


def test_blobs_are_asked_for_in_ssz() -> None:
    """[BCN18]"""

    async def handler(request: web.Request) -> web.Response:
        accepted.append((request.headers["Accept"], request.headers["Accept-Encoding"]))
        return web.Response(body=BLOB, content_type="application/octet-stream")

    async def use(endpoints: BeaconEndpoints) -> None:
        assert [blob.blob for blob in (await endpoints.fetch(7, WANTED[:1])).blobs] == [BLOB]

    accepted: list[tuple[str, str]] = []
    with_endpoints(handler, use)
    assert accepted == [("application/octet-stream;q=1.0,application/json;q=0.9", "identity")]


@pytest.mark.parametrize("status", [200, 406, 415])
def test_an_endpoint_whose_ssz_fails_is_asked_for_json(status: int) -> None:
    """Also for the next blobs; and a response without a media type is JSON."""

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append("octet-stream" in request.headers["Accept"])
        if asked[-1]:
            return web.Response(body=b"no blob", status=status, content_type="application/octet-stream")
        response = web.Response(body=orjson.dumps({"data": ["0x" + BLOB.hex()]}))
        response.headers.pop("Content-Type", None)
        return response

    async def use(endpoints: BeaconEndpoints) -> None:
        for _ in range(2):
            assert [blob.blob for blob in (await endpoints.fetch(7, WANTED[:1])).blobs] == [BLOB]

    asked: list[bool] = []
    with_endpoints(handler, use)
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
def test_where_the_blobs_route_answers_badly_sidecars_are_asked_for(status: int, body: str) -> None:
    """[BCN5] The proof may be absent [BCN11]. Where they are missing too, both answers are named."""
    commitment = bytes(48)
    wanted = [BlobRef(0, versioned_hash(commitment))]
    sidecar = {"index": "0", "blob": "0x" + BLOB.hex(), "kzg_commitment": "0x" + commitment.hex()}

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path.split("/")[-2])
        if asked[-1] == "blobs":
            return web.Response(status=status, text=body, content_type="text/html" if "<" in body else "text/plain")
        return web.json_response({"data": sidecars}, status=200 if sidecars else 404)

    async def has_them(endpoints: BeaconEndpoints) -> None:
        for _ in range(2):
            (blob,) = (await endpoints.fetch(7, wanted)).blobs
            assert (blob.blob, blob.commitment, blob.proof) == (BLOB, commitment, None)

    async def has_none(endpoints: BeaconEndpoints) -> None:
        with pytest.raises(EndpointError, match=rf"({status}|JSON|malformed).*; blob_sidecars: "):
            await endpoints.fetch(7, wanted)

    asked, sidecars = list[str](), [sidecar]
    with_endpoints(handler, has_them)
    assert [route for route in asked if route != "blobs"] == ["blob_sidecars"] * 2
    assert asked[-2:] == ["blob_sidecars"] * 2, "the blobs route is not asked again soon"
    sidecars.clear()
    with_endpoints(handler, has_none)


def test_a_source_that_throttles_is_not_asked_for_sidecars_as_well() -> None:
    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path.split("/")[-2])
        return web.Response(status=429)

    async def use(endpoints: BeaconEndpoints) -> None:
        with pytest.raises(EndpointError, match="429"):
            await endpoints.fetch(7, WANTED[:1])

    asked: list[str] = []
    with_endpoints(handler, use)
    assert asked == ["blobs"]


def fetch_twice(handler: Handler) -> None:
    """Two fetches of a blob that is not there."""

    async def use(endpoints: BeaconEndpoints) -> None:
        for _ in range(2):
            with pytest.raises(BlobsNotFoundError):
                await endpoints.fetch(7, WANTED[:1])

    with_endpoints(handler, use)


@pytest.mark.parametrize(
    ("status", "body", "routes"),
    [
        (404, "404 page not found", ["blobs", "blob_sidecars", "blob_sidecars"]),
        (405, "", ["blobs", "blob_sidecars", "blob_sidecars"]),
        (404, '{"code":404,"message":"Block not found"}', ["blobs", "blob_sidecars"] * 2),
    ],
)
def test_a_route_that_the_server_lacks_is_not_asked_for_again(status: int, body: str, routes: list[str]) -> None:
    """Unlike blobs that it lacks, which may come."""

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path.split("/")[-2])
        if asked[-1] == "blobs":
            return web.Response(status=status, text=body)
        return web.json_response({"code": 404, "message": "Block not found"}, status=404)

    asked: list[str] = []
    fetch_twice(handler)
    assert asked == routes


def test_a_proxy_without_its_backend_is_asked_for_both_routes() -> None:
    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path.split("/")[-2])
        return web.Response(status=404, text="<html>")

    asked: list[str] = []
    fetch_twice(handler)
    assert asked == ["blobs", "blob_sidecars"] * 2
