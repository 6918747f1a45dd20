"""Which peers to let go when there are too many (node-behaviour 13.10). Protected and new peers stay, and of the others
the low tide is kept, as libp2p does it: a crowd of newcomers never drives out those who have been here for long."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from rollup_node.stages.p2p.identity.peer_id import PeerId

SILENCE_PERIOD = 60.0
"""Seconds between two trimmings."""


class TrimCandidate(NamedTuple):
    """A connected peer: since when (monotonic seconds), who dialled, open streams."""

    peer: PeerId
    opened_at: float
    inbound: bool
    streams: int


@dataclass
class ConnectionManager:
    """Tags and protections of peers, and the choice of whom to close. `grace` in seconds."""

    low_water: int
    high_water: int
    grace_period: float
    _protected: dict[PeerId, set[str]] = field(default_factory=lambda: defaultdict(set))
    _tags: dict[PeerId, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    _last_trim: float | None = None

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
            self._tags[peer][name] = value
        elif peer in self._tags:
            self._tags[peer].pop(name, None)
            if not self._tags[peer]:
                del self._tags[peer]

    def remove_tags(self, peer: PeerId) -> None:
        """Drops the tags of a peer that is gone; protections stay."""
        self._tags.pop(peer, None)

    def peers_to_trim(self, connected: Iterable[TrimCandidate], now: float) -> list[PeerId]:
        """The peers to close now; none within the silence after the last trimming."""
        peers = list(connected)
        if len(peers) <= self.high_water or (self._last_trim is not None and now - self._last_trim < SILENCE_PERIOD):
            return []
        self._last_trim = now
        loose = [
            peer for peer in peers if not self.is_protected(peer.peer) and now - peer.opened_at >= self.grace_period
        ]
        loose.sort(key=self._trim_order)
        return [peer.peer for peer in loose[: max(0, len(loose) - self.low_water)]]

    def _trim_order(self, candidate: TrimCandidate) -> tuple[int, bool, int, float]:
        """Least first: by tags, who dialled, streams, and age."""
        value = sum(self._tags.get(candidate.peer, {}).values())
        return value, not candidate.inbound, candidate.streams, -candidate.opened_at
