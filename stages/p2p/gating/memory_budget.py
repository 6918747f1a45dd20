"""The memory budget of all peers together: bytes not yet processed, or waiting for a peer to read them.

When it is exceeded, the oldest are dropped among those peers that hold more than their share, so that peers which
hold less are never disturbed by a crowd that holds much."""

from collections.abc import Hashable
from typing import Generic, TypeVar

from rollup_node.stages.p2p.identity.peer_id import PeerId

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
