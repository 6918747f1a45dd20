"""An HTTP proxy in front of an endpoint, which notes what it is asked and can answer later or refuse."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import ClientSession, web

from tests.support.servers.http_listener import app_for_every_path, listening

KEPT_HEADERS = ("Authorization", "Content-Type", "Accept")


class Recorded(NamedTuple):
    """A request: its monotonic time, path with query, headers, and the JSON-RPC calls in it."""

    at: float
    path: str
    headers: dict[str, str]
    calls: tuple[dict[str, Any], ...]


class RecordingProxy:
    """`requests` are those so far, `most` how many clients waited at once at most since the test has set it to 0.

    Each is answered after `delay` seconds, with what `change` makes of the body, or with 503 where `refused` is part of
    its path."""

    def __init__(self, target: str) -> None:
        self._target = target.rstrip("/")
        self.url = ""
        self.requests: list[Recorded] = []
        self.delay, self.refused = 0.0, "-"
        self.change: Callable[[bytes], bytes] = bytes
        self._waiting: list[web.Request] = []
        self.most = 0

    def calls(self, since: float, method: str, *params: object) -> list[float]:
        """Return the times of the calls of a method after a time; those with these first parameters."""
        return [
            request.at
            for request in self.requests
            for call in request.calls
            if request.at > since and call["method"] == method and tuple(call["params"][: len(params)]) == params
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator["RecordingProxy"]:
        """Serve on a port of its own."""
        async with ClientSession() as self._http, listening(app_for_every_path(self._handle)) as (self.url,):
            yield self

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        calls = json.loads(body) if body else []
        listed = tuple(calls) if isinstance(calls, list) else (calls,)
        self.requests.append(Recorded(time.monotonic(), request.path_qs, dict(request.headers), listed))
        self._waiting.append(request)
        # A client that has timed out, or was killed, has closed its connection.
        self.most = max(self.most, sum(waiting.transport is not None for waiting in self._waiting))
        try:
            await asyncio.sleep(self.delay)
            if self.refused in request.path_qs:
                return web.Response(status=503)
            headers = {name: request.headers[name] for name in KEPT_HEADERS if name in request.headers}
            url = f"{self._target}{request.path_qs}"
            async with self._http.request(request.method, url, data=body, headers=headers) as response:
                content = self.change(await response.read())
                return web.Response(status=response.status, body=content, content_type=response.content_type)
        finally:
            self._waiting.remove(request)
