"""An HTTP server with limits on connections, memory and time, whose requests work in turn on the event loop [RPC8]."""

import asyncio
import errno
import os
import resource
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from ipaddress import ip_address
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from rollup_node.ipc.bus.timers import until_aligned
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.system import stop_accepting
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import Fields
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.rpc.connections import ClientConnection, ConnectionTable, Limits, Phase

TURN_SECONDS = 0.004
"""How long a request may keep the loop busy before it waits for its next turn."""


class Turns:
    """Lets `per_iteration` waiters go on in each iteration of the event loop: one of each key in turn, urgent first."""

    def __init__(self, per_iteration: int) -> None:
        self._waiting: OrderedDict[Hashable, tuple[deque[asyncio.Future[None]], ...]] = OrderedDict()
        self._per_iteration = self._free = per_iteration
        self._is_scheduled = False

    async def turn(self, key: Hashable, *, urgent: bool = False) -> None:
        """Wait for a turn; a new key is the last."""
        loop = asyncio.get_running_loop()
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._next_iteration, loop)
        if self._free:
            self._free -= 1
            return
        waiter: asyncio.Future[None] = loop.create_future()
        first, later = self._waiting.setdefault(key, (deque(), deque()))
        (first if urgent else later).append(waiter)
        await waiter

    def _next_iteration(self, loop: asyncio.AbstractEventLoop) -> None:
        self._free = self._per_iteration
        while self._free and self._waiting:
            key, (first, later) = self._waiting.popitem(last=False)
            waiter = (first or later).popleft()
            if first or later:
                self._waiting[key] = first, later
            # A client that has gone away cancels its waiter.
            if not waiter.done():
                waiter.set_result(None)
                self._free -= 1
        self._is_scheduled = self._free < self._per_iteration
        if self._is_scheduled:
            loop.call_soon(self._next_iteration, loop)


log = Logger("rpc")

SHUTDOWN_SECONDS = 1.5
SWEEP_SECONDS = 0.5
WARNING_SECONDS = 60.0
LEAST_CONNECTIONS = 8
RECEIVE_BYTES = 16 << 10
"""Received at once, buffered before a handler reads, and buffered before a handler that writes has to wait: what a
connection holds that the table does not count stays a small multiple of this."""

REQUESTS_AT_ONCE = 32
"""Requests that begin in one iteration of the event loop."""

QUEUE = 4096
"""Connections that the kernel keeps until they are accepted; a client beyond tries again after a second."""

SPARE_DESCRIPTORS = 32
"""Left for log, bus and metrics files, whatever clients do."""

LINGER_SECONDS = 2.0
"""How long a connection is read after an early response such as 413, so that the client sees it."""

MALFORMED = (HttpProcessingError, web.RequestPayloadError, UnicodeError)
"""What a client causes; anything else is a bug."""


NOT_FOUND = "404 page not found\n"
INVALID_HOST = "invalid host specified; name it in rpc.vhosts\n"
INVALID_ORIGIN = "origin not allowed; name it in rpc.corsdomain\n"
"""Bodies of responses that several servers make."""


class RequestTooLargeError(Exception):
    """A body is longer than the server takes."""


class Exchange:
    """One request and its response, as the listener counts them."""

    def __init__(self, listener: "Listener", connection: ClientConnection, request: web.BaseRequest) -> None:
        self._listener, self._connection, self._request = listener, connection, request
        self.begun = time.monotonic()
        """When the request was complete."""

    async def turn(self) -> None:
        """Wait until this request may keep the event loop busy again."""
        await self._listener.continued.turn(self._connection.address)

    def hold(self, size: int) -> None:
        """Count bytes that are held until the response is sent, or release them if `size` is negative."""
        self._listener.hold(self._connection, size)

    def stream(self, kept: int) -> None:
        """Hold only `kept` bytes of all that was received, on a connection whose response has no end."""
        self._listener.stream(self._connection, kept)

    async def read_body(self, longest: int) -> bytes:
        """Return the body. Raises RequestTooLargeError, and one of MALFORMED for a body that is no HTTP."""
        parts: list[bytes] = []
        size = 0
        # A chunked body has no Content-Length to check before.
        async for part in self._request.content.iter_any():
            size += len(part)
            if size > longest:
                raise RequestTooLargeError(longest)
            parts.append(part)
        self.begun = time.monotonic()
        await self._listener.begin(self._connection)
        return b"".join(parts)


Handler = Callable[[web.BaseRequest, Exchange], Awaitable[web.StreamResponse]]


class _Protocol(web.RequestHandler):
    """The server's side of one connection."""

    __slots__ = ("_listener", "connection")
    connection: ClientConnection

    def __init__(self, server: web.Server, listener: "Listener", **options: Any) -> None:
        super().__init__(server, **options)
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        # The selector transport receives as many bytes at once as this attribute says, 256 KiB by default.
        transport.max_size = RECEIVE_BYTES  # type: ignore[attr-defined]
        transport.set_write_buffer_limits(high=RECEIVE_BYTES)
        self.connection = self._listener.opened(transport)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._listener.received(self.connection, len(data))
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._listener.lost(self.connection)
        super().connection_lost(exc)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        finished = await super().finish_response(request, resp, start_time)
        self._listener.finished(self.connection)
        return finished

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log a bug; what clients cause by malformed requests or by going away is none, as anybody can do it often."""
        error = kw.get("exc_info")
        if isinstance(error, MALFORMED):
            self._listener.count_closed(self.connection, "malformed")
        elif isinstance(error, BaseException) and not isinstance(error, ConnectionError):
            log.crash("request handler crashed", error)


class _Server(web.Server):
    """Makes our protocol for each connection."""

    def __init__(self, listener: "Listener", handler: Any) -> None:
        # A handler is cancelled when its client goes away; otherwise a client could leave any number of them behind.
        super().__init__(handler, handler_cancellation=True)
        self._listener = listener

    def __call__(self) -> web.RequestHandler:
        return _Protocol(
            self,
            self._listener,
            loop=asyncio.get_running_loop(),
            access_log=None,
            keepalive_timeout=Phase.IDLE.seconds,
            lingering_time=LINGER_SECONDS,
            read_bufsize=RECEIVE_BYTES,
            # go-ethereum's server does not decompress requests, and nobody can hide a large body in a small one.
            auto_decompress=False,
        )


class Listener:
    """A server with one handler for every path and options named after `name`; a `port` of 0 becomes the bound one."""

    def __init__(self, handler: Handler, name: str, addr: str, port: int, limits: Limits, meter: Meter) -> None:
        self._handler, self._name, self._addr, self.port = handler, name, addr, port
        self.local_url = ""
        self._table = ConnectionTable(limits)
        self._transports: dict[ClientConnection, asyncio.Transport] = {}
        self._meter = meter
        # In one iteration of the loop more requests may begin than connections are accepted. Otherwise they pile up
        # while many connect, and an honest one is closed as the oldest before it has its turn.
        self._begun = Turns(REQUESTS_AT_ONCE)
        self.continued = Turns(1)
        self._closed = 0
        self._last_warning = -WARNING_SECONDS
        self._sweeper: asyncio.TimerHandle | None = None
        self._runner: web.ServerRunner | None = None
        self._server: asyncio.Server | None = None

    @property
    def held(self) -> int:
        """The bytes held for all connections."""
        return sum(connection.held for connection in self._transports)

    async def start(self) -> None:
        """Bind the port. Raises CriticalError where that fails or descriptors are too few."""
        limits = self._table.limits
        if limits.connections < LEAST_CONNECTIONS:
            raise CriticalError(
                f"too few file descriptors for the {self._name} server; raise the limit (ulimit -n) to 1024 or more",
                Code.RPC_CLIENTS,
            )
        loop = asyncio.get_running_loop()
        server = _Server(self, self._handle)
        self._runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        try:
            self._server = await loop.create_server(server, self._addr, self.port, backlog=limits.backlog)
        except OSError as error:
            raise CriticalError(
                f"cannot listen on {self._addr}:{self.port} ({error.strerror or error});"
                f" choose another with {self._name}.addr and {self._name}.port",
                Code.PORT_TAKEN if error.errno == errno.EADDRINUSE else Code.PORT_ADDRESS,
            ) from None
        for listening in self._server.sockets:
            # To asyncio the backlog is also the number of connections that it accepts before it does anything else.
            with listening.dup() as shared:
                shared.listen(QUEUE)
        address, self.port = self._server.sockets[0].getsockname()[:2]
        self.local_url = _local_url(address, self.port)
        log.info(f"{self._name} server is listening", addr=self._addr, port=self.port)

    async def close(self) -> None:
        """Stop to listen, and end running requests within SHUTDOWN_SECONDS."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            await stop_accepting(self._server)
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        protocol = request.protocol
        assert isinstance(protocol, _Protocol)
        connection = protocol.connection
        if request.can_read_body:
            self._enter(connection, Phase.BODY)
        else:
            await self.begin(connection)
        response = await self._handler(request, Exchange(self, connection, request))
        self._enter(connection, Phase.RESPONSE)
        if isinstance(response, web.Response) and isinstance(response.body, bytes):
            self.hold(connection, len(response.body))
        if not request.content.is_eof():
            response.force_close()
        return response

    def opened(self, transport: asyncio.Transport) -> ClientConnection:
        """Count the connection of a client; close others while there are too many."""
        peer = transport.get_extra_info("peername")
        connection = self._table.open(peer[0] if peer else None, time.monotonic())
        self._transports[connection] = transport
        if self._sweeper is None:
            self._sweep()
        while (crowded_out := self._table.crowded_out(connection)) is not None:
            self._abort(crowded_out, "connections")
        return connection

    def received(self, connection: ClientConnection, size: int) -> None:
        """Count bytes of a client as held until the response is sent."""
        if connection.phase is Phase.IDLE and size:
            self._enter(connection, Phase.HEADER)
        self.hold(connection, size)

    def hold(self, connection: ClientConnection, size: int) -> None:
        """Count bytes held for a connection; close others, or itself, while too many are held."""
        self._table.hold(connection, size)
        while (heaviest := self._table.heaviest()) is not None:
            self._abort(heaviest, "memory")

    def stream(self, connection: ClientConnection, kept: int) -> None:
        """Let the response of a connection take any time, and hold only so many bytes for it."""
        if connection.phase is not Phase.STREAM:
            self._enter(connection, Phase.STREAM)
        self.hold(connection, kept - connection.held)

    async def begin(self, connection: ClientConnection) -> None:
        """Wait for the first turn of a complete request: none is taken by requests that never end."""
        self._enter(connection, Phase.RESPONSE)
        # First requests wait for each other alone: their number, and with it the age of the oldest, stays small however
        # many requests the connections of the same address have sent at once.
        await self._begun.turn(connection.address, urgent=not connection.served)

    def finished(self, connection: ClientConnection) -> None:
        """Count a response as sent."""
        self._table.hold(connection, -connection.held)
        self._enter(connection, Phase.IDLE)

    def lost(self, connection: ClientConnection) -> None:
        self._table.close(connection)
        self._transports.pop(connection, None)

    def count_closed(self, connection: ClientConnection, reason: str) -> None:
        self._meter.count("rpc_server_connections_closed_total", server=self._name, reason=reason)
        self._closed += 1
        now = time.monotonic()
        if now - self._last_warning >= WARNING_SECONDS:
            fields: Fields = {"server": self._name, "count": self._closed, "last": connection.address, "why": reason}
            log.warn("closed connections", code=Code.RPC_CLIENTS.text, **fields)
            self._last_warning, self._closed = now, 0

    def _enter(self, connection: ClientConnection, phase: Phase) -> None:
        self._table.enter(connection, phase, time.monotonic())

    def _abort(self, connection: ClientConnection, reason: str) -> None:
        transport = self._transports.pop(connection, None)
        self._table.close(connection)
        if transport is not None:
            transport.abort()
            self.count_closed(connection, reason)

    def _sweep(self) -> None:
        for connection in self._table.expired(time.monotonic()):
            # A client without a request under way for as long is no more than usual.
            if connection.phase is Phase.IDLE:
                self._transports[connection].close()
            else:
                self._abort(connection, "timeout")
        self._sweeper = None
        if self._transports:
            loop = asyncio.get_running_loop()
            self._sweeper = loop.call_later(until_aligned(loop.time(), SWEEP_SECONDS), self._sweep)


def _local_url(address: str, port: int) -> str:
    """Return the URL at which this machine reaches a server that listens at an address."""
    host = ip_address(address.partition("%")[0])
    if host.is_unspecified:
        host = ip_address("127.0.0.1" if host.version == 4 else "::1")
    return f"http://{host if host.version == 4 else f'[{host}]'}:{port}"


def free_descriptors() -> int:
    """How many files and connections this process may still open, but for SPARE_DESCRIPTORS."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    if limit == resource.RLIM_INFINITY:
        limit = 1 << 20
    return max(0, limit - used - SPARE_DESCRIPTORS)
