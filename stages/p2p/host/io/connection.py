"""One TCP connection to a peer, from the first byte to the last: the upgrade with its deadline, then streams over
yamux. Whatever the peer sends, what it can make us hold is bounded, and anything against the rules ends the
connection."""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple
from typing import Protocol as TypingProtocol

from rollup_node.stages.io.log import get_logger
from rollup_node.stages.p2p.config import TransportLimits
from rollup_node.stages.p2p.encoding.multistream import Proposer, Responder
from rollup_node.stages.p2p.host.host_api import Direction, StreamError, StreamHandler
from rollup_node.stages.p2p.host.io.streams import MuxedStream, open_with
from rollup_node.stages.p2p.identity.multiaddr import Multiaddr, tcp_multiaddr
from rollup_node.stages.p2p.identity.peer_id import Identity, PeerId, short_text
from rollup_node.stages.p2p.muxer.upgrade import UPGRADE_ERRORS, Upgrade, Upgraded
from rollup_node.stages.p2p.muxer.yamux import (
    Ended,
    Event,
    GoAwayCode,
    Opened,
    Received,
    Reset,
    Session,
    WentAway,
    WindowOpened,
    YamuxError,
)
from rollup_node.stages.p2p.security.noise import SealedStream
from rollup_node.stages.p2p.security.noise_handshake import NoiseKeys

HIGH_WATER = 256 * 1024
KEEPALIVE = 30.0
LINGER = 10.0
MOST_SMALL = 10_000
"""Small frames of yamux and small messages of noise that a peer may send within a second, together."""
_SMALL = 64
_FAREWELL = 1.0
_SILENT = 0.9
"""The part of the time between two looks after which a connection counts as silent."""

log = get_logger("p2p")


class TransportError(Exception):
    """The connection did not come about or broke; the text says why."""


class Timings(NamedTuple):
    """Seconds: for the whole upgrade and for each stream's negotiation; without any stream data; between two looks
    at a silent connection."""

    handshake: float = 10.0
    idle: float = 3600.0
    keepalive: float = KEEPALIVE


class Owner(TypingProtocol):
    """What a connection needs of its host."""

    identity: Identity
    limits: TransportLimits
    timings: Timings
    early_muxer: bool
    bytes_in: int
    bytes_out: int

    def refuses_address(self, connection: "Connection") -> str | None:
        """Why this one may not even begin; called when TCP stands."""

    def upgraded(self, connection: "Connection") -> str | None:
        """The connection is ready for streams; a text if it may not stay."""

    def lost(self, connection: "Connection") -> None:
        """The connection is gone, upgraded or not; called once."""

    def handler(self, protocol: str) -> StreamHandler | None:
        """Who serves a protocol."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a task of the host."""


class Connection(asyncio.Protocol):
    """See the module. `expected` is the peer that was dialled, None for an inbound connection."""

    def __init__(self, owner: Owner, direction: Direction, expected: PeerId | None = None) -> None:
        self.direction = direction
        self.peer: PeerId = b""
        self.address: Multiaddr | None = None
        self.since = 0.0
        self.why = ""
        self.is_closed = False
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.session = Session(direction is Direction.OUTBOUND, owner.limits.inbound_streams)
        self.streams: dict[int, MuxedStream] = {}
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._upgrade: Upgrade | None = None
        self._expected = expected
        self._sealed: SealedStream | None = None
        self._transport: asyncio.Transport | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self.unread = 0
        self._reading_paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._last_heard = self._last_data = self._pinged = 0.0
        self._small_since, self._small_before, self._small_messages = 0.0, 0, 0

    @property
    def ip(self) -> str:
        """The other end's IP address; empty before TCP stands."""
        return self.address.parts[0].value if self.address else ""

    @property
    def local_ip(self) -> str:
        """Our IP address on this connection; empty if it is not known."""
        name = self._transport.get_extra_info("sockname") if self._transport else None
        return name[0].partition("%")[0] if name else ""

    @property
    def is_upgraded(self) -> bool:
        """Whether streams can be opened."""
        return self._sealed is not None and not self.is_closed

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TCP stands."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        name = transport.get_extra_info("peername")
        if name is None:
            return self.abort("gone at once")
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = tcp_multiaddr(name[0].partition("%")[0], name[1])
        refusal = self._owner.refuses_address(self)
        if refusal is not None:
            return self.abort(refusal)
        self._timer = self._loop.call_later(self._owner.timings.handshake, self._handshake_is_late)
        self._upgrade = Upgrade(
            self._owner.identity,
            NoiseKeys(os.urandom(32), os.urandom(32)),
            initiator=self.direction is Direction.OUTBOUND,
            expected=self._expected,
            offer_early=self._owner.early_muxer,
        )
        self._write([self._upgrade.take()])

    def data_received(self, data: bytes) -> None:
        """Bytes from the peer."""
        if self.is_closed:
            return
        self._owner.bytes_in += len(data)
        self._last_heard = self._loop.time()
        try:
            if self._sealed is None:
                self._go_on_upgrading(data)
            else:
                for plain in self._sealed.receive(data):
                    self._receive(plain)
        except UPGRADE_ERRORS as error:
            return self.abort(str(error))
        except YamuxError as error:
            return self.close(str(error), GoAwayCode.PROTOCOL_ERROR)
        self.flush()

    def eof_received(self) -> bool:
        """The peer closed its side of TCP."""
        self.close("closed by the peer")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """TCP is gone."""
        self._over(self.why or (str(error) if error else "closed by the peer"))

    def pause_writing(self) -> None:
        """The socket is full."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """The socket takes bytes again."""
        self._may_write.set()

    # --- for the host

    async def open_stream(self, protocols: tuple[str, ...]) -> MuxedStream:
        """A stream for the first of the protocols that the peer speaks; StreamError if there is none."""
        outbound = sum(stream.direction is Direction.OUTBOUND for stream in self.streams.values())
        if not self.is_upgraded or outbound >= self._owner.limits.outbound_streams:
            raise StreamError(self.why or "too many streams")
        try:
            number = self.session.open()
        except YamuxError as error:
            raise StreamError(str(error)) from None
        stream = self.streams[number] = MuxedStream(self, number, Proposer(protocols))
        self.flush()
        await open_with(stream, self._owner.timings.handshake, protocols)
        return stream

    def close(self, why: str, code: GoAwayCode = GoAwayCode.NORMAL) -> None:
        """Says goodbye and closes; what waits to be sent has a second to go out."""
        if self.is_closed:
            return
        if self._sealed is None:
            return self.abort(why)
        self.session.go_away(code)
        self.flush()
        transport = self._transport
        self._over(why)
        if transport is not None:
            transport.close()
            self._loop.call_later(_FAREWELL, transport.abort)

    def abort(self, why: str) -> None:
        """Cuts the connection at once."""
        transport = self._transport
        self._over(why)
        if transport is not None:
            transport.abort()

    # --- for streams (transport_streams.Carrier)

    def flush(self) -> None:
        """Sends what the session has left to send; a peer that takes nothing is cut off."""
        if self._sealed is None or self.is_closed:
            return
        parts = self.session.take()
        if parts:
            self._write(self._sealed.seal(b"".join(parts)))
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size() > self._owner.limits.backlog_bytes:
            self.abort("the peer does not take what it asks for")

    async def writable(self) -> None:
        """Waits while the socket is full."""
        while not self._may_write.is_set():
            await self._may_write.wait()

    def count_unread(self, change: int) -> None:
        """Notes bytes received or read; the socket is not read while too many are held."""
        self.unread += change
        most = self._owner.limits.unread_bytes
        if self._transport is None or self.is_closed:
            return
        if not self._reading_paused and self.unread > most:
            self._reading_paused = True
            self._transport.pause_reading()
        elif self._reading_paused and self.unread <= most // 2:
            self._reading_paused = False
            self._transport.resume_reading()

    def forget(self, stream: MuxedStream) -> None:
        """The stream is over in both directions."""
        self.streams.pop(stream.number, None)

    # --- inner

    def _go_on_upgrading(self, data: bytes) -> None:
        assert self._upgrade is not None
        found = self._upgrade.receive(data)
        out = self._upgrade.take()
        if out:
            self._write([out])
        if found is not None:
            self._start(found)

    def _start(self, found: Upgraded) -> None:
        """The upgrade is done."""
        self._upgrade = None
        self._sealed = found.stream
        self.peer = found.peer
        self.since = self._last_data = self._small_since = self._loop.time()
        self._set_timer(self._owner.timings.keepalive, self._look_after)
        refusal = self._owner.upgraded(self)
        if refusal is not None:
            return self.close(refusal)
        if not self.ready.done():
            self.ready.set_result(None)
        if found.early:
            self._receive(found.early)

    def _receive(self, plain: bytes) -> None:
        self._small_messages += len(plain) < _SMALL
        for event in self.session.receive(plain):
            if self.is_closed:
                return
            self._dispatch(event)
        self._bound_small()

    def _bound_small(self) -> None:
        count = self.session.small_frames + self._small_messages
        if self._last_heard - self._small_since > 1.0:
            self._small_since, self._small_before = self._last_heard, count
        elif count - self._small_before > MOST_SMALL:
            raise YamuxError("too many small frames")

    def _dispatch(self, event: Event) -> None:
        if isinstance(event, Opened):
            self._accept(event.stream)
        elif isinstance(event, WentAway):
            self.close("closed by the peer")
        elif isinstance(event, Received | Ended | Reset | WindowOpened):
            stream = self.streams.get(event.stream)
            if stream is None:
                return
            if isinstance(event, Received):
                self._last_data = self._last_heard
                stream.receive(event.data)
            elif isinstance(event, Ended):
                stream.receive_end()
            elif isinstance(event, Reset):
                stream.lose("reset by the peer")
            else:
                stream.window_opened()

    def _accept(self, number: int) -> None:
        """An inbound stream: its negotiation, in bounded time, and then its handler."""
        responder = Responder(lambda protocol: self._owner.handler(protocol) is not None)
        stream = self.streams[number] = MuxedStream(self, number, responder)
        late = self._loop.call_later(self._owner.timings.handshake, stream.reset, "no protocol in time")

        def agreed(stream: MuxedStream) -> None:
            late.cancel()
            handler = self._owner.handler(stream.protocol)
            if handler is None:
                stream.reset()
            else:
                self._owner.spawn(self._serve(stream, handler))

        stream.on_agreed = agreed
        stream.on_over = late.cancel

    async def _serve(self, stream: MuxedStream, handler: StreamHandler) -> None:
        try:
            await handler(stream)
        except (StreamError, TimeoutError) as error:
            log.trace("stream ended", peer=short_text(self.peer), protocol=stream.protocol, why=str(error))
            stream.reset()
        except asyncio.CancelledError:
            stream.reset()
            raise
        except Exception as error:
            log.crash("a stream's handler failed", error, peer=short_text(self.peer), protocol=stream.protocol)
            stream.reset()
            self.close("internal error", GoAwayCode.INTERNAL_ERROR)
        else:
            stream.close()
            stream.ignore_rest()
            if not stream.is_over:
                lingering = self._loop.call_later(LINGER, stream.reset)
                stream.on_over = lingering.cancel

    def _handshake_is_late(self) -> None:
        self.abort(f"no handshake within {self._owner.timings.handshake:g} s")

    def _look_after(self) -> None:
        """Pings a silent connection; closes one that stays silent, or that carried nothing for very long."""
        now, timings = self._loop.time(), self._owner.timings
        self._set_timer(timings.keepalive, self._look_after)
        if now - self._last_data > timings.idle:
            return self.close("idle")
        if self._pinged and self._last_heard < self._pinged:
            return self.abort("the peer does not answer")
        if now - self._last_heard >= _SILENT * timings.keepalive:
            self._pinged = now
            self.session.ping(0)
            self.flush()

    def _set_timer(self, seconds: float, what: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, what)

    def _write(self, pieces: list[bytes]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._owner.bytes_out += sum(map(len, pieces))
        self._transport.writelines(pieces)

    def _over(self, why: str) -> None:
        """The connection counts as gone; streams and the host are told once."""
        if self.is_closed:
            return
        self.is_closed, self.why = True, why
        self._may_write.set()
        if self._timer is not None:
            self._timer.cancel()
        if not self.ready.done():
            self.ready.set_exception(TransportError(why))
            self.ready.exception()
        for stream in list(self.streams.values()):
            stream.lose(why)
        self.streams.clear()
        self._owner.lost(self)
