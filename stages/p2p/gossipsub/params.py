"""Gossipsub parameters as OP Stack nodes set them [GSP7], and bounds of our own."""

import msgspec

from rollup_node.stages.p2p.config import P2pConfig

MESHSUB_12, MESHSUB_11, MESHSUB_10 = "/meshsub/1.2.0", "/meshsub/1.1.0", "/meshsub/1.0.0"
FLOODSUB = "/floodsub/1.0.0"
PROTOCOLS = (MESHSUB_12, MESHSUB_11, MESHSUB_10, FLOODSUB)
"""In order of preference [GSP6]."""

MAX_RPC_BYTES = 10 * (1 << 20)
MAX_PENDING_MESSAGES = 256
MAX_PENDING_BYTES = 24 << 20
"""Room for one message of the largest size, compressed and decompressed."""
MAX_QUEUED_BYTES = 2 * MAX_RPC_BYTES
MAX_SEEN = 1 << 16
MAX_EARLY_SUBSCRIBERS = 1000
MAX_PRUNE_BACKOFF = 3600.0
VALIDATION_TIMEOUT = 3.0


class GossipParams(msgspec.Struct, frozen=True):
    """Durations in seconds; `*_ticks`, `history_*` and `idontwant_message_ttl` in heartbeats.

    `wasted_bytes_budget` (refilled at each heartbeat) bounds the work that duplicates and rejected messages of one peer
    can cause, each charged with its size and an overhead. This bound is ours, not gossipsub's."""

    d: int = 8
    d_lo: int = 6
    d_hi: int = 12
    d_lazy: int = 6
    d_score: int = 4
    d_out: int = 2
    gossip_factor: float = 0.25
    heartbeat_interval: float = 0.5
    history_length: int = 12
    history_gossip: int = 3
    seen_ttl: float = 65.0
    prune_backoff: float = 60.0
    backoff_slack: float = 2.0
    backoff_clear_ticks: int = 15
    graft_flood_threshold: float = 10.0
    opportunistic_graft_ticks: int = 60
    opportunistic_graft_peers: int = 2
    max_ihave_length: int = 5000
    max_ihave_messages: int = 10
    iwant_followup_time: float = 3.0
    gossip_retransmission: int = 3
    max_idontwant_messages: int = 1000
    idontwant_message_threshold: int = 1024
    idontwant_message_ttl: int = 3
    flood_publish: bool = False
    outbound_queue_size: int = 256
    wasted_bytes_budget: int = 64 << 20
    wasted_bytes_refill: int = 4 << 20
    wasted_message_overhead: int = 1 << 16


def gossip_params(config: P2pConfig) -> GossipParams:
    """Return the parameters with the options `p2p.gossip.mesh.*`."""
    return GossipParams(
        d=config.mesh_d,
        d_lo=config.mesh_lo,
        d_hi=config.mesh_hi,
        d_lazy=config.mesh_lazy,
        flood_publish=config.flood_publish,
    )
