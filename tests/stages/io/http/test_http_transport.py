"""JSON-RPC over HTTP: requests of any size arrive whole."""

import asyncio

import orjson
import pytest
from aiohttp import web

from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError
from rollup_node.stages.io.http.http_transport import LARGE_BODY, HttpTransport
from rollup_node.stages.io.http.plain_http import PlainHttpTransport
from tests.support.processes.stage_runner import run_within
from tests.support.servers.http_listener import Handler, app_for_every_path, listening


@pytest.fixture(params=["aiohttp", "plain"])
def is_plain(request: pytest.FixtureRequest) -> bool:
    """Tests of both transports."""
    return bool(request.param == "plain")


def exchange(is_plain: bool, handler: Handler, body: bytes, timeout: float = 20.0) -> bytes:
    """The answer of a server with this handler, of at most 1000 bytes."""

    async def main() -> bytes:
        async with listening(app_for_every_path(handler)) as (url,):
            plain = PlainHttpTransport(url, "name", None)
            transport = plain if is_plain else HttpTransport(url, "name", None, None, 1)
            try:
                return await transport.exchange(body, timeout, 1000)
            finally:
                await transport.close()

    return run_within(60, main)


@pytest.mark.parametrize("size", [LARGE_BODY - 100, LARGE_BODY, 3 << 20])
def test_large_requests_arrive_whole(is_plain: bool, size: int) -> None:
    lengths: list[str | None] = []

    async def handle(request: web.Request) -> web.Response:
        lengths.append(request.headers.get("Content-Length"))
        return web.Response(body=orjson.dumps(len(await request.content.read())))

    assert exchange(is_plain, handle, bytes(size)) == b"%d" % size
    assert lengths == [str(size)]


def test_an_answer_is_bounded_in_time_and_bytes(is_plain: bool) -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async def long(_: web.Request) -> web.Response:
        return web.Response(body=bytes(1001))

    with pytest.raises(EndpointError, match=r"^name: no answer within 0.1 s$"):
        exchange(is_plain, slow, b"{}", 0.1)
    with pytest.raises(AnswerTooLargeError, match="longer than 1000 bytes"):
        exchange(is_plain, long, b"{}")
