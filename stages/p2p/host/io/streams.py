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

MESSAGE_SECONDS = 60.0
"""How long a message may take from its first byte to its last: until then its bytes are ours to hold."""
_LONGEST_LENGTH = varint.MAX_BYTES


class StreamCarrier(Protocol):
    """What a stream needs of its connection."""

    session: YamuxSession
    peer: PeerId

    def flush(self) -> None:
        """Sends what the session has left to send."""

    async def writable(self) -> None:
        """Waits while the socket is full."""

    def count_unread(self, change: int) -> None:
        """Notes bytes received (above 0) or read by the application (below 0)."""

    def forget(self, stream: "MuxedStream") -> None:
        """The stream is over in both directions."""


class MuxedStream:
    """See hosting.Stream. `on_agreed` is called when an inbound stream has its protocol,
    `on_over` when the stream carries nothing any more (perhaps more than once)."""

    def __init__(self, carrier: StreamCarrier, number: int, negotiation: Initiator | Responder) -> None:
        self.number = number
        self.protocol = ""
        self.direction = Direction.OUTBOUND if isinstance(negotiation, Initiator) else Direction.INBOUND
        self.on_agreed: Callable[[MuxedStream], None] = _ignore
        self.on_over: Callable[[], None] = _nothing
        self._carrier = carrier
        self._negotiation: Initiator | Responder | None = negotiation
        self._buffer = bytearray()
        self._changed = asyncio.Event()
        self._ended = self._closed = self._gone = self._ignored = False
        self._why = "reset"
        self._send_now(negotiation.data_to_send())

    @property
    def peer(self) -> PeerId:
        """The other end."""
        return self._carrier.peer

    @property
    def is_over(self) -> bool:
        """Whether neither direction carries anything any more."""
        return self._gone or (self._closed and self._ended)

    # --- called by the connection

    def receive(self, data: bytes) -> None:
        """Bytes from the peer."""
        if self._negotiation is not None:
            rest = self._negotiate(self._negotiation, data)
            self._carrier.session.acknowledge_data(self.number, len(data) - len(rest))
            data = rest
        if not data or self._gone or self._ignored:
            return
        self._buffer += data
        self._carrier.count_unread(len(data))
        self._changed.set()

    def receive_end(self) -> None:
        """The peer will send no more."""
        self._ended = True
        if self._negotiation is not None:
            self.reset("ended before a protocol was agreed on")
        self._changed.set()
        self._forget_if_over()

    def window_opened(self) -> None:
        """More may be sent."""
        self._changed.set()

    def lose(self, why: str) -> None:
        """The stream is gone: reset by the peer, or with its connection. What came before can still be read."""
        if not self._gone:
            self._gone, self._why = True, why
            self._changed.set()
            self._forget()

    # --- called by the application

    async def agreed(self) -> str:
        """Waits for the protocol; StreamError if there is none in common."""
        while self._negotiation is not None:
            self._check()
            await self._wait()
        self._check()
        return self.protocol

    async def read(self, most: int = 1 << 16) -> bytes:
        """Waits for bytes, at most `most`; empty once the peer has sent its last."""
        while not self._buffer:
            if self._ended:
                return b""
            self._check()
            await self._wait()
        data = bytes(memoryview(self._buffer)[:most])
        del self._buffer[: len(data)]
        self._carrier.count_unread(-len(data))
        self._carrier.session.acknowledge_data(self.number, len(data))
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
            async with asyncio.timeout(MESSAGE_SECONDS):
                return await self._rest_of_message(first, most)
        except TimeoutError:
            raise StreamError(f"a message took more than {MESSAGE_SECONDS:g} s") from None

    async def _rest_of_message(self, prefix: bytes, most: int) -> bytes:
        while prefix[-1] >= 0x80:
            if len(prefix) >= _LONGEST_LENGTH:
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
            self._check()
            if self._closed:
                raise StreamError("written after its end")
            await self._carrier.writable()
            sent = self._carrier.session.send_data(self.number, view)
            view = view[sent:]
            if sent:
                self._carrier.flush()
            elif not self._gone:
                await self._wait()

    async def write_message(self, message: bytes) -> None:
        """Sends a message with its length before it."""
        await self.write(varint.encode(len(message)) + message)

    def close(self) -> None:
        """Sends the end of our direction; reading goes on."""
        if not self._closed and not self._gone:
            self._closed = True
            self._carrier.session.close_stream(self.number)
            self._carrier.flush()
            self._forget_if_over()

    def reset(self, why: str = "reset by us") -> None:
        """Ends both directions at once; what was not read is dropped."""
        self._drop_unread()
        if not self._gone:
            self._ended = False
            self._carrier.session.reset_stream(self.number)
            self._carrier.flush()
            self.lose(why)

    def ignore_rest(self) -> None:
        """Drops what comes from now on: the application is done with reading."""
        self._ignored = True
        self._drop_unread()

    # --- inner

    def _negotiate(self, negotiation: Initiator | Responder, data: bytes) -> bytes:
        """Goes on with the negotiation; gives what belongs to the protocol."""
        try:
            selected = negotiation.receive_data(data)
        except MultistreamError as error:
            self._send_now(negotiation.data_to_send())
            self.reset(str(error))
            return b""
        self._send_now(negotiation.data_to_send())
        if selected is None:
            return b""
        self._negotiation, self.protocol = None, selected
        self._changed.set()
        self.on_agreed(self)
        return negotiation.trailing_data

    def _send_now(self, data: bytes) -> None:
        """Sends lines of a negotiation, which never fill a window."""
        if data:
            self._carrier.session.send_data(self.number, memoryview(data))

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _check(self) -> None:
        if self._gone:
            raise StreamError(self._why)

    def _drop_unread(self) -> None:
        self._carrier.count_unread(-len(self._buffer))
        self._buffer.clear()

    def _forget_if_over(self) -> None:
        if self.is_over:
            self._forget()

    def _forget(self) -> None:
        self.on_over()
        self._carrier.forget(self)


def _ignore(_: MuxedStream) -> None:
    """Nobody wants to know."""


def _nothing() -> None:
    """Nobody wants to know."""


async def open_with(stream: MuxedStream, seconds: float, protocols: Sequence[str]) -> str:
    """The protocol of a stream just opened; StreamError, and no stream, if none is agreed on in time."""
    try:
        async with asyncio.timeout(seconds):
            return await stream.agreed()
    except TimeoutError:
        stream.reset()
        raise StreamError(f"no answer to {protocols[0]} within {seconds:g} s") from None
    except BaseException:
        with suppress(StreamError):
            stream.reset()
        raise
