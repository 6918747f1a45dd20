"""Reading of resources over HTTP, by both readers."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from aiohttp import web
from yarl import URL

from rollup_node.stages.io.http.endpoint_errors import AnswerTooLargeError, EndpointError
from rollup_node.stages.io.http.http_reader import HttpReader, http_reader
from rollup_node.stages.io.http.https_reader import HttpsReader
from rollup_node.stages.io.http.plain_http import HttpAnswer, PlainHttpReader
from tests.support.processes.stage_runner import run_within
from tests.support.servers.http_listener import Handler, app_for_every_path, listening

T = TypeVar("T")
LIMIT = 1000


@pytest.fixture(params=["aiohttp", "plain"])
def is_plain(request: pytest.FixtureRequest) -> bool:
    """Tests of both readers."""
    return bool(request.param == "plain")


def read(is_plain: bool, handler: Handler, use: Callable[[HttpReader, URL], Awaitable[T]]) -> T:
    """Runs `use` with a reader of a server with this handler, and its URL."""

    async def main() -> T:
        async with listening(app_for_every_path(handler)) as (url,):
            reader = reader_of(is_plain, URL(url))
            try:
                return await use(reader, URL(url))
            finally:
                await reader.close()

    return run_within(60, main)


def reader_of(is_plain: bool, url: URL) -> HttpReader:
    """The reader for the server of a URL."""
    headers = {"X-Key": "secret", "accept": "text/html"}
    return PlainHttpReader(url, "name", headers) if is_plain else HttpsReader("name", headers)


async def get(reader: HttpReader, url: URL, timeout: float = 20.0) -> HttpAnswer:
    """The answer to one request."""
    return await reader.get(url, {"Accept": "application/json"}, timeout, LIMIT)


def test_the_choice_of_the_reader() -> None:
    async def main() -> None:
        for url, kind in (("http://a", PlainHttpReader), ("https://a", HttpsReader), ("nonsense", HttpsReader)):
            reader = http_reader(URL(url), "name", {})
            assert isinstance(reader, kind)
            await reader.close()

    run_within(30, main)


def test_answers_of_any_status_and_the_headers_of_both_sides(is_plain: bool) -> None:
    seen: list[tuple[str, str, str, object]] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append((request.path_qs, request.headers["X-Key"], request.headers["Accept"], request.transport))
        return web.Response(status=302, text="elsewhere", headers={"Location": "/", "X-Server": "a"})

    async def use(reader: HttpReader, url: URL) -> None:
        for _ in range(2):
            answer = await get(reader, url / "a b" % {"c": "d"})
            assert (answer.status, answer.body, answer.headers["x-server"]) == (302, b"elsewhere", "a")

    read(is_plain, handle, use)
    assert [each[:3] for each in seen] == [("/a%20b?c=d", "secret", "application/json")] * 2
    assert seen[0][3] is seen[1][3], "the connection is kept"


def test_a_compressed_answer(is_plain: bool) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(bytes(LIMIT)), headers={"Content-Encoding": "gzip"})

    assert read(is_plain, handle, get).body == bytes(LIMIT)


def test_an_answer_is_bounded_in_time_and_bytes(is_plain: bool) -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async def long(_: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(bytes(LIMIT + 1)), headers={"Content-Encoding": "gzip"})

    with pytest.raises(EndpointError, match=r"^name: no answer within 0.1 s$"):
        read(is_plain, slow, lambda reader, url: get(reader, url, 0.1))
    with pytest.raises(AnswerTooLargeError, match="longer than 1000 bytes"):
        read(is_plain, long, get)


def test_why_there_is_no_answer(is_plain: bool) -> None:
    async def broken(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def odd(_: web.Request) -> web.Response:
        return web.Response(body=b"?", headers={"Content-Encoding": "br"})

    with pytest.raises(EndpointError, match=r"^name: the connection failed \("):
        read(is_plain, broken, get)
    with pytest.raises(EndpointError, match="the answer has the content encoding 'br'"):
        read(is_plain, odd, get)

    async def refused() -> None:
        url = URL("http://127.0.0.1:1")
        reader = reader_of(is_plain, url)
        with pytest.raises(EndpointError, match=r"^name: cannot connect \(Connection refused\)$"):
            await get(reader, url)
        await reader.close()

    run_within(30, refused)
