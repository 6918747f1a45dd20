"""Budgets of all peers together: memory, and the CPU time that their bytes may take.

Whoever stays within its share is never disturbed by a crowd that takes more."""

from collections.abc import Hashable
from typing import Generic, TypeVar

from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.protocol.pacing import TokenBucket

H = TypeVar("H", bound=Hashable)


class MemoryBudget(Generic[H]):
    """The bytes held by each holder (a stream) and peer. `total` is the sum of all."""

    def __init__(self, max_bytes: int) -> None:
        self.total = 0
        self._max_bytes = max_bytes
        self._held: dict[H, tuple[PeerId, int]] = {}
        self._per_peer: dict[PeerId, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def peer_bytes(self, peer: PeerId) -> int:
        """Return the bytes held for a peer."""
        return self._per_peer.get(peer, 0)

    def add(self, holder: H, peer: PeerId, change: int) -> None:
        """Add bytes to a holder, or take them away (negative), after which it counts as new."""
        before = self._held.get(holder, (peer, 0))[1]
        if change < 0:
            change = max(change, -before)
            self._held.pop(holder, None)
        self.total += change
        if before + change:
            self._held[holder] = (peer, before + change)
        of_peer = self._per_peer.get(peer, 0) + change
        if of_peer:
            self._per_peer[peer] = of_peer
        else:
            self._per_peer.pop(peer, None)

    def next_dropped(self) -> H | None:
        """Return the holder that must be dropped now; None while the budget is kept."""
        if self.total <= self._max_bytes:
            return None
        share = self._max_bytes // len(self._per_peer)
        return next(holder for holder, (peer, _) in self._held.items() if self._per_peer[peer] > share)


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
