"""The light client routes of Beacon APIs [LCP12]."""

import pytest
from aiohttp import web

from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import CheckpointConfig
from rollup_node.stages.l1.light_client.beacon_json import MAX_BODY
from rollup_node.stages.l1.process.beacon_client import LightClientEndpoint, LightClientEndpoints
from tests.support.chains.fake_beacon_chain import beacon_network
from tests.support.servers.http_listener import app_for_every_path, listening


async def answer(request: web.Request) -> web.StreamResponse:
    if request.path.endswith("long"):
        return web.Response(body=b" " * (MAX_BODY + 1))
    if request.path.endswith("absent"):
        return web.json_response({"message": "no light clients here"}, status=404)
    return web.json_response({"path": request.path_qs, "key": request.headers.get("X-Key")})


async def test_the_url_keeps_its_path_and_query_and_only_the_first_endpoint_gets_the_header() -> None:
    async with listening(app_for_every_path(answer)) as (url,):
        config = CheckpointConfig(
            bytes(32), (f"{url}/base?apikey=1", url), beacon_network(), header=("X-Key", "secret")
        )
        endpoints = LightClientEndpoints(config, Meter("l1"))
        body = await endpoints.in_use.get("eth/v1/x", (("count", "2"),), "updates")
        assert body == b'{"path": "/base/eth/v1/x?apikey=1&count=2", "key": "secret"}'
        endpoints.next()
        assert b'"key": null' in await endpoints.in_use.get("eth/v1/x")
        endpoints.next()
        assert [(item.in_use, item.requests) for item in endpoints.counts()] == [(True, 1), (False, 1)]
        await endpoints.close()


async def test_refusals_and_long_answers_are_errors() -> None:
    async with listening(app_for_every_path(answer)) as (url,):
        endpoint = LightClientEndpoint(url, 5.0, None)
        with pytest.raises(EndpointError, match=r"HTTP status 404 for /absent.*no light clients here") as refusal:
            await endpoint.get("absent")
        assert refusal.value.status == 404
        with pytest.raises(AnswerTooLargeError):
            await endpoint.get("long")
        await endpoint.close()
    with pytest.raises(EndpointError):
        await endpoint.get("x")
    await endpoint.close()
