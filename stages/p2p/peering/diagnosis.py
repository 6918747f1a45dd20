"""The diagnosis for `rollup-node p2p doctor`: what decides whether a node has peers and gets blocks from them.

It is the JSON result of `opp2p_diagnosis`."""

import msgspec


class ClosedConnectionInfo(msgspec.Struct, frozen=True):
    """A connection that has ended: the reason, and its duration in seconds."""

    peer: str
    why: str
    lasted: float


class DiscoveryDiagnosis(msgspec.Struct, frozen=True):
    """Discovery: our record and its endpoint, the table's numbers of nodes, dropped datagrams by reason."""

    record: str
    endpoint: str
    ip: str | None
    tcp: int
    udp: int
    nodes: dict[str, int]
    drops: dict[str, int]


class GossipDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Gossip: the current topic, the peers on and in the mesh of each, and what came of blocks since the start.

    Own blocks go to all peers below a mesh size. Blocks of peers are accepted (`accepted_ago`: seconds since the
    last) or not (`refused`, by failure). The unsafe block signers are those on L1 and of our key."""

    topic: str
    topics: dict[str, int]
    meshes: dict[str, int]
    low: int
    accepted: int
    accepted_ago: float | None
    refused: dict[str, int]
    published: int
    signer: str | None
    own_signer: str | None


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All of it.

    `inbound_ever` counts inbound connections from other machines since the start, `observed` our addresses as peers
    see them; `bans` has the seconds left of each ban."""

    peer: str
    chain_id: int
    listens: tuple[str, ...]
    is_listening: bool
    low: int
    high: int
    inbound: int
    outbound: int
    inbound_ever: int
    observed: dict[str, int]
    known: int
    dialable: int
    static_missing: tuple[str, ...]
    dial_problems: dict[str, str]
    bans: dict[str, float]
    blocked: int
    departed: tuple[ClosedConnectionInfo, ...]
    discovery: DiscoveryDiagnosis | None
    gossip: GossipDiagnosis
    problems: tuple[str, ...]
