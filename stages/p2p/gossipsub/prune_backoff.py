"""Backoff: after a PRUNE in either direction the two peers do not GRAFT each other for a while."""

from rollup_node.stages.p2p.identity.peer_id import PeerId

MAX_PER_TOPIC = 10_000


class PruneBackoff:
    """The end of the backoff of each topic and peer.

    Entries are kept for `slack` seconds longer, during which we do not graft yet, as the remote clock may be behind;
    a peer's own GRAFT is checked without the slack."""

    def __init__(self, slack: float) -> None:
        self._slack = slack
        self._ends: dict[str, dict[PeerId, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._ends.values()))

    def add(self, topic: str, peer: PeerId, seconds: float, now: float) -> None:
        """Start or prolongs a backoff; never shortens one."""
        ends = self._ends.setdefault(topic, {})
        ends[peer] = max(now + seconds, ends.pop(peer, 0.0))
        if len(ends) > MAX_PER_TOPIC:
            del ends[next(iter(ends))]

    def ends_at(self, topic: str, peer: PeerId) -> float | None:
        """When the peer's backoff ends or has ended; None if it has none."""
        return self._ends.get(topic, {}).get(peer)

    def blocks_graft(self, topic: str, peer: PeerId) -> bool:
        """Whether we may not graft the peer."""
        return peer in self._ends.get(topic, ())

    def clear_expired(self, now: float) -> None:
        """Remove expired entries."""
        for topic, ends in list(self._ends.items()):
            self._ends[topic] = {peer: end for peer, end in ends.items() if end + self._slack >= now}
