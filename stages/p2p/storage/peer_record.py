"""The records of a peer in the peerstore; the JSON of scores is that of `opp2p_peers` [PST2, RPC79]."""

import msgspec


class TopicScores(msgspec.Struct, frozen=True, rename="camel"):
    """Gossip counters of the block topics."""

    time_in_mesh: float = 0.0
    first_message_deliveries: float = 0.0
    mesh_message_deliveries: float = 0.0
    invalid_message_deliveries: float = 0.0


class GossipScores(msgspec.Struct, frozen=True):
    """The gossip score and its parts."""

    total: float = 0.0
    blocks: TopicScores = TopicScores()
    ip_colocation_factor: float = msgspec.field(default=0.0, name="IPColocationFactor")
    behavioral_penalty: float = msgspec.field(default=0.0, name="behavioralPenalty")


class ReqRespScores(msgspec.Struct, frozen=True, rename="camel"):
    """Decayed counts of responses to block requests."""

    valid_responses: float = 0.0
    error_responses: float = 0.0
    rejected_payloads: float = 0.0


class PeerScores(msgspec.Struct, frozen=True, rename="camel"):
    """All scores of a peer."""

    gossip: GossipScores = GossipScores()
    req_resp: ReqRespScores = ReqRespScores()


class PeerMetadata(msgspec.Struct, frozen=True):
    """The peer's node record: the record as text, and its chain id (0: unknown)."""

    enr: str = ""
    chain_id: int = 0


class IdentifyRecord(msgspec.Struct, frozen=True):
    """The contents of the peer's identify message."""

    agent: str = ""
    version: str = ""
    protocols: tuple[str, ...] = ()
