"""The host's events and errors, and a connected peer as services see it."""

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr
from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.host.identify import IdentifyMessage

if TYPE_CHECKING:
    from rollup_node.stages.p2p.host.io.connection import Connection

_SMOOTHING = 0.1


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


class ConnectedPeer:
    """A connected peer, with its connections, oldest first; there is one at least while it is connected.

    `identify` is what its messages say, pushes included, the last of which came `pushed_at`; `latency` is its average
    round-trip time in seconds (None: not measured)."""

    def __init__(self, peer: PeerId) -> None:
        self.peer = peer
        self.connections: list[Connection] = []
        self.identify: IdentifyMessage | None = None
        self.pushed_at = float("-inf")
        self.latency: float | None = None

    @property
    def oldest(self) -> "Connection":
        return self.connections[0]

    @property
    def address(self) -> Multiaddr:
        """Where its oldest connection leads."""
        assert self.oldest.remote_address is not None
        return self.oldest.remote_address

    @property
    def streams(self) -> int:
        """The number of streams on all connections."""
        return sum(len(connection.streams) for connection in self.connections)

    def add_latency(self, seconds: float) -> None:
        """Add a round-trip time to the moving average."""
        average = seconds if self.latency is None else self.latency
        self.latency = average + _SMOOTHING * (seconds - average)
