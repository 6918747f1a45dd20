"""The fault proxy at its sockets."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from rollup_node.tools.faults.damage import PAGE
from rollup_node.tools.faults.proxy import FaultProxy
from rollup_node.tools.faults.scenario import Action, Fault, FaultPlan, Role
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.servers.http_listener import app_for_every_path, json_rpc_app, listening

Ask = Callable[..., Awaitable[Any]]
CHAIN = FakeL1Chain(30)


async def _echo(request: web.Request) -> web.Response:
    return web.json_response({"data": [request.path_qs, request.headers.get("Authorization")]})


@asynccontextmanager
async def through(faults: list[Fault], role: Role = Role.L1) -> AsyncIterator[FaultProxy]:
    """Provide a proxy before an L1 of 30 blocks, or before a server that echoes the path."""
    methods = {**CHAIN.methods(5), "eth_blockNumber": lambda: hex(CHAIN.head)}
    app = json_rpc_app(methods) if role is not Role.BEACON else app_for_every_path(_echo)
    async with listening(app) as (url,):
        proxy = FaultProxy(role, url)
        await proxy.start()
        try:
            await proxy.set_plan(FaultPlan(faults, random.Random(0)))
            yield proxy
        finally:
            await proxy.stop()


async def post(proxy: FaultProxy, body: Any) -> tuple[int, str, bytes]:
    async with aiohttp.ClientSession() as session, session.post(proxy.url, json=body) as response:
        return response.status, response.content_type, await response.read()


def call(method: str, *params: Any, number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


async def block(proxy: FaultProxy, label: str) -> Any:
    """Return the number of a block, as the proxy shows it; None for no block."""
    _, _, body = await post(proxy, call("eth_getBlockByNumber", label, False))
    load = orjson.loads(body)["result"]
    return None if load is None else int(load["number"], 16)


async def test_without_faults_everything_passes() -> None:
    async with through([]) as proxy:
        assert await block(proxy, "latest") == 29
        await proxy.set_plan(None)
        assert await block(proxy, "latest") == 29 and proxy.requests == 2
        batch = [call("eth_chainId", number=7), call("eth_blockNumber", number=8)]
        assert orjson.loads((await post(proxy, batch))[2])[1] == {"jsonrpc": "2.0", "id": 8, "result": "0x1d"}
        assert (await post(proxy, "text"))[0] in (200, 400)


@pytest.mark.parametrize(
    ("fault", "status", "media", "body"),
    [
        (Fault(Role.L1, Action.STATUS, status=429, headers={"Retry-After": "3"}, body="slow"), 429, "text", b"slow"),
        (Fault(Role.L1, Action.HTML), 200, "text/html", PAGE),
        (Fault(Role.L1, Action.RESULT, value="0x9"), 200, "application/json", b'"result":"0x9"'),
        (Fault(Role.L1, Action.ERROR, message="boom"), 200, "application/json", b'"message":"boom"'),
        (Fault(Role.L1, Action.DELAY, seconds=0.01), 200, "application/json", b'"0x5"'),
        (Fault(Role.L1, Action.CUT_JSON, part=0.0), 200, "application/json", b""),
    ],
)
async def test_responses(fault: Fault, status: int, media: str, body: bytes) -> None:
    async with through([fault]) as proxy:
        result = await post(proxy, call("eth_chainId"))
        assert result[0] == status and result[1].startswith(media) and body in result[2]


@pytest.mark.parametrize("action", [Action.RESET, Action.TRUNCATE])
async def test_broken_connections(action: Action) -> None:
    async with through([Fault(Role.L1, action)]) as proxy:
        with pytest.raises(aiohttp.ClientError):
            await post(proxy, call("eth_chainId"))


async def test_a_lagging_endpoint() -> None:
    async with through([Fault(Role.L1, Action.LAG, blocks=4)]) as proxy:
        assert [await block(proxy, label) for label in ("latest", "0x19", "0x1a")] == [25, 25, None]
        batch = [call("eth_getBlockByNumber", label, False, number=n) for n, label in ((1, "0x1a"), (2, "0x19"))]
        result = orjson.loads((await post(proxy, batch))[2])
        assert [(item["id"], item["result"] is None) for item in result] == [(1, True), (2, False)]
        both = [call("eth_getBlockByNumber", "0x1b", False, number=n) for n in (1, 2)]
        assert [load["result"] for load in orjson.loads((await post(proxy, both))[2])] == [None, None]
