"""When to try a peer again: the pause doubles with each failure and a success clears it."""

from dataclasses import dataclass, field

from rollup_node.stages.p2p.identity.peer_id import PeerId

_MAX_REMEMBERED = 10_000


@dataclass
class PeerBackoff:
    """Failures by peer. Times are monotonic seconds."""

    initial: float = 1.0
    maximum: float = 60.0
    _failures: dict[PeerId, tuple[int, float]] = field(default_factory=dict)

    def retry_at(self, peer: PeerId) -> float:
        """The earliest time for the next try (0: at once)."""
        return self._failures.get(peer, (0, 0.0))[1]

    def failed(self, peer: PeerId, now: float) -> float:
        """Notes a failure; gives the pause until the next try in seconds."""
        count = self._failures.get(peer, (0, 0.0))[0] + 1
        pause = min(self.maximum, self.initial * 2.0 ** min(count - 1, 30))
        if peer not in self._failures and len(self._failures) >= _MAX_REMEMBERED:
            del self._failures[next(iter(self._failures))]
        self._failures[peer] = (count, now + pause)
        return pause

    def succeeded(self, peer: PeerId) -> None:
        """Clears the failures."""
        self._failures.pop(peer, None)
