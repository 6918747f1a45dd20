"""A DA server for the local network [ADA1], in memory.

Besides an honest one there are those that show what a node does when the server lies, is slow, or loses inputs."""

import argparse
import asyncio
import random
import sys
from collections import Counter, OrderedDict
from collections.abc import Sequence

from aiohttp import web

from rollup_node.stages.protocol.commitments import CommitmentError, decode_commitment, keccak_commitment
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex
from rollup_node.tools.devnet.chain.jsonrpc_server import Listener
from rollup_node.tools.devnet.settings import DA_MODES

MAX_INPUT = 32 << 20
MAX_STORED = 256 << 20
"""Bytes of inputs that are kept, the newest."""
LIES = 2
"""How often the lying server answers wrong bytes for each input."""
LOST_SHARE = 1 / 3
"""Of the inputs, at random: a batcher that posts the same ones again and again must not lose the same ones always."""
SLOW_SECONDS, SLOW_PARTS = 2.0, 20


class DaServer:
    """Inputs by encoded commitment. `mode` is one of DA_MODES; withholding is losing for the server."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._inputs: OrderedDict[bytes, bytes] = OrderedDict()
        self._lies: Counter[bytes] = Counter()
        self._bytes = 0
        self._chance = random.Random(1)

    def application(self) -> web.Application:
        """Return the routes: get, put by a commitment of the caller, put by one of the server."""
        app = web.Application(client_max_size=MAX_INPUT)
        app.router.add_get("/get/{commitment}", self.get)
        app.router.add_post("/put/{commitment}", self.put)
        app.router.add_post("/put", self.put)
        return app

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Return the input; 404 if it is not there."""
        key = _encoded(request)
        input_ = self._inputs.get(key)
        if input_ is None:
            return web.Response(status=404)
        if self._mode == "lying" and self._lies[key] < LIES:
            self._lies[key] += 1
            return web.Response(body=bytes(len(input_)))
        return await self._slowly(request, input_) if self._mode == "slow" else web.Response(body=input_)

    async def put(self, request: web.Request) -> web.Response:
        """Store an input under its keccak commitment; 400 if the caller's is another. The answer is the commitment."""
        data = await request.read()
        key = keccak_commitment(data).encode()
        if not data or ("commitment" in request.match_info and _encoded(request) != key):
            return web.Response(status=400)
        if self._mode not in ("losing", "withholding") or self._chance.random() >= LOST_SHARE:
            self._store(key, data)
        return web.Response(body=key)

    def _store(self, key: bytes, data: bytes) -> None:
        self._bytes += len(data) - len(self._inputs.pop(key, b""))
        self._inputs[key] = data
        while self._bytes > MAX_STORED:
            self._bytes -= len(self._inputs.popitem(last=False)[1])

    async def _slowly(self, request: web.Request, data: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        step = -(-len(data) // SLOW_PARTS)
        for at in range(0, len(data), step):
            await asyncio.sleep(SLOW_SECONDS / SLOW_PARTS)
            await response.write(data[at : at + step])
        return response


def _encoded(request: web.Request) -> bytes:
    """Return the commitment in the path. Raises HTTPBadRequest."""
    try:
        return decode_commitment(from_hex(request.match_info["commitment"])).encode()
    except (HexError, CommitmentError) as error:
        raise web.HTTPBadRequest(text=str(error)) from None


async def serve(mode: str, port: int) -> None:
    """Serve until it is cancelled; prints its URL once it listens."""
    async with Listener(DaServer(mode).application(), port) as listener:
        print(f"DA server {listener.url} mode {mode}", flush=True)
        await asyncio.Event().wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal stops it."""
    parser = argparse.ArgumentParser(prog="da-server", description="DA server for development.", allow_abbrev=False)
    parser.add_argument("--mode", choices=DA_MODES, default=DA_MODES[0])
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    try:
        asyncio.run(serve(args.mode, args.port))
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
