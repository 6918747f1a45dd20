"""Why a connection with a peer is refused or closed, as logs, `opp2p_*` and docs/peer-drops.md name it."""

from enum import Enum
from typing import NamedTuple


class PeerDropReason(Enum):
    """A member is its text (`{}`: what a single case adds) with its rule, its meaning, and what the operator can do."""

    def __init__(self, text: str) -> None:
        head, self.meaning, self.remedy = (line.strip() for line in text.split("\n"))
        self.text, _, rule = head.partition(" [")
        self.rule = rule.removesuffix("]")

    CLOSED_BY_PEER = """closed by the peer
    The peer closed the connection. It may have too many peers, or be of another chain.
    nothing; if all peers do so, see `rollup-node p2p doctor`"""
    LOST = """connection lost: {}
    TCP failed: the peer or the network is away.
    check the network"""
    GONE_BEFORE_HANDSHAKE = """disconnected before the handshake
    TCP ended before libp2p began: port scanners do so.
    nothing"""
    HANDSHAKE_FAILED = """handshake failed: {} [NET3]
    The other end does not speak libp2p with noise and yamux, or is not the peer that was dialled.
    check the address and the peer id of a static peer; otherwise nothing"""
    HANDSHAKE_TIMED_OUT = """handshake not finished within {} [NET3]
    The other end was silent or too slow while the connection was set up.
    nothing; if it repeats with a static peer, check the network and the load of both nodes"""
    TOO_MANY_HANDSHAKES = """too many unfinished handshakes
    Too many inbound connections were being set up; the oldest of the most crowded network gives way.
    nothing; limit the port by a firewall if it lasts"""
    PROTOCOL_ERROR = """protocol error: {} [NET3]
    The peer broke the rules of yamux, or sent too many small frames.
    nothing; block the peer if it comes back (`opp2p_blockPeer`)"""
    DOES_NOT_READ = """the peer does not read
    Too many bytes wait to be sent to the peer.
    nothing; with most peers, check the upload bandwidth"""
    TOO_MUCH_HELD = """too many bytes held
    The peer filled more memory than its share; one stream is reset, and the third time the connection ends.
    nothing; see docs/security.md for the limits"""
    KEEPALIVE = """keepalive timeout [NET5]
    The peer did not answer a ping of yamux.
    nothing"""
    IDLE = """idle [NET5]
    No stream had data for an hour.
    nothing"""
    INTERNAL_ERROR = """internal error
    This node failed while it served the peer; the log has the error.
    report the error in the log"""
    SHUTTING_DOWN = """shutting down
    This node stops.
    nothing"""
    ITSELF = """that is this node itself
    The address leads back to this node.
    remove it from `p2p.static`"""
    TOO_MANY_PEERS = """too many peers [NET8]
    More than `p2p.peers.hi` were connected; those with the lowest value go.
    nothing, or raise `p2p.peers.lo` and `p2p.peers.hi`"""
    TOO_MANY_CONNECTIONS = """too many connections [NET8]
    The limit of all connections is reached; only static and dialled peers get in.
    nothing, or raise `p2p.peers.hi`"""
    TOO_MANY_OF_PEER = """too many connections of one peer
    The peer is connected already.
    nothing; check that no two nodes have one network key"""
    TOO_MANY_OF_HOST = """too many connections of one host
    One address or network has its share of the connections.
    nothing; many nodes of yours behind one address need static peers"""
    OUTSIDE_NETWORKS = """outside p2p.netrestrict [NET12]
    The address is in none of the networks that the option allows.
    extend `p2p.netrestrict` if the peer is wanted"""
    ADDRESS_BLOCKED = """address blocked [SCR9]
    An operator blocked the address.
    `opp2p_unblockAddr` lifts it"""
    SUBNET_BLOCKED = """subnet blocked [SCR9]
    An operator blocked its network.
    `opp2p_unblockSubnet` lifts it"""
    PEER_BLOCKED = """peer blocked [SCR9]
    An operator blocked the peer.
    `opp2p_unblockPeer` lifts it"""
    PEER_BANNED = """peer banned [NET13]
    The peer is banned for a time.
    wait, or `opp2p_unblockPeer`"""
    BANNED = """banned: {} [SCR7]
    The score of the peer fell below `p2p.ban.threshold` just now.
    nothing; see `opp2p_peers` for the scores"""
    BY_OPERATOR = """disconnected by an operator [RPC82]
    `opp2p_disconnectPeer` was called.
    nothing"""


class PeerDrop(NamedTuple):
    """One case of a reason; `detail` is what it adds to the text."""

    reason: PeerDropReason
    detail: str = ""

    def __str__(self) -> str:
        """Print it as logs and `opp2p_*` show it."""
        return self.reason.text.format(self.detail)
