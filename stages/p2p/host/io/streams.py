"""A stream of a multiplexed connection: negotiates its protocol, and carries bytes both ways under the windows of
yamux. What a peer sent and nobody has read yet is bounded by the window."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from rollup_node.stages.p2p.encoding import varint
from rollup_node.stages.p2p.encoding.multistream import Initiator, MultistreamError, Responder
from rollup_node.stages.p2p.host.io.host_api import Direction, StreamError
from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.muxer.yamux import YamuxSession

MESSAGE_TIMEOUT = 60.0
"""How long a message may take from its first byte to its last: until then its bytes are ours to hold."""
_MAX_LENGTH_PREFIX = varint.MAX_BYTES


class StreamCarrier(Protocol):
    """What a stream needs of its connection."""

    session: YamuxSession
    peer: PeerId

    def flush(self) -> None:
        """Sends what the session has left to send."""

    async def wait_writable(self) -> None:
        """Waits while the socket is full."""

    def add_unread(self, change: int) -> None:
        """Notes bytes received (above 0) or read by the application (below 0)."""

    def stream_finished(self, stream: "MuxedStream") -> None:
        """The stream is over in both directions."""


class MuxedStream:
    """See hosting.Stream. `on_agreed` is called when an inbound stream has its protocol,
    `on_over` when the stream carries nothing any more (perhaps more than once)."""

    def __init__(self, carrier: StreamCarrier, number: int, negotiation: Initiator | Responder) -> None:
        self.stream_id = number
        self.protocol = ""
        self.direction = Direction.OUTBOUND if isinstance(negotiation, Initiator) else Direction.INBOUND
        self.on_negotiated: Callable[[MuxedStream], None] = _ignore
        self.on_finished: Callable[[], None] = _nothing
        self._carrier = carrier
        self._negotiation: Initiator | Responder | None = negotiation
        self._buffer = bytearray()
        self._changed = asyncio.Event()
        self._fin_received = self._fin_sent = self._aborted = self._discarding = False
        self._abort_reason = "reset"
        self._send_negotiation(negotiation.data_to_send())

    @property
    def peer(self) -> PeerId:
        """The other end."""
        return self._carrier.peer

    @property
    def is_finished(self) -> bool:
        """Whether neither direction carries anything any more."""
        return self._aborted or (self._fin_sent and self._fin_received)

    # --- called by the connection

    def receive_data(self, data: bytes) -> None:
        """Bytes from the peer."""
        if self._negotiation is not None:
            rest = self._receive_negotiation(self._negotiation, data)
            self._carrier.session.acknowledge_data(self.stream_id, len(data) - len(rest))
            data = rest
        if not data or self._aborted or self._discarding:
            return
        self._buffer += data
        self._carrier.add_unread(len(data))
        self._changed.set()

    def receive_fin(self) -> None:
        """The peer will send no more."""
        self._fin_received = True
        if self._negotiation is not None:
            self.reset("ended before a protocol was agreed on")
        self._changed.set()
        self._finish_if_closed()

    def window_updated(self) -> None:
        """More may be sent."""
        self._changed.set()

    def abort(self, why: str) -> None:
        """The stream is gone: reset by the peer, or with its connection. What came before can still be read."""
        if not self._aborted:
            self._aborted, self._abort_reason = True, why
            self._changed.set()
            self._finish()

    # --- called by the application

    async def negotiated(self) -> str:
        """Waits for the protocol; StreamError if there is none in common."""
        while self._negotiation is not None:
            self._raise_if_aborted()
            await self._wait()
        self._raise_if_aborted()
        return self.protocol

    async def read(self, most: int = 1 << 16) -> bytes:
        """Waits for bytes, at most `most`; empty once the peer has sent its last."""
        while not self._buffer:
            if self._fin_received:
                return b""
            self._raise_if_aborted()
            await self._wait()
        data = bytes(memoryview(self._buffer)[:most])
        del self._buffer[: len(data)]
        self._carrier.add_unread(-len(data))
        self._carrier.session.acknowledge_data(self.stream_id, len(data))
        self._carrier.flush()
        return data

    async def read_exactly(self, size: int) -> bytes:
        """Exactly `size` bytes; StreamError if the stream ends before."""
        found = bytearray()
        while len(found) < size:
            data = await self.read(size - len(found))
            if not data:
                raise StreamError(f"the stream ended {size - len(found)} bytes early")
            found += data
        return bytes(found)

    async def read_all(self, most: int) -> bytes:
        """Everything until the peer's end; StreamError beyond `most` bytes."""
        found = bytearray()
        while data := await self.read(min(1 << 16, most + 1 - len(found))):
            found += data
            if len(found) > most:
                raise StreamError(f"more than {most} bytes")
        return bytes(found)

    async def read_message(self, most: int) -> bytes | None:
        """A message with its length before it; None if the stream ends at a message's border."""
        first = await self.read(1)
        if not first:
            return None
        try:
            async with asyncio.timeout(MESSAGE_TIMEOUT):
                return await self._read_message(first, most)
        except TimeoutError:
            raise StreamError(f"a message took more than {MESSAGE_TIMEOUT:g} s") from None

    async def _read_message(self, prefix: bytes, most: int) -> bytes:
        while prefix[-1] >= 0x80:
            if len(prefix) >= _MAX_LENGTH_PREFIX:
                raise StreamError("a length that is no varint")
            byte = await self.read(1)
            if not byte:
                raise StreamError("the stream ended within a length")
            prefix += byte
        try:
            found = varint.decode(prefix)
        except varint.VarintError as error:
            raise StreamError(str(error)) from None
        length = found[0] if found else 0
        if length > most:
            raise StreamError(f"message of {length} bytes, {most} are allowed")
        return await self.read_exactly(length)

    async def write(self, data: bytes) -> None:
        """Sends all of it; waits while the peer's window or the socket is full."""
        view = memoryview(data)
        while view:
            self._raise_if_aborted()
            if self._fin_sent:
                raise StreamError("written after its end")
            await self._carrier.wait_writable()
            sent = self._carrier.session.send_data(self.stream_id, view)
            view = view[sent:]
            if sent:
                self._carrier.flush()
            elif not self._aborted:
                await self._wait()

    async def write_message(self, message: bytes) -> None:
        """Sends a message with its length before it."""
        await self.write(varint.encode(len(message)) + message)

    def close(self) -> None:
        """Sends the end of our direction; reading goes on."""
        if not self._fin_sent and not self._aborted:
            self._fin_sent = True
            self._carrier.session.close_stream(self.stream_id)
            self._carrier.flush()
            self._finish_if_closed()

    def reset(self, why: str = "reset by us") -> None:
        """Ends both directions at once; what was not read is dropped."""
        self._drop_unread()
        if not self._aborted:
            self._fin_received = False
            self._carrier.session.reset_stream(self.stream_id)
            self._carrier.flush()
            self.abort(why)

    def discard_input(self) -> None:
        """Drops what comes from now on: the application is done with reading."""
        self._discarding = True
        self._drop_unread()

    # --- inner

    def _receive_negotiation(self, negotiation: Initiator | Responder, data: bytes) -> bytes:
        """Goes on with the negotiation; gives what belongs to the protocol."""
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
        self.on_negotiated(self)
        return negotiation.trailing_data

    def _send_negotiation(self, data: bytes) -> None:
        """Sends lines of a negotiation, which never fill a window."""
        if data:
            self._carrier.session.send_data(self.stream_id, memoryview(data))

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _raise_if_aborted(self) -> None:
        if self._aborted:
            raise StreamError(self._abort_reason)

    def _drop_unread(self) -> None:
        self._carrier.add_unread(-len(self._buffer))
        self._buffer.clear()

    def _finish_if_closed(self) -> None:
        if self.is_finished:
            self._finish()

    def _finish(self) -> None:
        self.on_finished()
        self._carrier.stream_finished(self)


def _ignore(_: MuxedStream) -> None:
    """Nobody wants to know."""


def _nothing() -> None:
    """Nobody wants to know."""


async def negotiate_stream(stream: MuxedStream, seconds: float, protocols: Sequence[str]) -> str:
    """The protocol of a stream just opened; StreamError, and no stream, if none is agreed on in time."""
    try:
        async with asyncio.timeout(seconds):
            return await stream.negotiated()
    except TimeoutError:
        stream.reset()
        raise StreamError(f"no answer to {protocols[0]} within {seconds:g} s") from None
    except BaseException:
        with suppress(StreamError):
            stream.reset()
        raise
