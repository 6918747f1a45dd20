"""Sequencer nodes as a conductor sees them: their RPC on loopback, with a head that the test moves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from rollup_node.stages.protocol.engine_json import envelope_from_json
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, Method, application


class SequencerServer:
    """`head` is its unsafe head, `safe` its safe one; `answers` is whether requests are answered.

    A posted block becomes the head if it is the head's child and `inserts` holds. `calls` are the admin calls."""

    def __init__(self, head: ExecutionPayload) -> None:
        self.head = self.safe = head
        self.active, self.answers, self.inserts = False, True, True
        self.peers: int | None = 1
        self.has_heads = True
        self.calls: list[str] = []
        self.url = ""

    def _status(self) -> dict[str, Any]:
        heads = {"unsafe_l2": self.head, "safe_l2": self.safe}
        return {
            name: {
                "number": block.block_number,
                "hash": to_hex(block.block_hash if self.has_heads else bytes(32)),
                "timestamp": block.timestamp,
            }
            for name, block in heads.items()
        }

    def _start(self, head: str) -> None:
        self.calls.append("start")
        if self.active or head != to_hex(self.head.block_hash):
            raise JsonRpcError(SERVER_ERROR, "block hash does not match")
        self.active = True

    def _stop(self) -> str:
        self.calls.append("stop")
        self.active = False
        return to_hex(self.head.block_hash)

    def _post(self, envelope: Any) -> None:
        self.calls.append("post")
        payload = envelope_from_json(envelope)
        if self.inserts and payload.parent_hash == self.head.block_hash:
            self.head = payload

    def _peer_stats(self) -> dict[str, int]:
        if self.peers is None:
            raise JsonRpcError(SERVER_ERROR, "p2p is disabled")
        return {"connected": self.peers}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["SequencerServer"]:
        """Listen on loopback; `url` says where."""
        methods: dict[str, Method] = {
            "optimism_syncStatus": self._status,
            "admin_sequencerActive": lambda: self.active,
            "opp2p_peerStats": self._peer_stats,
            "admin_startSequencer": self._start,
            "admin_stopSequencer": self._stop,
            "admin_postUnsafePayload": self._post,
        }
        app = application(JsonRpc(methods))
        app.middlewares.append(self._gate)
        listener = Listener(app, 0)
        await listener.start()
        self.url = listener.url
        try:
            yield self
        finally:
            await listener.stop()

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if not self.answers:
            return web.Response(status=503)
        response: web.StreamResponse = await handler(request)
        return response
