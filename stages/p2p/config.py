"""What the p2p process is told at its start."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig

MEMORY = "memory"
"""In place of a path: nothing is kept on disk."""


class P2pConfig(msgspec.Struct, frozen=True):
    """The options `p2p.*` (options 2.7, node-behaviour 2.3). Durations in seconds, ports 0: any free one,
    addresses and networks as text. Lists of bootnodes are exactly those to use: nothing is added to them here.
    `early_muxer`: name the multiplexer within the noise handshake, which saves a round trip where both ends do."""

    rollup: RollupConfig
    priv_path: str = "node_p2p_priv.txt"
    priv_raw: bytes | None = None
    peerstore_path: str = MEMORY
    discovery_path: str = MEMORY
    listen_ip: str = "0.0.0.0"
    listen_tcp: int = 9222
    listen_udp: int = 0
    advertise_ip: str | None = None
    advertise_tcp: int = 0
    advertise_udp: int = 0
    nat: bool = False
    no_discovery: bool = False
    bootnodes: tuple[str, ...] = ()
    netrestrict: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    user_agent: str = "optimism"
    ping: bool = True
    peers_lo: int = 20
    peers_hi: int = 30
    peers_grace: float = 30.0
    ban_peers: bool = True
    ban_threshold: float = -100.0
    ban_duration: float = 3600.0
    scoring: str = "light"
    sequencer_key: bytes | None = None
    gossip_timestamp_threshold: float = 60.0
    mesh_d: int = 8
    mesh_lo: int = 6
    mesh_hi: int = 12
    mesh_lazy: int = 6
    flood_publish: bool = False
    sync_req_resp: bool = True
    sync_only_req_to_static: bool = False
    dial_timeout: float = 10.0
    handshake_timeout: float = 10.0
    idle_timeout: float = 3600.0
    early_muxer: bool = True
    limits: "ResourceLimits" = msgspec.field(default_factory=lambda: ResourceLimits())


class ResourceLimits(msgspec.Struct, frozen=True):
    """Bounds on what peers can make us hold. Streams are counted per connection and direction, bytes in
    `unread_bytes` are those received and not yet read over all streams of a connection (beyond it the socket is not
    read), `backlog_bytes` those that a peer does not take from us before its connection is dropped."""

    connections: int = 0
    connections_per_peer: int = 4
    half_open: int = 64
    dials: int = 16
    inbound_streams: int = 128
    outbound_streams: int = 256
    unread_bytes: int = 4 << 20
    backlog_bytes: int = 2 << 20

    def most_connections(self, peers_hi: int) -> int:
        """Connections kept open at once, upgraded ones of both directions: `connections`, or by the high tide."""
        return self.connections or max(2 * peers_hi, peers_hi + 32)
