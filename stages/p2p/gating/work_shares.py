"""Shares of the CPU time that the bytes of peers may take: decryption, yamux and the negotiation of streams.

Nobody is slowed down while all peers together stay within the total; beyond it those that took more than their share
are not read until their share has repaid it, so that a crowd which sends many small frames slows itself down alone."""

from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.protocol.pacing import TokenBucket

TOTAL_SHARE = 0.4
"""The share of one core that the bytes of all peers together may take before anyone is slowed down."""
MAX_SAVED = 0.1
MAX_DELAY = 15.0
"""Seconds after which a peer in debt is read again at the latest, before a keepalive check takes it for dead."""


class WorkShares:
    """The balance of all peers and of each in seconds of work; handshakes share that of the empty peer id."""

    def __init__(self) -> None:
        self._total = TokenBucket(TOTAL_SHARE, MAX_SAVED)
        self._peers: dict[PeerId, TokenBucket] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def charge(self, peer: PeerId, work: float, now: float) -> float:
        """Charge a peer with seconds of work; return the seconds for which it must not be read."""
        total = self._total.consume(now, work)
        share = TOTAL_SHARE / max(1, len(self._peers))
        bucket = self._peers.get(peer)
        if bucket is None:
            bucket = self._peers[peer] = TokenBucket(share, MAX_SAVED)
        bucket.rate = share
        balance = bucket.consume(now, work)
        return 0.0 if total >= 0.0 or balance >= 0.0 else min(MAX_DELAY, -balance / share)

    def remove_peer(self, peer: PeerId) -> None:
        self._peers.pop(peer, None)
