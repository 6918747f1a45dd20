"""What the services of this process (gossip, sync, identify, ping, discovery) see of the transport: a host with peers,
streams and events. `transport_host.Host` is the real one; tests of a service may bring their own."""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr
from rollup_node.stages.p2p.host.identify import IdentifyMessage
from rollup_node.stages.p2p.identity.peer_id import PeerId


class StreamError(Exception):
    """The stream or its connection is gone: reset by either end, cut, or not to be had at all."""


class DialError(Exception):
    """No connection to a peer came about; the text says why for each address."""


class Direction(Enum):
    """Who dialled; values as in `opp2p_peers`."""

    INBOUND = 1
    OUTBOUND = 2


class PeerConnected(NamedTuple):
    """The first connection to a peer stands; streams can be opened."""

    peer: PeerId
    direction: Direction
    address: Multiaddr


class PeerIdentified(NamedTuple):
    """A connected peer has said who it is and what it speaks; again after every push."""

    peer: PeerId
    identify: IdentifyMessage


class PeerDisconnected(NamedTuple):
    """The last connection to a peer is gone."""

    peer: PeerId


HostEvent = PeerConnected | PeerIdentified | PeerDisconnected
"""Handlers are synchronous and must not block; an event is sent once, in order."""


class ConnectionInfo(NamedTuple):
    """A connected peer as the host sees it. Times are monotonic seconds, `latency` seconds (None: not measured)."""

    peer: PeerId
    direction: Direction
    address: Multiaddr
    opened_at: float
    streams: int
    latency: float | None
    identify: IdentifyMessage | None


class Stream(Protocol):
    """A two-way byte stream to a peer. What came before a reset by the peer can still be read. Whoever holds one
    must read it to its end or `reset` it, and `close` what it has written; a handler's stream is reset when the
    handler raises, and closed when it returns."""

    @property
    def peer(self) -> PeerId:
        """The other end."""

    @property
    def protocol(self) -> str:
        """The protocol agreed on."""

    @property
    def direction(self) -> Direction:
        """INBOUND if the peer opened it."""

    async def read(self, most: int = 1 << 16) -> bytes:
        """Waits for bytes, at most `most`; empty once the peer has sent its last."""

    async def read_exactly(self, size: int) -> bytes:
        """Exactly `size` bytes; StreamError if the stream ends before."""

    async def read_all(self, most: int) -> bytes:
        """Everything until the peer's end; StreamError beyond `most` bytes."""

    async def read_message(self, most: int) -> bytes | None:
        """A message with its length as a varint before it; None if the stream ends at a message's border, StreamError
        for one longer than `most` bytes, cut short, or a minute under way."""

    async def write(self, data: bytes) -> None:
        """Sends all of it; waits while the peer's window or the socket is full. One writer at a time."""

    async def write_message(self, message: bytes) -> None:
        """Sends a message with its length before it."""

    def close(self) -> None:
        """Sends the end of our direction; reading goes on."""

    def reset(self) -> None:
        """Ends both directions at once; what was not read is dropped."""


StreamHandler = Callable[[Stream], Awaitable[None]]


class HostApi(Protocol):
    """The transport as services see it. All from one event loop."""

    @property
    def peer_id(self) -> PeerId:
        """Our own."""

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        """Where we listen, without our peer id."""

    def set_stream_handler(self, protocol: str, handler: StreamHandler) -> None:
        """Serves inbound streams of a protocol, each in a task of its own; tells connected peers of the change."""

    def remove_stream_handler(self, protocol: str) -> None:
        """Serves a protocol no longer."""

    def subscribe(self, handler: Callable[[HostEvent], None]) -> None:
        """Adds a listener for connections; it hears nothing of what was before (see `connections`)."""

    async def connect(self, peer: PeerId, addresses: Sequence[Multiaddr] = ()) -> None:
        """Makes sure of a connection: at the addresses given, or those known. DialError says why there is none."""

    async def open_stream(self, peer: PeerId, protocols: Sequence[str]) -> tuple[str, Stream]:
        """A stream to a connected peer for the first of the protocols that it speaks, and that protocol; StreamError
        if there is none within the handshake time. Does not dial."""

    def connections(self) -> list[ConnectionInfo]:
        """All connected peers."""

    def connection(self, peer: PeerId) -> ConnectionInfo | None:
        """A connected peer; None if it is not."""

    def disconnect(self, peer: PeerId, reason: str) -> None:
        """Closes all connections to the peer."""
