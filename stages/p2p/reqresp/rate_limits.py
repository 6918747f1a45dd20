"""Rate limits of payload_by_number, the same for the server and the client [SYN7, SYN11]."""

from rollup_node.stages.p2p.gating.token_bucket import KeyedTokenBuckets, TokenBucket
from rollup_node.stages.p2p.identity.peer_id import PeerId

GLOBAL_RATE, GLOBAL_BURST = 20.0, 40.0
PEER_RATE, PEER_BURST = 4.0, 15.0
MAX_PEERS = 1000


class RequestLimiter:
    """The limit over all peers, and that of each peer. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._global = TokenBucket(GLOBAL_RATE, GLOBAL_BURST)
        self.peers: KeyedTokenBuckets[PeerId] = KeyedTokenBuckets(PEER_RATE, PEER_BURST, MAX_PEERS)

    def delay(self, peer: PeerId, now: float) -> float:
        """Seconds until a request of (or to) the peer is within both limits."""
        return max(self._global.delay(now), self.peers[peer].delay(now))

    def consume(self, peer: PeerId, now: float) -> None:
        """Count a request against both limits."""
        self._global.consume(now)
        self.peers[peer].consume(now)

    def charge(self, peer: PeerId, tokens: float, now: float) -> None:
        """Take tokens from a peer's own limit alone."""
        self.peers[peer].consume(now, tokens)
