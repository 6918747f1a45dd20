"""How much of our time each peer's gossip may take. Messages that bring nothing of use are charged with the work they
cause; who is in debt is read no further until its share has paid for it, so that a hostile crowd waits for itself and
good peers are served between."""

from rollup_node.stages.p2p.identity.peer_id import PeerId

TOTAL_SHARE = 0.7
"""The part of a core that all peers together may use up in vain."""
MIN_PEERS = 10
"""Shares are no larger than with so many peers."""
MAX_SAVED = 0.25


class WorkBudget:
    """Seconds of work that each peer has left, below 0 its debt. Times are seconds of a steady clock."""

    def __init__(self) -> None:
        self._balances: dict[PeerId, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._balances)

    def charge(self, peer: PeerId, work: float, now: float) -> None:
        """A peer has caused so many seconds of work in vain."""
        self._balances[peer] = (self._balance(peer, now) - work, now)

    def delay(self, peer: PeerId, now: float) -> float:
        """Seconds until the peer is out of debt."""
        return max(0.0, -self._balance(peer, now)) / self._rate

    def remove_peer(self, peer: PeerId) -> None:
        """The peer is gone."""
        self._balances.pop(peer, None)

    @property
    def _rate(self) -> float:
        return TOTAL_SHARE / max(MIN_PEERS, len(self._balances))

    def _balance(self, peer: PeerId, now: float) -> float:
        left, since = self._balances.get(peer, (0.0, now))
        return min(MAX_SAVED, left + (now - since) * self._rate)
