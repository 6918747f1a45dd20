"""Which peers to let go when there are too many (node-behaviour 13.10). Protected and new peers stay, and of the others
the low tide is kept, as libp2p does it: a crowd of newcomers never drives out those who have been here for long."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from rollup_node.stages.p2p.identity.peer_id import PeerId

SILENCE = 60.0
"""Seconds between two trimmings."""


class TrimCandidate(NamedTuple):
    """A connected peer: since when (monotonic seconds), who dialled, open streams."""

    peer: PeerId
    since: float
    inbound: bool
    streams: int


@dataclass
class ConnectionManager:
    """Tags and protections of peers, and the choice of whom to close. `grace` in seconds."""

    low: int
    high: int
    grace: float
    _protected: dict[PeerId, set[str]] = field(default_factory=lambda: defaultdict(set))
    _values: dict[PeerId, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    _last: float | None = None

    def protect(self, peer: PeerId, tag: str) -> None:
        """Keeps a peer from being trimmed for as long as any protection is in force."""
        self._protected[peer].add(tag)

    def unprotect(self, peer: PeerId, tag: str) -> None:
        """Takes one protection away."""
        tags = self._protected.get(peer, set())
        tags.discard(tag)
        if not tags:
            self._protected.pop(peer, None)

    def is_protected(self, peer: PeerId, tag: str | None = None) -> bool:
        """Whether a peer is protected at all, or by this tag."""
        tags = self._protected.get(peer, set())
        return bool(tags) if tag is None else tag in tags

    def tag(self, peer: PeerId, name: str, value: int) -> None:
        """Gives a peer worth under a name (0 takes it away); peers of less worth go first."""
        if value:
            self._values[peer][name] = value
        elif peer in self._values:
            self._values[peer].pop(name, None)
            if not self._values[peer]:
                del self._values[peer]

    def forget(self, peer: PeerId) -> None:
        """Drops the tags of a peer that is gone; protections stay."""
        self._values.pop(peer, None)

    def surplus(self, connected: Iterable[TrimCandidate], now: float) -> list[PeerId]:
        """The peers to close now; none within the silence after the last trimming."""
        peers = list(connected)
        if len(peers) <= self.high or (self._last is not None and now - self._last < SILENCE):
            return []
        self._last = now
        loose = [peer for peer in peers if not self.is_protected(peer.peer) and now - peer.since >= self.grace]
        loose.sort(key=self._worth)
        return [peer.peer for peer in loose[: max(0, len(loose) - self.low)]]

    def _worth(self, candidate: TrimCandidate) -> tuple[int, bool, int, float]:
        """Least first: by tags, who dialled, streams, and age."""
        value = sum(self._values.get(candidate.peer, {}).values())
        return value, not candidate.inbound, candidate.streams, -candidate.since
