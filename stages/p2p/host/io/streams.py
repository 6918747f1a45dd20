"""A stream of a multiplexed connection: negotiates its protocol, then carries bytes both ways under yamux's windows.

The window also bounds the bytes received and not yet read."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.encoding import varint
from rollup_node.stages.p2p.encoding.multistream import Initiator, MultistreamError, Responder
from rollup_node.stages.p2p.host.io.host_api import Direction, StreamError

if TYPE_CHECKING:
    from rollup_node.stages.p2p.host.io.connection import Connection

MESSAGE_TIMEOUT = 60.0
"""The time in seconds from a message's first byte to its last; until then its bytes are held."""


class Stream:
    """A two-way byte stream to a peer; its methods raise StreamError once it is gone.

    Its opener must read it to its end or `reset` it, and `close` it after writing; one of a handler is reset when that
    raises, and closed when it returns. `timer` is cancelled when the stream carries nothing any more."""

    def __init__(self, connection: "Connection", stream_id: int, negotiation: Initiator | Responder) -> None:
        self.stream_id = stream_id
        self.protocol = ""
        self.direction = Direction.OUTBOUND if isinstance(negotiation, Initiator) else Direction.INBOUND
        self.timer: asyncio.TimerHandle | None = None
        self._connection = connection
        self._negotiation: Initiator | Responder | None = negotiation
        self._buffer = bytearray()
        self._held = 0
        self._changed = asyncio.Event()
        self._fin_received = self._fin_sent = self._aborted = self._discarding = False
        self._abort_reason = "reset"
        self._send_negotiation(negotiation.data_to_send())

    @property
    def peer(self) -> PeerId:
        return self._connection.peer

    @property
    def is_finished(self) -> bool:
        """Whether neither direction carries data any more."""
        return self._aborted or (self._fin_sent and self._fin_received)

    def receive_data(self, data: bytes) -> None:
        """Bytes from the peer: negotiation lines first, then data."""
        if self._negotiation is not None:
            trailing = self._receive_negotiation(self._negotiation, data)
            self._connection.session.acknowledge_data(self.stream_id, len(data) - len(trailing))
            data = trailing
        if not data or self._aborted or self._discarding:
            return
        self._buffer += data
        self._connection.add_unread(len(data))
        self._changed.set()
        self.hold(len(data))

    def receive_fin(self) -> None:
        """Close the peer's direction."""
        self._fin_received = True
        if self._negotiation is not None:
            self.reset("closed before a protocol was negotiated")
        self._changed.set()
        self._finish_if_closed()

    def window_updated(self) -> None:
        """Send on: the send window has grown."""
        self._changed.set()

    def abort(self, reason: str) -> None:
        """End the stream, reset by the peer or with its connection. Bytes received before can still be read."""
        if not self._aborted:
            self._aborted, self._abort_reason = True, reason
            self._changed.set()
            self._finish()

    async def negotiated(self, seconds: float, protocol: str) -> None:
        """Wait for an agreement; reset the stream, and raise StreamError, when there is none in time."""
        try:
            async with asyncio.timeout(seconds):
                while self._negotiation is not None and not self._aborted:
                    await self._wait()
            self._raise_if_aborted()
        except TimeoutError:
            self.reset()
            raise StreamError(f"no response to {protocol} within {seconds:g} s") from None
        except BaseException:
            self.reset()
            raise

    async def read(self, max_bytes: int = 1 << 16) -> bytes:
        """Wait for bytes and return at most `max_bytes`; empty once the peer has closed its direction."""
        data = await self._take(max_bytes)
        self._release(len(data))
        return data

    async def read_exactly(self, size: int) -> bytes:
        """Return exactly `size` bytes. Raises StreamError when the stream ends before."""
        result = bytearray()
        try:
            while len(result) < size:
                data = await self._take(size - len(result))
                if not data:
                    raise StreamError(f"stream ended {size - len(result)} bytes early")
                result += data
            return bytes(result)
        finally:
            self._release(len(result))

    async def read_all(self, max_bytes: int) -> bytes:
        """Return everything up to the peer's close. Raises StreamError beyond `max_bytes`."""
        result = bytearray()
        try:
            while data := await self._take(min(1 << 16, max_bytes + 1 - len(result))):
                result += data
                if len(result) > max_bytes:
                    raise StreamError(f"more than {max_bytes} bytes")
            return bytes(result)
        finally:
            self._release(len(result))

    async def read_message(self, max_bytes: int) -> bytes | None:
        """Return a length-prefixed message; None when the stream ends between messages. Raises StreamError."""
        first = await self.read(1)
        if not first:
            return None
        try:
            async with asyncio.timeout(MESSAGE_TIMEOUT):
                return await self._read_message(first, max_bytes)
        except TimeoutError:
            raise StreamError(f"message not complete within {MESSAGE_TIMEOUT:g} s") from None

    async def _read_message(self, prefix: bytes, max_bytes: int) -> bytes:
        while prefix[-1] >= 0x80:
            if len(prefix) >= varint.MAX_BYTES:
                raise StreamError("malformed length prefix")
            byte = await self.read(1)
            if not byte:
                raise StreamError("stream ended within a length prefix")
            prefix += byte
        try:
            result = varint.decode(prefix)
        except varint.VarintError as error:
            raise StreamError(str(error)) from None
        length = result[0] if result else 0
        if length > max_bytes:
            raise StreamError(f"message of {length} bytes exceeds {max_bytes}")
        return await self.read_exactly(length)

    async def write(self, data: bytes) -> None:
        """Send all of `data`; waits while the peer's window or the socket is full."""
        view = memoryview(data)
        while view:
            self._raise_if_aborted()
            if self._fin_sent:
                raise StreamError("stream is closed for writing")
            await self._connection.wait_writable()
            # The loop checks again after each wait: the stream may have been reset meanwhile.
            sent = self._connection.session.send_data(self.stream_id, view)
            view = view[sent:]
            if sent:
                self._connection.flush()
            elif not self._aborted:
                await self._wait()

    async def write_message(self, message: bytes) -> None:
        """Send a message prefixed with its length."""
        await self.write(varint.encode(len(message)) + message)

    def hold(self, count: int) -> None:
        """Count bytes that are held for the stream's peer until the stream ends, beside those received."""
        self._held += count
        self._connection.host.add_held(self, count)

    def close(self) -> None:
        """Close our direction; reading goes on."""
        if not self._fin_sent and not self._aborted:
            self._fin_sent = True
            self._connection.session.close_stream(self.stream_id)
            self._connection.flush()
            self._finish_if_closed()

    def reset(self, reason: str = "reset by us") -> None:
        """End both directions; unread bytes are dropped."""
        self._drop_unread()
        if not self._aborted:
            self._fin_received = False
            self._connection.session.reset_stream(self.stream_id)
            self._connection.flush()
            self.abort(reason)

    def drop(self, reason: str) -> None:
        """Reset the stream because too much is held for its peer."""
        self.reset(reason)
        self._connection.stream_dropped()

    def discard_input(self) -> None:
        """Drop data from now on: the handler has returned."""
        self._discarding = True
        self._drop_unread()

    def _receive_negotiation(self, negotiation: Initiator | Responder, data: bytes) -> bytes:
        """Continue the negotiation; returns the bytes that belong to the protocol."""
        try:
            selected = negotiation.receive_data(data)
        except MultistreamError as error:
            self._send_negotiation(negotiation.data_to_send())
            self.reset(str(error))
            return b""
        self._send_negotiation(negotiation.data_to_send())
        if selected is None:
            return b""
        self._negotiation, self.protocol = None, selected
        self._changed.set()
        if self.direction is Direction.INBOUND:
            self._connection.serve_stream(self)
        return negotiation.trailing_data

    def _send_negotiation(self, data: bytes) -> None:
        """Send lines of the negotiation, which never fill the window."""
        if data:
            self._connection.session.send_data(self.stream_id, memoryview(data))

    async def _take(self, max_bytes: int) -> bytes:
        """Like `read`, but the bytes count as held until they are released."""
        while not self._buffer:
            if self._fin_received:
                return b""
            self._raise_if_aborted()
            await self._wait()
        data = bytes(memoryview(self._buffer)[:max_bytes])
        del self._buffer[: len(data)]
        self._connection.add_unread(-len(data))
        self._connection.session.acknowledge_data(self.stream_id, len(data))
        self._connection.flush()
        return data

    def _release(self, count: int) -> None:
        # After a reset nothing is held any more, although a reader may still have to notice it.
        count = min(count, self._held)
        if count:
            self._held -= count
            self._connection.host.add_held(self, -count)

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _raise_if_aborted(self) -> None:
        if self._aborted:
            raise StreamError(self._abort_reason)

    def _drop_unread(self) -> None:
        self._connection.add_unread(-len(self._buffer))
        self._buffer.clear()
        self._release(self._held)

    def _finish_if_closed(self) -> None:
        if self.is_finished:
            self._finish()

    def _finish(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self._connection.streams.pop(self.stream_id, None)


StreamHandler = Callable[[Stream], Awaitable[None]]
