"""The status page: one file, the chart's library, and the status as server-sent events [RPC95].

That of a supernode has a row for each chain, with links to their pages [SNO12]."""

import asyncio
import base64
import contextlib
import hashlib
import re
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Protocol

import msgspec
from aiohttp import web

from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.rpc.access import ANY, Access
from rollup_node.stages.rpc.process.listener import INVALID_HOST, NOT_FOUND, Exchange
from rollup_node.stages.rpc.status.node_status import BlockStatus, NodeStatus
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


class _Pages(ABC):
    """Serves what `respond` makes, and `/status.json`, under `vhosts`, IP addresses and localhost."""

    def __init__(self, json: Callable[[], bytes], vhosts: tuple[str, ...]) -> None:
        # A page of another site must not read them.
        self._json, self._access = json, Access(("localhost", *(name for name in vhosts if name != ANY)))

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Answer a request."""
        if not self._access.accepts_host(request.headers.get("Host")):
            response: web.StreamResponse = web.Response(status=403, text=INVALID_HOST)
        elif request.method not in ("GET", "HEAD"):
            response = web.Response(status=405, text="method not allowed\n")
        elif request.path == "/status.json":
            response = web.Response(body=self._json() + b"\n", content_type="application/json")
        else:
            response = await self.respond(request, exchange) or web.Response(status=404, text=NOT_FOUND)
        if not response.prepared:
            _add_headers(response)
        return response

    @abstractmethod
    async def respond(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse | None:
        """Return the response to a request that may be made, None where there is nothing."""


class StatusServer(_Pages):
    """Serves the page at `/status` for at most MAX_VIEWERS viewers."""

    def __init__(self, status: Statuses, vhosts: tuple[str, ...]) -> None:
        super().__init__(status.json, vhosts)
        self._status, self.history = status, HeadHistory()
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

    async def close(self) -> None:
        """End the events of all viewers."""
        self._closing.set()

    async def _sample(self) -> float:
        self.history.add(self._status.status())
        return STEP_SECONDS

    async def respond(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse | None:
        path = request.path
        if path in ("/", f"{PATH}/"):
            return web.Response(status=302, headers={"Location": "status" if path == "/" else "../status"})
        if path == f"{PATH}/events" and request.method == "GET":
            return await self._events(request, exchange)
        file = self._files.get(path)
        if file is None:
            return None
        body, content_type, headers = file
        return web.Response(body=body, content_type=content_type, charset="utf-8", headers=headers)

    async def _events(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """Send the history, and the status each second, until the viewer goes, is too slow, or the server closes."""
        if self.viewers >= MAX_VIEWERS:
            return web.Response(status=503, text=f"{MAX_VIEWERS} viewers are connected already\n")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        _add_headers(response)
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


def _add_headers(response: web.StreamResponse) -> None:
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


# --- the page of a supernode ------------------------------------------------------------------------------------------

_SCRIPT = """setInterval(async () => {
  const answer = await fetch(location.href).catch(() => null)
  if (!answer?.ok) return
  const page = new DOMParser().parseFromString(await answer.text(), "text/html")
  document.title = page.title
  document.querySelector("main").replaceWith(page.querySelector("main"))
}, 5000)"""
_STYLE = """:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #8886; padding: .4rem .8rem; text-align: left; vertical-align: top }
.number { font-variant-numeric: tabular-nums; text-align: right }"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{style}</style><script>{script}</script></head>
<body><main><h1>{title}</h1><table><thead><tr><th scope="col">Chain<th scope="col">State
<th scope="col" class="number">Unsafe<th scope="col" class="number">Safe<th scope="col" class="number">Finalized
<th scope="col">Reasons</tr></thead><tbody>{rows}</tbody></table></main>
</body></html>
"""


class ChainsPage(_Pages):
    """Serves the table of all chains [SNO12], and their statuses as JSON."""

    def __init__(self, chains: Mapping[str, Statuses], json: Callable[[], bytes], vhosts: tuple[str, ...]) -> None:
        super().__init__(json, vhosts)
        self._chains = chains

    async def respond(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse | None:
        if request.path not in ("/", "/status"):
            return None
        statuses = {chain: source.status() for chain, source in self._chains.items()}
        ready = sum(status.ready for status in statuses.values())
        page = _PAGE.format(
            script=_SCRIPT,
            title=f"{ready} of {len(statuses)} chains are ready",
            style=_STYLE,
            rows="".join(_row(chain, status) for chain, status in statuses.items()),
        )
        headers = {"Content-Security-Policy": content_security_policy(page)}
        return web.Response(text=page, content_type="text/html", headers=headers)


def _row(chain: str, status: NodeStatus) -> str:
    heads = "".join(f'<td class="number">{_number(head)}' for head in _heads(status))
    name = f"{status.chain.network} ({chain})" if status.chain.network else chain
    reasons = "<br>".join(map(escape, status.reasons)) or "ready"
    link = f'<a href="/{chain}/status">{escape(name)}</a>'
    return f'<tr><th scope="row">{link}<td>{escape(status.sentence)}{heads}<td>{reasons}</tr>'


def _heads(status: NodeStatus) -> tuple[BlockStatus | None, ...]:
    return status.heads.unsafe, status.heads.safe, status.heads.finalized


def _number(head: BlockStatus | None) -> str:
    return "unknown" if head is None else f"{head.number:,}"
