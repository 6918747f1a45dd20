"""The configuration of the p2p process."""

from enum import StrEnum

import msgspec

from rollup_node.stages.protocol.config import RollupConfig

MEMORY = "memory"
"""In place of a path: nothing is kept on disk."""


class PeerScoring(StrEnum):
    """The values of `p2p.scoring` [SCR2, SCR5]."""

    LIGHT = "light"
    NONE = "none"


class ResourceLimits(msgspec.Struct, frozen=True):
    """Bounds on what peers can make us hold.

    Streams are counted per connection and direction. Beyond `unread_bytes` a connection's socket is not read, beyond
    `backlog_bytes` that a peer does not take it is aborted; `held_bytes` is for all peers together."""

    connections: int = 0
    connections_per_peer: int = 4
    half_open: int = 64
    dials: int = 16
    inbound_streams: int = 128
    outbound_streams: int = 256
    unread_bytes: int = 4 << 20
    backlog_bytes: int = 2 << 20
    held_bytes: int = 48 << 20

    def max_connections(self, peers_hi: int) -> int:
        """Return the maximum of upgraded connections: `connections`, or a multiple of `p2p.peers.hi` when that is 0."""
        return self.connections or max(2 * peers_hi, peers_hi + 32)


class SignerConfig(msgspec.Struct, frozen=True):
    """The options `signer.*`; `tls_ca` alone authenticates the signer, `tls_cert` and `tls_key` us [SGN1, SGN2]."""

    endpoint: str
    address: bytes
    headers: tuple[tuple[str, str], ...] = ()
    tls_enabled: bool = True
    tls_ca: str = "tls/ca.crt"
    tls_cert: str = "tls/tls.crt"
    tls_key: str = "tls/tls.key"


class P2pConfig(msgspec.Struct, frozen=True):
    """The options `p2p.*` [OPT19].

    Durations are in seconds; port 0 means any free one; `bootnodes` are exactly those used. Blocks of our own are
    signed with `sequencer_key` or by the remote `signer`, at most one of them."""

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
    scoring: PeerScoring = PeerScoring.LIGHT
    sequencer_key: bytes | None = None
    signer: SignerConfig | None = None
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
    limits: ResourceLimits = ResourceLimits()

    @property
    def has_signer(self) -> bool:
        """Whether this node can sign blocks."""
        return self.sequencer_key is not None or self.signer is not None

    @property
    def signed_blocks_path(self) -> str:
        """The file with the blocks that this node has signed, next to the peerstore [SGN11]."""
        return MEMORY if self.peerstore_path == MEMORY else f"{self.peerstore_path}_signed_blocks"
