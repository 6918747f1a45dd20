"""The fault proxy at its sockets."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from rollup_node.tools.faults.damage import PAGE
from rollup_node.tools.faults.io.proxy import FaultProxy
from rollup_node.tools.faults.plan import FaultPlan
from rollup_node.tools.faults.scenario import Action, Fault, Role
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.processes.stage_runner import run_within
from tests.support.servers.http_listener import app_for_every_path, json_rpc_app, listening

Ask = Callable[..., Awaitable[Any]]
CHAIN = FakeL1Chain(30)


async def _echo(request: web.Request) -> web.Response:
    return web.json_response({"data": [request.path_qs, request.headers.get("Authorization")]})


def through(faults: list[Fault], use: Callable[[FaultProxy], Awaitable[None]], role: Role = Role.L1) -> None:
    """Runs `use` with a proxy before an L1 of 30 blocks, or before a server that echoes the path."""

    async def main() -> None:
        methods = {**CHAIN.methods(5), "eth_blockNumber": lambda: hex(CHAIN.head)}
        app = json_rpc_app(methods) if role is not Role.BEACON else app_for_every_path(_echo)
        async with listening(app) as (url,):
            proxy = FaultProxy(role, url)
            await proxy.start()
            try:
                await proxy.set_plan(FaultPlan(faults, random.Random(0)))
                await use(proxy)
            finally:
                await proxy.stop()

    run_within(20, main)


async def post(proxy: FaultProxy, body: Any) -> tuple[int, str, bytes]:
    async with aiohttp.ClientSession() as session, session.post(proxy.url, json=body) as response:
        return response.status, response.content_type, await response.read()


def call(method: str, *params: Any, number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


async def block(proxy: FaultProxy, label: str) -> Any:
    """The number of a block, as the proxy shows it; None for no block."""
    _, _, body = await post(proxy, call("eth_getBlockByNumber", label, False))
    found = orjson.loads(body)["result"]
    return None if found is None else int(found["number"], 16)


def test_without_faults_everything_passes() -> None:
    async def use(proxy: FaultProxy) -> None:
        assert await block(proxy, "latest") == 29
        await proxy.set_plan(None)
        assert await block(proxy, "latest") == 29 and proxy.requests == 2
        batch = [call("eth_chainId", number=7), call("eth_blockNumber", number=8)]
        assert orjson.loads((await post(proxy, batch))[2])[1] == {"jsonrpc": "2.0", "id": 8, "result": "0x1d"}
        assert (await post(proxy, "text"))[0] in (200, 400)

    through([], use)


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
def test_responses(fault: Fault, status: int, media: str, body: bytes) -> None:
    async def use(proxy: FaultProxy) -> None:
        found = await post(proxy, call("eth_chainId"))
        assert found[0] == status and found[1].startswith(media) and body in found[2]

    through([fault], use)


@pytest.mark.parametrize("action", [Action.RESET, Action.TRUNCATE])
def test_broken_connections(action: Action) -> None:
    async def use(proxy: FaultProxy) -> None:
        with pytest.raises(aiohttp.ClientError):
            await post(proxy, call("eth_chainId"))

    through([Fault(Role.L1, action)], use)


def test_no_response() -> None:
    async def use(proxy: FaultProxy) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await post(proxy, call("eth_chainId"))

    through([Fault(Role.L1, Action.HANG)], use)


def test_garbage_and_batches() -> None:
    async def use(proxy: FaultProxy) -> None:
        assert len((await post(proxy, call("eth_chainId")))[2]) == 2000
        batch = [call("eth_blockNumber", number=1), call("eth_blockNumber", number=2)]
        assert [each["id"] for each in orjson.loads((await post(proxy, batch))[2])] == [2, 1]

    through([Fault(Role.L1, Action.GARBAGE, method="chainId"), Fault(Role.L1, Action.REVERSE)], use)


def test_a_lagging_endpoint() -> None:
    async def use(proxy: FaultProxy) -> None:
        assert [await block(proxy, label) for label in ("latest", "0x19", "0x1a")] == [25, 25, None]
        batch = [call("eth_getBlockByNumber", label, False, number=n) for n, label in ((1, "0x1a"), (2, "0x19"))]
        found = orjson.loads((await post(proxy, batch))[2])
        assert [(each["id"], each["result"] is None) for each in found] == [(1, True), (2, False)]
        both = [call("eth_getBlockByNumber", "0x1b", False, number=n) for n in (1, 2)]
        assert [each["result"] for each in orjson.loads((await post(proxy, both))[2])] == [None, None]

    through([Fault(Role.L1, Action.LAG, blocks=4)], use)


def test_an_endpoint_that_stands_still() -> None:
    async def use(proxy: FaultProxy) -> None:
        CHAIN.extend(2)
        assert await block(proxy, "latest") == 29
        await proxy.set_plan(None)
        assert await block(proxy, "latest") == 31

    try:
        through([Fault(Role.L1, Action.STUCK)], use)
    finally:
        CHAIN.reorg(2, 0)


def test_rest_with_and_without_its_query() -> None:
    async def get(proxy: FaultProxy, path: str) -> Any:
        headers = {"Authorization": "secret"}
        async with aiohttp.ClientSession(headers=headers) as session, session.get(proxy.url + path) as response:
            return (await response.json())["data"]

    async def use(proxy: FaultProxy) -> None:
        assert await get(proxy, "/blobs/5?a=1&a=2") == ["/blobs/5", "secret"]
        assert await get(proxy, "/other?a=1") == ["/other?a=1", "secret"]

    through([Fault(Role.BEACON, Action.NO_QUERY, method="blobs")], use, Role.BEACON)


def test_json_without_its_envelope_also_for_who_prefers_bytes() -> None:
    async def ssz_or_json(request: web.Request) -> web.Response:
        if "octet-stream" in request.headers["Accept"]:
            return web.Response(body=b"bytes", content_type="application/octet-stream")
        return web.json_response({"data": ["0x1"]})

    async def main() -> list[bytes]:
        async with listening(app_for_every_path(ssz_or_json)) as (url,):
            proxy = FaultProxy(Role.BEACON, url)
            await proxy.start()
            found = []
            try:
                for faults in ([Fault(Role.BEACON, Action.BARE)], []):
                    await proxy.set_plan(FaultPlan(faults, random.Random(0)))
                    headers = {"Accept": "application/octet-stream"}
                    session = aiohttp.ClientSession(headers=headers)
                    async with session, session.get(proxy.url + "/blobs/5") as response:
                        found.append(await response.read())
            finally:
                await proxy.stop()
            return found

    assert run_within(20, main) == [b'["0x1"]', b"bytes"]


def test_an_endpoint_that_is_down() -> None:
    async def main() -> None:
        proxy = FaultProxy(Role.ENGINE, "http://127.0.0.1:1")
        await proxy.start()
        try:
            assert (await post(proxy, call("eth_chainId")))[0] == 502
        finally:
            await proxy.stop()

    run_within(20, main)


def test_one_label_of_several() -> None:
    async def use(proxy: FaultProxy) -> None:
        calls = [call("eth_getBlockByNumber", label, False, number=n) for n, label in ((1, "latest"), (2, "0x1"))]
        found = {each["id"]: each["result"] for each in orjson.loads((await post(proxy, calls))[2])}
        assert found[1]["number"] == "0x1d" and found[2] is None
        assert await block(proxy, "latest") == 29 and await block(proxy, "0x1") is None

    through([Fault(Role.L1, Action.RESULT, method="eth_getBlockByNumber", param="0x1")], use)


def test_the_first_result_again() -> None:
    async def use(proxy: FaultProxy) -> None:
        assert [await block(proxy, label) for label in ("0x3", "0x4", "latest")] == [3, 3, 3]
        await proxy.set_plan(proxy.plan)
        assert [await block(proxy, label) for label in ("0x4", "0x3")] == [4, 4]

    through([Fault(Role.L1, Action.STALE)], use)


@pytest.mark.parametrize(("action", "answers"), [(Action.CORRUPT, [b"/a0", b"/bc"]), (Action.STALE, [b"/a1", b"/a1"])])
def test_bodies_that_are_no_json(action: Action, answers: list[bytes]) -> None:
    async def path(request: web.Request) -> web.Response:
        return web.Response(body=request.path.encode())

    async def main() -> None:
        async with listening(app_for_every_path(path)) as (url,):
            proxy = FaultProxy(Role.DA, url)
            await proxy.start()
            try:
                await proxy.set_plan(FaultPlan([Fault(Role.DA, action, method="a b")], random.Random(0)))
                async with aiohttp.ClientSession() as session:
                    for asked, expected in zip(("/a1", "/bb"), answers, strict=True):
                        async with session.get(proxy.url + asked) as response:
                            assert await response.read() == expected
            finally:
                await proxy.stop()

    run_within(20, main)
