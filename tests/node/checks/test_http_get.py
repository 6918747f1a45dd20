"""One GET of a check."""

import asyncio
import time

import pytest
from aiohttp import web
from yarl import URL

from rollup_node.node.checks.http_get import Answer, http_get
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from tests.support.servers.http_listener import app_for_every_path, listening

HOLDS_BACK = "/silent"


async def respond(request: web.Request) -> web.Response:
    if request.path == HOLDS_BACK:
        await asyncio.sleep(60)
    if request.path == "/elsewhere":
        return web.Response(status=302, headers={"Location": "/"})
    return web.Response(body=request.headers.get("X-Key", "").encode(), headers={"X-Server": "a"})


def get(path: str, timeout: float = 20, limit: int = 100) -> Answer:
    async def run() -> Answer:
        async with listening(app_for_every_path(respond)) as (url,):
            return await http_get("name", URL(url.rstrip("/") + path), {"X-Key": "secret"}, timeout, limit)

    return asyncio.run(run())


def test_a_response_with_its_times() -> None:
    before = time.time()
    answer = get("/")
    assert (answer.status, answer.body, answer.headers["x-server"]) == (200, b"secret", "a")
    assert before <= answer.sent <= answer.received <= time.time()


def test_redirects_are_followed() -> None:
    """[LHD28]"""
    assert (get("/elsewhere").status, get("/elsewhere").body) == (200, b"secret")


def test_why_there_is_no_response() -> None:
    with pytest.raises(EndpointError, match=r"name: no answer within 0\.05 s"):
        get(HOLDS_BACK, timeout=0.05)
    with pytest.raises(EndpointError, match="longer than 5 bytes"):
        get("/", limit=5)
    with pytest.raises(EndpointError, match=r"cannot connect \(Connection refused\)"):
        asyncio.run(http_get("name", URL("http://127.0.0.1:1"), {}, 20, 100))
