"""One TCP connection to a peer: the upgrade with its deadline, then streams over yamux.

What a peer can make us hold is bounded, and a protocol violation ends the connection."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr, tcp_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import PeerId, short_peer_id
from rollup_node.stages.p2p.encoding.multistream import Initiator, Responder
from rollup_node.stages.p2p.gating.peer_drops import PeerDrop, PeerDropReason
from rollup_node.stages.p2p.host.io.host_api import Direction, StreamError
from rollup_node.stages.p2p.host.io.streams import Stream, StreamHandler
from rollup_node.stages.p2p.transport import yamux
from rollup_node.stages.p2p.transport.noise import NoiseKeys, SecureSession
from rollup_node.stages.p2p.transport.upgrader import UPGRADE_ERRORS, UpgradedConnection, Upgrader
from rollup_node.stages.p2p.transport.yamux import EventKind
from rollup_node.stages.protocol.pacing import TokenBucket

if TYPE_CHECKING:
    from rollup_node.stages.p2p.host.io.host import Host

WRITE_BUFFER_HIGH_WATER = 256 * 1024
KEEPALIVE_INTERVAL = 30.0
LINGER_SECONDS = 10.0
MAX_DROPPED_STREAMS = 3
"""Streams dropped for what they held, after which the connection is closed."""
READ_BYTES = 32 * 1024
"""Bytes of one connection that are handled before others have their turn."""
STREAM_RATE, STREAM_BURST = 20.0, 64.0
"""Streams that a peer may open per second on a connection, and at once; further ones are reset unread."""
MAX_SMALL_FRAMES = 4_000
"""Small frames of yamux and small noise messages, together, that a peer may send within a second."""
_SMALL_MESSAGE_BYTES = 64
_GO_AWAY_SECONDS = 1.0
_SILENT_SHARE = 0.9
"""A connection is silent when nothing came for this share of the keepalive interval."""

log = Logger("p2p")


class TransportError(Exception):
    """Listening or connecting failed, or the connection broke; the text has the reason."""


class Connection(asyncio.Protocol):
    """A connection; `expected_peer` is the peer that was dialled, None for an inbound one.

    `ready` resolves once it is upgraded, or fails with TransportError. `opened_at` is in the event loop's time."""

    def __init__(self, host: "Host", direction: Direction, expected_peer: PeerId | None = None) -> None:
        self.direction = direction
        self.peer: PeerId = b""
        self.remote_address: Multiaddr | None = None
        self.opened_at = 0.0
        self.drop: PeerDrop | None = None
        self.is_closed = False
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.session = yamux.YamuxSession(direction is Direction.OUTBOUND, host.limits.inbound_streams)
        self.streams: dict[int, Stream] = {}
        self.host = host
        self._loop = asyncio.get_running_loop()
        self._upgrader: Upgrader | None = None
        self._expected_peer = expected_peer
        self._secure_session: SecureSession | None = None
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.unread_bytes = 0
        self._stream_limit = TokenBucket(STREAM_RATE, STREAM_BURST)
        self._running_handlers = self._dropped_streams = 0
        self._is_full = False
        self._in_debt: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_received = self._last_data = self._pinged_at = 0.0
        self._small_window_start, self._small_at_window_start, self._small_messages = 0.0, 0, 0

    @property
    def remote_ip(self) -> str:
        """The remote IP address; empty until TCP is connected."""
        return self.remote_address.components[0].value if self.remote_address else ""

    @property
    def local_ip(self) -> str:
        """Our IP address on this connection; empty if it is unknown."""
        name = self._transport.get_extra_info("sockname") if self._transport else None
        return name[0].partition("%")[0] if name else ""

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH_WATER)
        # asyncio reads 256 KiB at once, in which there is room for 20,000 frames.
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        name = transport.get_extra_info("peername")
        if name is None:
            return self.abort(PeerDropReason.GONE_BEFORE_HANDSHAKE)
        self.remote_address = tcp_multiaddr(name[0].partition("%")[0], name[1])
        denied = self.host.intercept_accept(self)
        if denied is not None:
            return self.abort(denied)
        seconds = self.host.config.handshake_timeout
        self._timer = self._loop.call_later(seconds, self.abort, PeerDropReason.HANDSHAKE_TIMED_OUT, f"{seconds:g} s")
        self._upgrader = Upgrader(
            self.host.identity,
            NoiseKeys(os.urandom(32), os.urandom(32)),
            initiator=self.direction is Direction.OUTBOUND,
            expected_peer=self._expected_peer,
            early_muxer=self.host.config.early_muxer,
        )
        self._write([self._upgrader.data_to_send()])

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the upgrader, or decrypts them for the yamux session."""
        if self.is_closed:
            return
        started = time.thread_time()
        self.host.bytes_in += len(data)
        self._last_received = self._loop.time()
        self._receive(data)
        self._pause_reading(self.host.charge_work(self.peer, time.thread_time() - started))

    def _receive(self, data: bytes) -> None:
        try:
            if self._secure_session is None:
                self._continue_upgrade(data)
            else:
                for plain in self._secure_session.receive_data(data):
                    self._receive_plaintext(plain)
        except UPGRADE_ERRORS as error:
            return self.abort(PeerDropReason.HANDSHAKE_FAILED, str(error))
        except yamux.YamuxError as error:
            return self.close(PeerDropReason.PROTOCOL_ERROR, str(error), yamux.GoAwayCode.PROTOCOL_ERROR)
        self.flush()

    def eof_received(self) -> bool:
        """Return the peer closed its side of TCP."""
        self.close(PeerDropReason.CLOSED_BY_PEER)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """TCP is disconnected."""
        self._finish(PeerDrop(PeerDropReason.LOST, str(error)) if error else PeerDrop(PeerDropReason.CLOSED_BY_PEER))

    def pause_writing(self) -> None:
        """Stop sending while the socket's buffer is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Send again: the socket's buffer has room."""
        self._writable.set()

    # --- called by the host

    async def open_stream(self, protocols: tuple[str, ...]) -> Stream:
        """Open a stream for the first of the protocols that the peer supports. Raises StreamError."""
        outbound = sum(stream.direction is Direction.OUTBOUND for stream in self.streams.values())
        is_upgraded = self._secure_session is not None and not self.is_closed
        if not is_upgraded or outbound >= self.host.limits.outbound_streams:
            raise StreamError(str(self.drop or "too many streams"))
        try:
            stream_id = self.session.open_stream()
        except yamux.YamuxError as error:
            raise StreamError(str(error)) from None
        stream = self.streams[stream_id] = Stream(self, stream_id, Initiator(protocols))
        self.flush()
        await stream.negotiated(self.host.config.handshake_timeout, protocols[0])
        return stream

    def close(self, reason: PeerDropReason, detail: str = "", code: yamux.GoAwayCode = yamux.GoAwayCode.NORMAL) -> None:
        """Send GO_AWAY and close; bytes not yet sent have a second to go out."""
        if self.is_closed:
            return
        if self._secure_session is None:
            return self.abort(reason, detail)
        self.session.go_away(code)
        self.flush()
        transport = self._transport
        self._finish(PeerDrop(reason, detail))
        if transport is not None:
            transport.close()
            self._loop.call_later(_GO_AWAY_SECONDS, transport.abort)

    def abort(self, reason: PeerDropReason, detail: str = "") -> None:
        transport = self._transport
        self._finish(PeerDrop(reason, detail))
        if transport is not None:
            transport.abort()

    # --- called by streams

    def flush(self) -> None:
        """Send what the yamux session has to send; a peer that does not read is disconnected."""
        if self._secure_session is None or self.is_closed:
            return
        parts = self.session.data_to_send()
        if parts:
            self._write(self._secure_session.encrypt(b"".join(parts)))
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size() > self.host.limits.backlog_bytes:
            self.abort(PeerDropReason.DOES_NOT_READ)

    async def wait_writable(self) -> None:
        """Wait while the socket's buffer is full."""
        while not self._writable.is_set():
            await self._writable.wait()

    def add_unread(self, count: int) -> None:
        """Count bytes received (positive) or read (negative); too many unread ones pause the socket."""
        self.unread_bytes += count
        limit = self.host.limits.unread_bytes
        if not self._is_full and self.unread_bytes > limit:
            self._is_full = True
            self._update_reading()
        elif self._is_full and self.unread_bytes <= limit // 2:
            self._is_full = False
            self._update_reading()

    def stream_dropped(self) -> None:
        """Close the connection of a peer that goes on holding too much."""
        self._dropped_streams += 1
        if self._dropped_streams >= MAX_DROPPED_STREAMS:
            self.close(PeerDropReason.TOO_MUCH_HELD, code=yamux.GoAwayCode.PROTOCOL_ERROR)

    def serve_stream(self, stream: Stream) -> None:
        """Run the handler of an inbound stream that has its protocol."""
        if stream.timer is not None:
            stream.timer.cancel()
        handler = self.host.stream_handlers.get(stream.protocol)
        # A handler may outlive its stream: a peer that resets streams must not collect handlers.
        if handler is None or self._running_handlers >= self.host.limits.inbound_streams:
            stream.reset()
        else:
            self._running_handlers += 1
            self.host.spawn(self._run_handler(stream, handler))

    # --- internal

    def _pause_reading(self, seconds: float) -> None:
        """Do not read the socket for a time."""
        if seconds and self._in_debt is None and not self.is_closed:
            self._in_debt = self._loop.call_later(seconds, self._resume_reading)
            self._update_reading()

    def _resume_reading(self) -> None:
        self._in_debt = None
        self._update_reading()

    def _update_reading(self) -> None:
        """Pause or resume reading; both may be asked for repeatedly."""
        if self._transport is None or self.is_closed:
            return
        if self._is_full or self._in_debt is not None:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _continue_upgrade(self, data: bytes) -> None:
        assert self._upgrader is not None
        upgraded = self._upgrader.receive_data(data)
        out = self._upgrader.data_to_send()
        if out:
            self._write([out])
        if upgraded is not None:
            self._finish_upgrade(upgraded)

    def _finish_upgrade(self, upgraded: UpgradedConnection) -> None:
        self._upgrader = None
        self._secure_session = upgraded.session
        self.peer = upgraded.peer
        self.opened_at = self._last_data = self._small_window_start = self._loop.time()
        self._set_timer(self.host.keepalive_interval, self._keep_alive)
        denied = self.host.connection_upgraded(self)
        if denied is not None:
            return self.close(denied)
        if not self.ready.done():
            self.ready.set_result(None)
        if upgraded.early_data:
            self._receive_plaintext(upgraded.early_data)

    def _receive_plaintext(self, plain: bytes) -> None:
        self._small_messages += len(plain) < _SMALL_MESSAGE_BYTES
        for event in self.session.receive_data(plain):
            if self.is_closed:
                return
            self._dispatch(event)
        self._check_small_frames()

    def _check_small_frames(self) -> None:
        count = self.session.small_frames + self._small_messages
        if self._last_received - self._small_window_start > 1.0:
            self._small_window_start, self._small_at_window_start = self._last_received, count
        elif count - self._small_at_window_start > MAX_SMALL_FRAMES:
            raise yamux.YamuxError("too many small frames")

    def _dispatch(self, event: yamux.YamuxEvent) -> None:
        if event.kind is EventKind.OPENED:
            self._accept_stream(event.stream_id)
        elif event.kind is EventKind.GO_AWAY:
            self.close(PeerDropReason.CLOSED_BY_PEER)
        elif (stream := self.streams.get(event.stream_id)) is None:
            return
        elif event.kind is EventKind.DATA:
            self._last_data = self._last_received
            stream.receive_data(event.data)
        elif event.kind is EventKind.ENDED:
            stream.receive_fin()
        elif event.kind is EventKind.RESET:
            stream.abort("reset by the peer")
        else:
            stream.window_updated()

    def _accept_stream(self, stream_id: int) -> None:
        """Accept an inbound stream: negotiates its protocol within the handshake timeout, then runs its handler."""
        if not self._stream_limit.allow(self._loop.time()):
            return self.session.reset_stream(stream_id)
        responder = Responder(self.host.stream_handlers.__contains__)
        stream = self.streams[stream_id] = Stream(self, stream_id, responder)
        seconds = self.host.config.handshake_timeout
        stream.timer = self._loop.call_later(seconds, stream.reset, "protocol negotiation timed out")

    async def _run_handler(self, stream: Stream, handler: StreamHandler) -> None:
        try:
            await handler(stream)
        except (StreamError, TimeoutError) as error:
            log.trace("stream ended", peer=short_peer_id(self.peer), protocol=stream.protocol, error=str(error))
            stream.reset()
        except asyncio.CancelledError:
            stream.reset()
            raise
        except Exception as error:
            log.crash("stream handler failed", error, peer=short_peer_id(self.peer), protocol=stream.protocol)
            stream.reset()
            self.close(PeerDropReason.INTERNAL_ERROR, code=yamux.GoAwayCode.INTERNAL_ERROR)
        else:
            stream.close()
            stream.discard_input()
            if not stream.is_finished:
                # A peer that never closes its direction must not keep the stream, and its inbound slot, for ever.
                stream.timer = self._loop.call_later(LINGER_SECONDS, stream.reset)
        finally:
            self._running_handlers -= 1

    def _keep_alive(self) -> None:
        """Ping a silent connection; close one that stays silent, or has had no stream data for the idle timeout."""
        now, interval = self._loop.time(), self.host.keepalive_interval
        self._set_timer(interval, self._keep_alive)
        if now - self._last_data > self.host.config.idle_timeout:
            return self.close(PeerDropReason.IDLE)
        if self._pinged_at and self._last_received < self._pinged_at:
            return self.abort(PeerDropReason.KEEPALIVE)
        if now - self._last_received >= _SILENT_SHARE * interval:
            self._pinged_at = now
            self.session.ping(0)
            self.flush()

    def _set_timer(self, seconds: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, callback)

    def _write(self, pieces: list[bytes]) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self.host.bytes_out += sum(map(len, pieces))
        self._transport.writelines(pieces)

    def _finish(self, drop: PeerDrop) -> None:
        """Mark the connection as closed and aborts its streams; the owner is called once."""
        if self.is_closed:
            return
        self.is_closed, self.drop = True, drop
        self._writable.set()
        for timer in (self._timer, self._in_debt):
            if timer is not None:
                timer.cancel()
        if not self.ready.done():
            self.ready.set_exception(TransportError(str(drop)))
            # Marks the exception as retrieved: nobody awaits `ready` of an inbound connection.
            self.ready.exception()
        for stream in list(self.streams.values()):
            stream.abort(str(drop))
        self.streams.clear()
        self.host.connection_closed(self)
