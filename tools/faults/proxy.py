"""The fault proxy: an HTTP server before one endpoint."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from rollup_node.tools.devnet.chain.jsonrpc_server import Listener
from rollup_node.tools.faults.damage import PAGE, damaged, damaged_batch, garbage
from rollup_node.tools.faults.scenario import (
    Action,
    Fault,
    FaultPlan,
    Request,
    Role,
    clipped_call,
    concerns,
    is_clipping,
)

UPSTREAM_SECONDS = 30.0
MAX_BODY = 64 << 20
_HOP_BY_HOP = {"connection", "content-encoding", "content-length", "date", "host", "server", "transfer-encoding"}
_BODY_ACTIONS = {Action.TRUNCATE, Action.CUT_JSON}


class FaultProxy:
    """Passes requests of one role to `upstream`, with the faults of `plan`; None for none.

    `requests` counts those received; `forged` is the endpoint of another chain."""

    def __init__(self, role: Role, upstream: str, forged: str | None = None) -> None:
        self.role, self._upstream, self._forged = role, upstream, forged
        self.plan: FaultPlan | None = None
        self.requests = 0
        self.url = ""
        self._stuck_at: int | None = None
        self._results: dict[str, Any] = {}
        self._listener: Listener | None = None
        self._client: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Listen on a free port of the loopback interface."""
        self._client = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(UPSTREAM_SECONDS), cookie_jar=aiohttp.DummyCookieJar()
        )
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._listener = Listener(app, 0)
        await self._listener.start()
        self.url = self._listener.url

    async def stop(self) -> None:
        """Close all connections."""
        if self._listener is not None:
            await self._listener.stop()
        if self._client is not None:
            await self._client.close()

    async def set_plan(self, plan: FaultPlan | None) -> None:
        """Let other faults hold from now on."""
        self._stuck_at = await self._head() if plan is not None and self.role is Role.L1 else None
        self._results.clear()
        self.plan = plan

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        body = await request.read()
        calls, is_batch = _calls(body)
        faults = [] if self.plan is None else self.plan.of(Request(self.role, request.path, calls))
        for fault in faults:
            early = await self._before(request, fault)
            if early is not None:
                return early
        query = "" if any(fault.do is Action.NO_QUERY for fault in faults) else request.query_string
        try:
            status, media, answer = await self._answer(request, query, body, calls, is_batch, faults)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return web.Response(status=502, text="the endpoint behind the fault proxy does not answer")
        return await self._respond(request, status, media, answer, faults)

    async def _before(self, request: web.Request, fault: Fault) -> web.StreamResponse | None:
        """Return the response to a request that does not reach the endpoint; None if it does."""
        if fault.do is Action.DELAY:
            await asyncio.sleep(fault.seconds)
        elif fault.do is Action.HANG:
            await asyncio.sleep(UPSTREAM_SECONDS)
            _abort(request)
        elif fault.do is Action.RESET:
            _abort(request)
        elif fault.do is Action.STATUS:
            return web.Response(status=fault.status, headers=fault.headers, text=fault.body)
        elif fault.do is Action.HTML:
            return web.Response(body=PAGE, content_type="text/html")
        elif fault.do is Action.GARBAGE:
            assert self.plan is not None
            return web.Response(body=garbage(self.plan.chance), content_type="application/json")
        return None

    async def _answer(
        self,
        request: web.Request,
        query: str,
        body: bytes,
        calls: tuple[dict[str, Any], ...],
        is_batch: bool,
        faults: Sequence[Fault],
    ) -> tuple[int, str, bytes]:
        """Status, media type and body of the endpoint's response after its faults."""
        head = await self._clipped_head(faults)
        sent = calls if head is None else tuple(item for call in calls if (item := clipped_call(call, head)))
        if calls and not sent:
            status, media, answer = 200, "application/json", b"[]"
        else:
            if head is not None:
                body = orjson.dumps(list(sent) if is_batch else sent[0])
            accept = "application/json" if any(fault.do is Action.BARE for fault in faults) else None
            is_forged = any(fault.do is Action.FORGED for fault in faults)
            upstream = (self._forged if is_forged else None) or self._upstream
            status, media, answer = await self._forward(upstream, request, query, body, accept)
        if status != 200 or media != "application/json":
            return status, media, self._damaged_bytes(request, answer, faults) if status == 200 else answer
        if not faults:
            return status, media, answer
        result = orjson.loads(answer)
        if head is not None:
            result = _with_missing(result if isinstance(result, list) else [result], calls)
            result = result if is_batch else result[0]
        by_id = {call.get("id"): call for call in calls}
        for fault in faults:
            if isinstance(result, list) and is_batch:
                result = self._damaged_batch(result, by_id, fault)
            elif not calls:
                result = self._damaged_rest(request.path, result, fault)
            elif concerns(fault, by_id.get(_id(result), {})):
                result = self._damaged(result, by_id, fault)
        return status, media, orjson.dumps(result)

    def _damaged_batch(self, values: list[Any], by_id: dict[Any, dict[str, Any]], fault: Fault) -> list[Any]:
        if not fault.param:
            return damaged_batch(values, fault)
        return [
            self._damaged(item, by_id, fault) if concerns(fault, by_id.get(_id(item), {})) else item for item in values
        ]

    def _damaged(self, value: Any, by_id: dict[Any, dict[str, Any]], fault: Fault) -> Any:
        if fault.do is not Action.STALE or not isinstance(value, dict) or "result" not in value:
            return damaged(value, fault)
        method = str(by_id.get(_id(value), {}).get("method", ""))
        return {**value, "result": self._first_result(method, value["result"])}

    def _damaged_rest(self, path: str, value: Any, fault: Fault) -> Any:
        """Return the JSON of a REST response, or each object of a list, after a fault."""
        if fault.do is Action.STALE:
            return self._first_result(path, value)
        return [damaged(item, fault) for item in value] if isinstance(value, list) else damaged(value, fault)

    def _damaged_bytes(self, request: web.Request, answer: bytes, faults: Sequence[Fault]) -> bytes:
        """Return a body that is no JSON after the faults that are made for one."""
        for fault in faults:
            if fault.do is Action.CORRUPT and answer:
                answer = answer[:-1] + bytes((answer[-1] ^ 1,))
            elif fault.do is Action.STALE:
                answer = self._first_result(request.method, answer)
        return answer

    def _first_result(self, kind: str, result: Any) -> Any:
        """Return the result of the first request of a kind that met the plan, which is this one's if there was none."""
        return self._results.setdefault(kind, result)

    async def _clipped_head(self, faults: Sequence[Fault]) -> int | None:
        """Return the last block of the chain that is shown; None for all of it."""
        for fault in faults:
            if is_clipping(fault):
                if fault.do is Action.STUCK and self._stuck_at is not None:
                    return self._stuck_at
                return max(0, await self._head() - fault.blocks)
        return None

    async def _head(self) -> int:
        assert self._client is not None
        call = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}
        async with self._client.post(self._upstream, json=call) as response:
            return int((await response.json())["result"], 16)

    async def _forward(
        self, upstream: str, request: web.Request, query: str, body: bytes, accept: str | None
    ) -> tuple[int, str, bytes]:
        """Return the response of an endpoint, which is asked for media type `accept` unless that is None."""
        assert self._client is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        headers |= {"Accept-Encoding": "identity"} | ({} if accept is None else {"Accept": accept})
        url = upstream.rstrip("/") + request.path + (f"?{query}" if query else "")
        async with self._client.request(request.method, url, headers=headers, data=body or None) as response:
            return response.status, response.content_type, await response.read()

    async def _respond(
        self, request: web.Request, status: int, media: str, answer: bytes, faults: Sequence[Fault]
    ) -> web.StreamResponse:
        for fault in faults:
            if fault.do not in _BODY_ACTIONS:
                continue
            kept = answer[: int(len(answer) * fault.part)]
            if fault.do is Action.CUT_JSON:
                answer = kept
                continue
            response = web.StreamResponse(status=status, headers={"Content-Type": media})
            response.content_length = len(answer)
            await response.prepare(request)
            with contextlib.suppress(OSError):
                await response.write(kept)
            _abort(request)
        return web.Response(status=status, body=answer, content_type=media)


def _calls(body: bytes) -> tuple[tuple[dict[str, Any], ...], bool]:
    """Return the calls of a JSON-RPC request, and whether it is a batch; none for another request."""
    try:
        result = orjson.loads(body)
    except orjson.JSONDecodeError:
        return (), False
    calls = result if isinstance(result, list) else [result]
    return tuple(call for call in calls if isinstance(call, dict)), isinstance(result, list)


def _with_missing(values: list[Any], calls: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the responses in the order of the calls, with null for a call that was not passed on."""
    by_id = {_id(response): response for response in values}
    missing = {"jsonrpc": "2.0", "result": None}
    return [by_id.get(call.get("id"), {**missing, "id": call.get("id")}) for call in calls]


def _id(response: Any) -> Any:
    return response.get("id") if isinstance(response, dict) else None


def _abort(request: web.Request) -> None:
    """Reset the connection of a request, whose handler ends."""
    if request.transport is not None:
        request.transport.abort()
    raise asyncio.CancelledError
