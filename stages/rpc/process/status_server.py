"""The status page: one file, the chart's library, and the status as server-sent events [RPC95]."""

import asyncio
import base64
import contextlib
import hashlib
import re
import socket
from pathlib import Path
from typing import Protocol

import msgspec
from aiohttp import web

from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.rpc.access import ANY, Access
from rollup_node.stages.rpc.process.listener import Exchange
from rollup_node.stages.rpc.status.node_status import NodeStatus
from rollup_node.stages.rpc.status.progress import STEP_SECONDS, HeadHistory

FOLDER = Path(__file__).parents[1] / "page"
PATH = "/status"
EVENT_SECONDS = 1.0
MAX_VIEWERS = 8
SLOW_SECONDS = 5.0
"""A viewer that has not taken an event after so long is dropped; its browser connects again."""
SEND_BYTES = 16 << 10
"""What is on its way to a viewer, which else would be minutes of events in the buffers of a viewer that reads none."""
RECONNECT_MILLISECONDS = 3000

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)
_JSON = msgspec.json.Encoder()


class Statuses(Protocol):
    """Where the status comes from."""

    def status(self) -> NodeStatus:
        """Return the status now."""

    def json(self) -> bytes:
        """Return the same as a JSON object."""


class StatusServer:
    """Serves the page at `/status` for at most MAX_VIEWERS viewers, under `vhosts`, IP addresses and localhost."""

    def __init__(self, status: Statuses, vhosts: tuple[str, ...]) -> None:
        self._status, self.history = status, HeadHistory()
        self._access = page_access(vhosts)
        page = (FOLDER / "status.html").read_bytes()
        headers = {"Content-Security-Policy": content_security_policy(page.decode())}
        self._files = {
            PATH: (page, "text/html", headers),
            f"{PATH}/uplot.js": ((FOLDER / "uplot.js").read_bytes(), "text/javascript", {}),
            f"{PATH}/uplot.css": ((FOLDER / "uplot.css").read_bytes(), "text/css", {}),
        }
        self.viewers = 0
        self._closing = asyncio.Event()
        self.periodic_task = PeriodicTask("status history", self._sample, is_aligned=True)

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Answer a request."""
        response = await self._route(request, exchange)
        if not response.prepared:
            add_headers(response)
        return response

    def close(self) -> None:
        """End the events of all viewers."""
        self._closing.set()

    async def _sample(self) -> float:
        self.history.add(self._status.status())
        return STEP_SECONDS

    async def _route(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        path = request.path
        if (refused := refused_page(request, self._access)) is not None:
            return refused
        if path in ("/", f"{PATH}/"):
            return web.Response(status=302, headers={"Location": "status" if path == "/" else "../status"})
        if path == "/status.json":
            return web.Response(body=self._status.json() + b"\n", content_type="application/json")
        if path == f"{PATH}/events" and request.method == "GET":
            return await self._events(request, exchange)
        file = self._files.get(path)
        if file is None:
            return web.Response(status=404, text="404 page not found\n")
        body, content_type, headers = file
        return web.Response(body=body, content_type=content_type, charset="utf-8", headers=headers)

    async def _events(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Send the history, and the status each second, until the viewer goes, is too slow, or the server closes."""
        if self.viewers >= MAX_VIEWERS:
            return web.Response(status=503, text=f"{MAX_VIEWERS} viewers are connected already\n")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        add_headers(response)
        self.viewers += 1
        try:
            await response.prepare(request)
            _bound_buffers(request.transport)
            exchange.stream(0)
            first = _event(_JSON.encode(self.history.columns()), "history")
            await _write(response, b"retry: %d\n\n" % RECONNECT_MILLISECONDS + first)
            while not self._closing.is_set():
                await _write(response, _event(self._status.json()))
                await self._pause()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        finally:
            self.viewers -= 1
        return response

    async def _pause(self) -> None:
        """Until the next whole second of the event loop, so that all viewers get the same status."""
        seconds = EVENT_SECONDS - asyncio.get_running_loop().time() % EVENT_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()


def page_access(vhosts: tuple[str, ...]) -> Access:
    """Return who may read status pages: a page of another site must not."""
    return Access(("localhost", *(name for name in vhosts if name != ANY)))


def refused_page(request: web.BaseRequest, access: Access) -> web.Response | None:
    """Return why a request for a page is refused, None if it is not."""
    if not access.accepts_host(request.headers.get("Host")):
        return web.Response(status=403, text="invalid host specified; name it in rpc.vhosts\n")
    return None if request.method in ("GET", "HEAD") else web.Response(status=405, text="method not allowed\n")


def content_security_policy(page: str) -> str:
    """Return the policy by which only the page's own script and style and this server's files are used."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for kind, text in _INLINE.findall(page):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    script, style = (" ".join(["'self'", *hashes[kind]]) for kind in ("script", "style"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def add_headers(response: web.StreamResponse) -> None:
    response.headers["Server"] = "rollup-node"
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers.setdefault("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")


def _bound_buffers(transport: asyncio.Transport | None) -> None:
    if transport is not None:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        transport.set_write_buffer_limits(SEND_BYTES)


def _event(data: bytes, name: str = "status") -> bytes:
    """One event; JSON has no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(SLOW_SECONDS):
        await response.write(data)
