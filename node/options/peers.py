"""Options of the peer-to-peer network."""

from rollup_node.node.options.kinds import (
    ANY_INTEGER,
    BOOL,
    DURATION,
    HOST,
    KEY,
    NETWORKS,
    NUMBER,
    OPTIONAL_HOST,
    PATH,
    TEXT,
    TEXTS,
)
from rollup_node.node.options.model import Option, Section

_MESH = "Gossip mesh parameter."

PEERS = Section(
    "Peer-to-peer",
    (
        Option(
            *("p2p.advertise.ip", OPTIONAL_HOST, None, "NODE_P2P_ADVERTISE_IP"),
            "IP address, or host name to resolve, that discovery advertises.",
        ),
        Option(
            *("p2p.advertise.tcp", ANY_INTEGER, "0", "NODE_P2P_ADVERTISE_TCP"),
            "TCP port that discovery advertises; 0: that of p2p.listen.tcp.",
        ),
        Option(
            *("p2p.advertise.udp", ANY_INTEGER, "0", "NODE_P2P_ADVERTISE_UDP"),
            "UDP port to advertise when discovery does not find it out; 0: that of p2p.listen.udp.",
        ),
        Option(*("p2p.ban.duration", DURATION, "1h0m0s", "NODE_P2P_PEER_BANNING_DURATION"), "How long a ban lasts."),
        Option(*("p2p.ban.peers", BOOL, "true", "NODE_P2P_PEER_BANNING"), "Ban peers."),
        Option(
            *("p2p.ban.threshold", NUMBER, "-100", "NODE_P2P_PEER_BANNING_THRESHOLD"),
            "Score below which a peer is disconnected and banned.",
        ),
        Option(
            *("p2p.bootnodes", TEXTS, None, "NODE_P2P_BOOTNODES"),
            "Node records (ENR) that discovery starts from; those built in serve only networks built in.",
        ),
        Option(*("p2p.disable", BOOL, "false", "NODE_P2P_DISABLE"), "Run without the peer-to-peer network."),
        Option(
            *("p2p.discovery.path", PATH, "node_discovery_db", "NODE_P2P_DISCOVERY_PATH"),
            "Database of discovered node records; `memory` keeps none.",
        ),
        Option(
            *("p2p.gossip.timestamp.threshold", DURATION, "1m0s", "NODE_P2P_GOSSIP_TIMESTAMP_THRESHOLD"),
            "Gossiped blocks older than this are rejected.",
        ),
        Option(*("p2p.listen.ip", HOST, "0.0.0.0", "NODE_P2P_LISTEN_IP"), "Address to listen on for peers."),
        Option(
            *("p2p.listen.tcp", ANY_INTEGER, "9222", "NODE_P2P_LISTEN_TCP_PORT"),
            "TCP port for peers; 0: any free one.",
        ),
        Option(
            *("p2p.listen.udp", ANY_INTEGER, "0", "NODE_P2P_LISTEN_UDP_PORT"),
            "UDP port of discovery; 0: the same as the TCP port.",
        ),
        Option(*("p2p.nat", BOOL, "false", "NODE_P2P_NAT"), "Ask the router (PMP, UPnP) for the outer address."),
        Option(
            *("p2p.netrestrict", NETWORKS, None, "NODE_P2P_NETRESTRICT"),
            "Connect only within these networks (CIDR).",
        ),
        Option(*("p2p.no-discovery", BOOL, "false", "NODE_P2P_NO_DISCOVERY"), "Do without discovery."),
        Option(
            *("p2p.peers.grace", DURATION, "30s", "NODE_P2P_PEERS_GRACE"),
            "How long a new peer is kept if it does not misbehave.",
        ),
        Option(
            *("p2p.peers.hi", ANY_INTEGER, "30", "NODE_P2P_PEERS_HI"),
            "Number of peers above which connections are given up.",
        ),
        Option(
            *("p2p.peers.lo", ANY_INTEGER, "20", "NODE_P2P_PEERS_LO"),
            "Number of peers below which new ones are looked for.",
        ),
        Option(
            *("p2p.peerstore.path", PATH, "node_peerstore_db", "NODE_P2P_PEERSTORE_PATH"),
            "Database of peers, with a copy of this node's network key; `memory` keeps none.",
        ),
        Option(
            *("p2p.priv.path", PATH, "node_p2p_priv.txt", "NODE_P2P_PRIV_PATH"),
            "File with the network key, 32 bytes in hex; made if absent.",
        ),
        Option(*("p2p.scoring", TEXT, "light", "NODE_P2P_PEER_SCORING"), "How peers are scored: none or light."),
        Option(
            *("p2p.sequencer.key", KEY, None, "NODE_P2P_SEQUENCER_KEY"),
            "Private key that a sequencer signs its blocks with.",
            secret=True,
        ),
        Option(
            *("p2p.static", TEXTS, None, "NODE_P2P_STATIC"),
            "Trusted peers to stay connected with, as multiaddresses.",
        ),
        Option(
            *("p2p.sync.onlyreqtostatic", BOOL, "false", "NODE_P2P_SYNC_ONLYREQTOSTATIC"),
            "Ask only static peers for missing blocks.",
        ),
        Option(
            *("p2p.sync.req-resp", BOOL, "true", "NODE_P2P_SYNC_REQ_RESP"),
            "Ask peers for missing blocks, and answer such requests.",
        ),
    ),
)

_NO_EFFECT = "it has no effect any more"

PEER_DETAILS = Section(
    "Peer-to-peer details",
    tuple(
        Option(name, kind, default, variable, help_text, hidden=True, secret=name == "p2p.priv.raw", warning=warning)
        for name, kind, default, variable, help_text, warning in (
            ("p2p.priv.raw", KEY, None, "NODE_P2P_PRIV_RAW", "Network key in hex; wins over the file.", None),
            ("p2p.mux", TEXTS, "yamux,mplex", "NODE_P2P_MUX", "Stream multiplexers in order of choice.", None),
            ("p2p.security", TEXTS, "noise", "NODE_P2P_SECURITY", "Transport security: noise, tls, or none.", None),
            ("p2p.useragent", TEXT, "optimism", "NODE_P2P_AGENT", "Name told to peers.", None),
            ("p2p.timeout.negotiation", DURATION, "10s", "NODE_P2P_TIMEOUT_NEGOTIATION", "No effect.", _NO_EFFECT),
            ("p2p.timeout.accept", DURATION, "10s", "NODE_P2P_TIMEOUT_ACCEPT", "No effect.", _NO_EFFECT),
            ("p2p.timeout.dial", DURATION, "10s", "NODE_P2P_TIMEOUT_DIAL", "How long dialling may take.", None),
            ("p2p.gossip.mesh.d", ANY_INTEGER, "8", "NODE_P2P_GOSSIP_MESH_D", _MESH, None),
            ("p2p.gossip.mesh.lo", ANY_INTEGER, "6", "NODE_P2P_GOSSIP_MESH_DLO", _MESH, None),
            ("p2p.gossip.mesh.dhi", ANY_INTEGER, "12", "NODE_P2P_GOSSIP_MESH_DHI", _MESH, None),
            ("p2p.gossip.mesh.dlazy", ANY_INTEGER, "6", "NODE_P2P_GOSSIP_MESH_DLAZY", _MESH, None),
            (
                *("p2p.gossip.mesh.floodpublish", BOOL, "false", "NODE_P2P_GOSSIP_FLOOD_PUBLISH"),
                *("Publish own blocks to all peers of the topic.", None),
            ),
            ("p2p.ping", BOOL, "true", "NODE_P2P_PING", "Ping peers.", None),
            ("p2p.scoring.peers", TEXT, None, "NODE_P2P_SCORING_PEERS", "Old name of p2p.scoring.", None),
            ("p2p.scoring.topics", TEXT, None, "NODE_P2P_SCORING_TOPICS", "Old name of p2p.scoring.", None),
            ("p2p.score.bands", TEXT, None, "NODE_P2P_SCORE_BANDS", "No effect.", _NO_EFFECT),
        )
    ),
)
