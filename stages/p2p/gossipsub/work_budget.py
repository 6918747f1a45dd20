"""The gossip work budget: how much CPU time the RPCs of each peer may take.

RPCs that bring no valid new message are charged with the time they took; a peer in debt is not read until its share
of the budget has repaid it, so that a hostile crowd slows itself down and other peers are served in between."""

from rollup_node.stages.p2p.identity.peer_id import PeerId

TOTAL_SHARE = 0.3
"""The share of one core that useless RPCs of all peers together may take."""
MIN_PEERS = 10
"""Each peer's share is at most what it would be with this many peers."""
MAX_SAVED = 0.25


class WorkBudget:
    """The balance of each peer in seconds of work, negative in debt. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._balances: dict[PeerId, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._balances)

    def charge(self, peer: PeerId, work: float, now: float) -> None:
        """Charges a peer with seconds of useless work."""
        self._balances[peer] = (self._balance(peer, now) - work, now)

    def delay(self, peer: PeerId, now: float) -> float:
        """Seconds until the peer is out of debt."""
        return max(0.0, -self._balance(peer, now)) / self._rate

    def remove_peer(self, peer: PeerId) -> None:
        """Remove a disconnected peer."""
        self._balances.pop(peer, None)

    @property
    def _rate(self) -> float:
        return TOTAL_SHARE / max(MIN_PEERS, len(self._balances))

    def _balance(self, peer: PeerId, now: float) -> float:
        balance, updated_at = self._balances.get(peer, (0.0, now))
        return min(MAX_SAVED, balance + (now - updated_at) * self._rate)
