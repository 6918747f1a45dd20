"""The host's events and errors, and a connected peer as services see it."""

from enum import Enum
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.multiaddr import Multiaddr
from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.host.identify import IdentifyMessage


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
