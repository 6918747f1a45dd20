"""Profiles of all processes under the paths of Go's net/http/pprof [LIF16, LIF17, LIF20]."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from rollup_node.stages.io.profiling.profile import (
    MAX_SECONDS,
    Profile,
    ProfileFiles,
    ProfileRequest,
    encode,
    merge,
    render_text,
)
from rollup_node.stages.rpc.process.listener import Exchange

ROOT = "/debug/pprof/"
ANSWER_SECONDS = 15.0
"""How long after the end of a profile processes may take to write theirs."""

POLL_SECONDS = 0.1
MAX_DIGITS = 9
SECONDS = {"cpu": 30, "heap": 5, "allocs": 5, "block": 5, "mutex": 0, "goroutine": 0, "threadcreate": 0}
"""How long each kind is observed unless the request says so."""

_INDEX = "".join(f'<li><a href="{name}?debug=1">{name}</a></li>' for name in sorted(SECONDS) if name != "cpu")
INDEX = f'<html><body><h1>{ROOT}</h1><ul>{_INDEX}<li><a href="profile">profile</a></li></ul></body></html>'


class _RefusedError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class PprofServer:
    """One profile at a time. `processes` returns the names of the processes that should answer."""

    def __init__(self, folder: str, processes: Callable[[], tuple[str, ...]]) -> None:
        self._files, self._processes = ProfileFiles(Path(folder)), processes
        self._is_busy = False
        # The rpc process may have been killed while it made a profile.
        self._withdraw()

    async def handle(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        name = request.path.removeprefix(ROOT)
        try:
            if request.method != "GET" or not request.path.startswith(ROOT):
                raise _RefusedError(404, "404 page not found")
            if not name:
                return web.Response(text=INDEX, content_type="text/html")
            if name == "symbol":
                return web.Response(text="num_symbols: 1\n")
            if name == "trace":
                raise _RefusedError(501, "Python has no execution traces")
            kind = "cpu" if name == "profile" else name
            if kind not in SECONDS or name == "cpu":
                raise _RefusedError(404, "Unknown profile")
            return await self._profile(request, kind)
        except _RefusedError as refused:
            return web.Response(status=refused.status, text=f"{refused}\n")

    async def _profile(self, request: web.BaseRequest, kind: str) -> web.Response:
        seconds = _seconds(request.query.get("seconds"), SECONDS[kind])
        debug = request.query.get("debug", "0") not in ("", "0")
        if self._is_busy:
            raise _RefusedError(503, "another profile is being made")
        self._is_busy = True
        try:
            merged = await self._collect(ProfileRequest(time.time_ns(), kind, seconds))
        finally:
            # Also when the client has gone, which cancels its request.
            self._is_busy = False
            self._withdraw()
        if debug:
            return web.Response(text=await asyncio.to_thread(render_text, merged))
        name = "profile" if kind == "cpu" else kind
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Content-Type-Options": "nosniff",
        }
        return web.Response(body=await asyncio.to_thread(encode, merged), headers=headers)

    def _withdraw(self) -> None:
        with contextlib.suppress(OSError):
            self._files.withdraw()

    async def _collect(self, request: ProfileRequest) -> Profile:
        """Return the profiles of the processes that have answered in time, as one. Raises _RefusedError without any."""
        processes = self._processes()
        try:
            self._files.request(request)
        except OSError as error:
            raise _RefusedError(500, f"cannot ask the processes: {error.strerror}") from None
        await asyncio.sleep(request.seconds)
        result: dict[str, Profile] = {}
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline and len(result) < len(processes):
            await asyncio.sleep(POLL_SECONDS)
            for name in processes:
                if name not in result:
                    answer = await asyncio.to_thread(self._files.read_answer, request.id, name)
                    if answer is not None:
                        result[name] = answer
        merged = merge(result, tuple(name for name in processes if name not in result))
        if merged is None:
            raise _RefusedError(500, "no process has answered")
        return merged


def _seconds(text: str | None, default: int) -> int:
    """Return the seconds that a request asks for. Raises _RefusedError for a wrong number."""
    if text is None:
        return default
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    seconds = int(text) if is_number else 0
    if not 0 < seconds <= MAX_SECONDS:
        raise _RefusedError(400, f'invalid value for "seconds": expected 1 to {MAX_SECONDS}')
    return seconds
