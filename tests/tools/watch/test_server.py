"""The server of `watch`: three paths, GET only."""

import asyncio
import socket

import pytest

from rollup_node.stages.io.http.client import HttpClient
from rollup_node.tools.watch.server import Pages, serving
from tests.support.processes.programs import http_get
from tests.support.servers.loopback import own_address

PAGES = Pages(lambda: "<p>page</p>", lambda: b"[]", lambda: b"up 1\n")


async def test_pages_are_served() -> None:
    async with serving(PAGES, own_address(), 0) as port:
        url = f"http://{own_address()}:{port}"
        for path, expected in (("/", "<p>page</p>"), ("/games.json", "[]"), ("/metrics", "up 1\n")):
            assert await asyncio.to_thread(http_get, url + path) == (200, expected)
        client = HttpClient(url, "test")
        status, _, _ = await client.post(b"{}", 5.0, 1000)
        assert status == 405
        await client.close()


async def test_a_port_in_use_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind((own_address(), 0))
        taken.listen()
        with pytest.raises(OSError):
            async with serving(PAGES, own_address(), taken.getsockname()[1]):
                pass
