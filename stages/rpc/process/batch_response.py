"""The response to a JSON-RPC request or batch, sent while it grows, so that only a small part of it is held."""

from collections.abc import Callable

from aiohttp import web

from rollup_node.stages.rpc.process.listener import Exchange

PIECE = 16 << 10
"""Bytes that are sent at once. A shorter response is sent whole, with its length."""

GZIP_BYTES = 300_000
"""What a compressor holds until its response ends."""


class BatchResponse:
    """Collects encoded response objects.

    `add_headers` completes the headers of a response before it is sent; `size` is the number of bytes so far."""

    def __init__(
        self,
        request: web.BaseRequest,
        exchange: Exchange,
        add_headers: Callable[[web.StreamResponse], None],
        *,
        is_batch: bool,
    ) -> None:
        self._request, self._exchange, self._add_headers = request, exchange, add_headers
        self._is_batch = is_batch
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._stream: web.StreamResponse | None = None
        self.size = 0

    async def add(self, encoded: bytes) -> None:
        """Add one response object; waits until the client has taken most of what came before."""
        if self._is_batch:
            self._pieces.append(b"," if self.size else b"[")
        self._pieces.append(encoded)
        self.size += len(encoded)
        self._waiting += len(encoded)
        if self._waiting > PIECE and self._is_batch:
            await self._flush()

    async def finish(self) -> web.StreamResponse:
        """Return the response; empty if nothing was added, which is what notifications are answered with."""
        if not self.size:
            return web.Response(content_type="application/json")
        self._pieces.append(b"]\n" if self._is_batch else b"\n")
        if self._stream is None:
            return web.Response(body=b"".join(self._pieces), content_type="application/json")
        await self._flush()
        return self._stream

    async def _flush(self) -> None:
        if self._stream is None:
            self._stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            self._add_headers(self._stream)
            if self._stream.compression:
                self._exchange.hold(GZIP_BYTES)
            await self._stream.prepare(self._request)
        piece = b"".join(self._pieces)
        self._pieces.clear()
        self._waiting = 0
        self._exchange.hold(len(piece))
        await self._stream.write(piece)
        await self._request.writer.drain()
        self._exchange.hold(-len(piece))
