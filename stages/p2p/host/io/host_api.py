"""The host as services see it: a peer's streams, connections and events, and what all services share.

`host.Host` implements it."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.gating.connection_gater import ConnectionGater
from rollup_node.stages.p2p.gating.connection_manager import ConnectionManager
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.stages.p2p.host.identify import IdentifyMessage
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity, PeerId
from rollup_node.stages.p2p.storage.io.peerstore import PeerStore


class StreamError(Exception):
    """The stream or its connection is gone, reset by either end, or could not be opened."""


class DialError(Exception):
    """No connection to a peer could be made; the text has the reason for each address."""


class Direction(Enum):
    """Which end opened a connection or stream; the values are those of `opp2p_peers` [RPC78]."""

    UNKNOWN = 0
    INBOUND = 1
    OUTBOUND = 2


class PeerConnected(NamedTuple):
    """The first connection to a peer is ready for streams."""

    peer: PeerId
    direction: Direction
    address: Multiaddr


class PeerIdentified(NamedTuple):
    """A connected peer sent an identify message; repeated after every push."""

    peer: PeerId
    identify: IdentifyMessage


class PeerDisconnected(NamedTuple):
    """The last connection to a peer is gone."""

    peer: PeerId


HostEvent = PeerConnected | PeerIdentified | PeerDisconnected
"""Events are delivered once and in order; handlers are synchronous and must not block."""


class ConnectionInfo(NamedTuple):
    """A connected peer.

    `direction`, `address` and `local_ip` (empty: unknown) are of its oldest connection, `remote_ips` and `streams`
    of all of them; `opened_at` is in monotonic seconds, `latency` in seconds (None: not measured)."""

    peer: PeerId
    direction: Direction
    address: Multiaddr
    local_ip: str
    remote_ips: tuple[str, ...]
    opened_at: float
    streams: int
    latency: float | None
    identify: IdentifyMessage | None


class Stream(Protocol):
    """A two-way byte stream to a peer.

    Bytes that came before a reset by the peer can still be read. The side that opens a stream must read it to its
    end or `reset` it, and `close` it after writing; a handler's stream is reset when the handler raises, and closed
    when it returns. All methods raise StreamError once the stream is gone."""

    @property
    def peer(self) -> PeerId:
        """The remote peer."""

    @property
    def protocol(self) -> str:
        """The negotiated protocol."""

    @property
    def direction(self) -> Direction:
        """INBOUND if the peer opened it."""

    async def read(self, max_bytes: int = 1 << 16) -> bytes:
        """Wait for bytes and returns at most `max_bytes`; empty once the peer has closed its direction."""

    async def read_exactly(self, size: int) -> bytes:
        """Return exactly `size` bytes. Raises StreamError when the stream ends before."""

    async def read_all(self, max_bytes: int) -> bytes:
        """Return everything up to the peer's close. Raises StreamError beyond `max_bytes`."""

    async def read_message(self, max_bytes: int) -> bytes | None:
        """Return a message that is prefixed with its length as a varint; None when the stream ends between messages.

        Raises StreamError for one that is longer than `max_bytes`, truncated, or takes longer than a minute."""

    async def write(self, data: bytes) -> None:
        """Send all of `data`; waits while the peer's window or the socket is full. One writer at a time."""

    async def write_message(self, message: bytes) -> None:
        """Send a message prefixed with its length."""

    def hold(self, count: int) -> None:
        """Count bytes that a handler keeps for the peer until it returns; the stream may be reset for them."""

    def close(self) -> None:
        """Close our direction; reading goes on."""

    def reset(self) -> None:
        """End both directions; unread bytes are dropped."""


StreamHandler = Callable[[Stream], Awaitable[None]]


class HostApi(Protocol):
    """The host.

    All calls are from one event loop. After a change of `connection_gater` call `save_gater`; `external_address` is
    where other machines reach us, None while that is unknown."""

    config: P2pConfig
    identity: NetworkIdentity
    peerstore: PeerStore
    meter: Meter
    connection_gater: ConnectionGater
    connection_manager: ConnectionManager
    external_address: Multiaddr | None
    port: int
    bytes_in: int
    bytes_out: int

    @property
    def held_bytes(self) -> int:
        """Bytes received and not yet processed, or kept for peers, over all streams."""

    @property
    def peer_id(self) -> PeerId:
        """Our peer id."""

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        """Our listen and external addresses, without peer id."""

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocols that have a stream handler."""

    def set_stream_handler(self, protocol: str, handler: StreamHandler) -> None:
        """Serve inbound streams of a protocol, each in its own task; identify is pushed to connected peers."""

    def subscribe(self, handler: Callable[[HostEvent], None]) -> None:
        """Subscribe to events from now on; `connections` has the peers that are already connected."""

    def emit(self, event: HostEvent) -> None:
        """Delivers an event to all subscribers."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task until the host stops."""

    async def connect(self, peer: PeerId, addresses: Sequence[Multiaddr] = ()) -> None:
        """Make sure of a connection: dials the addresses given, else the known ones, if there is none.

        Raises DialError when it cannot be made."""

    async def open_stream(self, peer: PeerId, protocols: Sequence[str]) -> tuple[str, Stream]:
        """Open a stream to a connected peer; returns the first of the protocols that the peer supports, and the stream.

        Does not dial. Raises StreamError when there is none within the handshake timeout."""

    async def measure_latency(self, peer: PeerId) -> None:
        """Pings a peer and updates its latency; a failure is logged only."""

    def peers(self) -> list[PeerId]:
        """All connected peers."""

    def connections(self) -> list[ConnectionInfo]:
        """All connected peers with their connections."""

    def connection(self, peer: PeerId) -> ConnectionInfo | None:
        """Return a connected peer; None if it is not connected."""

    def disconnect(self, peer: PeerId, reason: PeerDropReason, detail: str = "") -> None:
        """Close all connections to the peer."""

    def intercept_peer(self, peer: PeerId) -> PeerDropReason | None:
        """Return the reason why a connection with the peer is denied, None when it is allowed [NET13]."""

    def save_gater(self) -> None:
        """Write bans and blocks to the peerstore."""

    def ban(self, peer: PeerId, seconds: float, reason: str) -> None:
        """Bans a peer for a time and closes its connections [SCR7]."""
