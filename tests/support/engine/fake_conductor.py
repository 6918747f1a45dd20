"""A conductor on loopback, in the JSON of its RPC: a leader or not, that stores payloads, refuses, is slow or hangs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from rollup_node.stages.protocol.engine_json import envelope_from_json
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.servers.http_listener import app_for_every_path, listening

NOT_LEADER = "node is not the leader"
NULL = {"result": None}


class FakeConductor:
    """`is_leader` answers conductor_leader, and a commit is refused without it.

    `hold` keeps each answer back while it is cleared. `answers` are bodies or HTTP statuses that replace the next
    answers. `requests` are all requests, `committed` the payloads that were stored."""

    def __init__(self) -> None:
        self.is_leader = True
        self.hold = asyncio.Event()
        self.hold.set()
        self.answers: list[dict[str, Any] | bytes | int] = []
        self.requests: list[dict[str, Any]] = []
        self.committed: list[ExecutionPayload] = []
        self.url = ""

    def count(self, method: str) -> int:
        """How often a method has been called."""
        return sum(request["method"] == f"conductor_{method}" for request in self.requests)

    def _result(self, method: str, params: list[Any]) -> dict[str, Any]:
        if method == "conductor_leader":
            assert params == []
            return {"result": self.is_leader}
        assert method == "conductor_commitUnsafePayload"
        payload = envelope_from_json(params[0])
        if not self.is_leader:
            return {"error": {"code": -32000, "message": NOT_LEADER}}
        self.committed.append(payload)
        return NULL

    async def _handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        await self.hold.wait()
        answer = self.answers.pop(0) if self.answers else self._result(body["method"], body["params"])
        if isinstance(answer, bytes):
            return web.Response(body=answer)
        if isinstance(answer, int):
            return web.Response(status=answer)
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], **answer})

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator["FakeConductor"]:
        """Listen on loopback; `url` says where."""
        async with listening(app_for_every_path(self._handle), port=port) as (url,):
            self.url = f"{url}/"
            try:
                yield self
            finally:
                self.hold.set()
