"""The gossip work budget: how much CPU time the RPCs of each peer may take. RPCs that bring no valid new message are
charged with the time they took; a peer in debt is not read until its share of the budget has repaid it, so that a
hostile crowd slows itself down and other peers are served in between."""

from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.protocol.token_bucket import TokenBucket

TOTAL_SHARE = 0.3
"""The share of one core that useless RPCs of all peers together may take."""
MIN_PEERS = 10
"""Each peer's share is at most what it would be with this many peers."""
MAX_SAVED = 0.25


class WorkBudget:
    """The balance of each peer in seconds of work, negative in debt; it begins with 0. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._buckets: dict[PeerId, TokenBucket] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def charge(self, peer: PeerId, work: float, now: float) -> None:
        """Charge a peer with seconds of useless work."""
        bucket = self._buckets.get(peer)
        if bucket is None:
            self._buckets[peer] = bucket = TokenBucket(0.0, MAX_SAVED)
            work += MAX_SAVED
        bucket.rate = self._rate
        bucket.consume(now, work)

    def delay(self, peer: PeerId, now: float) -> float:
        """Return the seconds until the peer is out of debt."""
        bucket = self._buckets.get(peer)
        if bucket is None:
            return 0.0
        bucket.rate = self._rate
        return bucket.delay(now, 0.0)

    def remove_peer(self, peer: PeerId) -> None:
        """Remove a disconnected peer."""
        self._buckets.pop(peer, None)

    @property
    def _rate(self) -> float:
        return TOTAL_SHARE / max(MIN_PEERS, len(self._buckets))
