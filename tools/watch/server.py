"""Serves the page, the games as JSON and the metrics of `watch`. It only reads, and answers only GET."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiohttp import web

MAX_REQUEST = 4_096
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}


class Pages(NamedTuple):
    """What is served now: HTML, JSON, and the exposition of metrics."""

    html: Callable[[], str]
    json: Callable[[], bytes]
    metrics: Callable[[], bytes]


@asynccontextmanager
async def serving(pages: Pages, host: str, port: int) -> AsyncIterator[int]:
    """Serve while the context is open, and yield the port. Raises OSError where the port is in use."""
    app = web.Application(client_max_size=MAX_REQUEST)

    async def html(request: web.Request) -> web.Response:
        return web.Response(text=pages.html(), content_type="text/html", headers=HEADERS)

    async def json(request: web.Request) -> web.Response:
        return web.Response(body=pages.json(), content_type="application/json", headers=HEADERS)

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=pages.metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    app.router.add_get("/", html)
    app.router.add_get("/games.json", json)
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound: int = runner.addresses[0][1]
        yield bound
    finally:
        await runner.cleanup()
