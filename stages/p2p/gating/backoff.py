"""Exponential backoff per peer: the delay doubles with each failure, and a success resets it."""

from dataclasses import dataclass, field

from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.protocol.pacing import backoff

_MAX_PEERS = 10_000


@dataclass
class PeerBackoff:
    """Failures by peer. `initial` and `maximum` are delays in seconds; times are monotonic seconds."""

    initial: float = 1.0
    maximum: float = 60.0
    _failures: dict[PeerId, tuple[int, float]] = field(default_factory=dict)

    def retry_at(self, peer: PeerId) -> float:
        """Return the earliest time of the next attempt; 0 for a peer without failures."""
        return self._failures.get(peer, (0, 0.0))[1]

    def failed(self, peer: PeerId, now: float) -> float:
        """Record a failure; returns the delay until the next attempt in seconds."""
        count = self._failures.get(peer, (0, 0.0))[0] + 1
        delay = backoff(count, self.initial, self.maximum)
        if peer not in self._failures and len(self._failures) >= _MAX_PEERS:
            del self._failures[next(iter(self._failures))]
        self._failures[peer] = (count, now + delay)
        return delay

    def succeeded(self, peer: PeerId) -> None:
        """Clear the peer's failures."""
        self._failures.pop(peer, None)
