"""The Beacon API routes of light clients, and those that name blocks."""

import asyncio
from contextlib import suppress
from typing import Any

import orjson
from aiohttp import web

from rollup_node.stages.protocol.hex_encoding import HexError, from_hex_sized, to_hex
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.l1.beacon import NO_SIGNATURE, block_header_json, error_response, json_response

MAX_UPDATES = 128
TOPIC = "light_client_optimistic_update"


def add_routes(app: web.Application, chain: L1Backend) -> None:
    """Add the routes to the application of the Beacon API."""
    routes, get = LightClientRoutes(chain), app.router.add_get
    get("/eth/v1/beacon/headers/{block}", routes.header)
    get("/eth/v1/beacon/blocks/{block}/root", routes.root)
    get("/eth/v1/beacon/light_client/bootstrap/{root}", routes.bootstrap)
    get("/eth/v1/beacon/light_client/updates", routes.updates)
    get("/eth/v1/beacon/light_client/finality_update", routes.finality_update)
    get("/eth/v1/beacon/light_client/optimistic_update", routes.optimistic_update)
    get("/eth/v1/events", routes.events)


class LightClientRoutes:
    """The routes over an L1. Blocks have the names of the API: head, finalized, genesis, a slot or a root."""

    def __init__(self, chain: L1Backend) -> None:
        self._chain, self._headers = chain, chain.headers

    async def header(self, request: web.Request) -> web.Response:
        """getBlockHeader."""
        block = self._named(request)
        if block is None:
            return error_response(404, "block not found")
        header = self._headers.record(block).light.beacon
        return self._answer(block, block_header_json(header, NO_SIGNATURE))

    async def root(self, request: web.Request) -> web.Response:
        """getBlockRoot."""
        block = self._named(request)
        if block is None:
            return error_response(404, "block not found")
        return self._answer(block, {"root": to_hex(self._headers.root(block))})

    async def bootstrap(self, request: web.Request) -> web.Response:
        """getLightClientBootstrap, of finalized blocks."""
        try:
            root = from_hex_sized(request.match_info["root"], 32)
        except HexError:
            return error_response(400, "Invalid block root value")
        return _versioned(self._headers.bootstrap(root), "LC bootstrap unavailable")

    async def updates(self, request: web.Request) -> web.Response:
        """getLightClientUpdatesByRange."""
        start, count = (request.query.get(name, "") for name in ("start_period", "count"))
        if not (start.isdecimal() and count.isdecimal()):
            return error_response(400, "Invalid sync committee period or count requested")
        updates = self._headers.updates(int(start), min(int(count), MAX_UPDATES))
        return web.Response(body=orjson.dumps(updates), content_type="application/json")

    async def finality_update(self, request: web.Request) -> web.Response:
        """getLightClientFinalityUpdate."""
        return _versioned(self._headers.newest_update(with_finality=True), "LC finality update unavailable")

    async def optimistic_update(self, request: web.Request) -> web.Response:
        """getLightClientOptimisticUpdate."""
        return _versioned(self._headers.newest_update(with_finality=False), "LC optimistic update unavailable")

    async def events(self, request: web.Request) -> web.StreamResponse:
        """eventstream, of the optimistic update alone."""
        if request.query.getall("topics", []) != [TOPIC]:
            return error_response(400, "Invalid topic")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        arrived = asyncio.Event()
        self._chain.on_head.add(arrived.set)
        try:
            # Until the client is gone.
            with suppress(ConnectionResetError):
                while True:
                    await arrived.wait()
                    arrived.clear()
                    update = orjson.dumps(self._headers.newest_update(with_finality=False))
                    await response.write(b"event: %b\ndata: %b\n\n" % (TOPIC.encode(), update))
        finally:
            self._chain.on_head.discard(arrived.set)
        return response

    def _answer(self, block: Block, data: Any) -> web.Response:
        finalized = block.number <= self._chain.chain.finalized.number
        return json_response(data, execution_optimistic=False, finalized=finalized)

    def _named(self, request: web.Request) -> Block | None:
        name, chain = request.match_info["block"], self._chain.chain
        labels = {"head": chain.head, "finalized": chain.finalized, "genesis": chain.genesis}
        if name in labels:
            return labels[name]
        if name.isdecimal():
            return self._chain.block_of_slot(int(name))
        try:
            return self._headers.block(from_hex_sized(name, 32))
        except HexError:
            return None


def _versioned(update: dict[str, Any] | None, missing: str) -> web.Response:
    if update is None:
        return error_response(404, missing)
    response = web.Response(body=orjson.dumps(update), content_type="application/json")
    response.headers["Eth-Consensus-Version"] = update["version"]
    return response
