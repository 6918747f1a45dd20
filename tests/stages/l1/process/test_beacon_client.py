"""The light client routes of Beacon APIs [LCP12]."""

import asyncio

import pytest
from aiohttp import web

from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import CheckpointConfig
from rollup_node.stages.l1.light_client.beacon_json import MAX_BODY
from rollup_node.stages.l1.process import beacon_client
from rollup_node.stages.l1.process.beacon_client import LightClientEndpoint, LightClientEndpoints
from tests.support.chains.fake_beacon_chain import FakeBeaconChain, beacon_network
from tests.support.servers.http_listener import app_for_every_path, listening
from tests.support.timing.conditions import until


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


def endpoints_of(*urls: str) -> LightClientEndpoints:
    return LightClientEndpoints(CheckpointConfig(bytes(32), urls, beacon_network()), Meter("l1"))


async def test_an_endpoint_says_that_there_is_an_update() -> None:
    """[LCP10] Not by what keeps the connection open; and the next one in the ring is listened to instead."""
    first, second = (FakeBeaconChain(beacon_network(), lambda _: bytes(32)) for _ in range(2))
    updates: list[int] = []
    async with listening(first.app(), second.app()) as urls:
        endpoints = endpoints_of(*urls)
        for _ in range(3):
            endpoints.listen(lambda: updates.append(1))
        await until(lambda: len(first.events) == 1)
        first.push(b":\n\n")
        first.push()
        await until(lambda: updates == [1])
        endpoints.next()
        endpoints.listen(lambda: updates.append(2))
        await until(lambda: len(second.events) == 1)
        second.push()
        await until(lambda: updates == [1, 2])
        first.push()
        await until(lambda: not first.events)
        assert updates == [1, 2]
        await endpoints.close()


async def test_a_stream_that_is_refused_or_ends_is_asked_for_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[LCP10] And one that never ends is bounded in bytes."""
    asked: list[str] = []

    async def flood(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if len(asked) == 1:
            return web.json_response({"message": "Invalid topic"}, status=400)
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" light_client_optimistic_update" * 1000)

    updates: list[int] = []
    async with listening(app_for_every_path(flood)) as (url,):
        endpoints = endpoints_of(url)
        for _ in range(20):
            endpoints.listen(lambda: updates.append(1))
            await asyncio.sleep(0.005)
        assert len(asked) <= 1 and not updates
        monkeypatch.setattr(beacon_client, "LISTEN_AGAIN_SECONDS", 0.0)
        endpoints._listen_from = 0.0
        endpoints.listen(lambda: updates.append(1))
        assert endpoints._stream is not None
        await asyncio.wait([endpoints._stream], timeout=20.0)
        assert endpoints._stream.done() and len(asked) == 2
        assert 0 < len(updates) <= MAX_BODY // 31
        await endpoints.close()
