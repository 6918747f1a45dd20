"""The reader over HTTPS, which needs no TLS to be tested; test_http_reader has what it shares with the other."""

from aiohttp import web
from yarl import URL

from rollup_node.stages.io.http.https_reader import HttpsReader
from tests.support.processes.stage_runner import run_within
from tests.support.servers.http_listener import app_for_every_path, listening


def test_of_headers_that_come_twice_the_first_counts() -> None:
    async def handle(request: web.Request) -> web.Response:
        response = web.Response(body=b"x")
        for value in ("first", "second"):
            response.headers.add("X-Server", value)
        return response

    async def main() -> None:
        async with listening(app_for_every_path(handle)) as (url,):
            reader = HttpsReader("name", {})
            try:
                answer = await reader.get(URL(url), {}, 20.0, 1000)
            finally:
                await reader.close()
            assert (answer.status, answer.headers["x-server"], answer.body) == (200, "first", b"x")

    run_within(30, main)
