"""The connection manager: which peers are trimmed when there are too many [NET8].

Protected peers and new ones stay; of the others only as many as the low-water mark are kept, as in go-libp2p, so
that newcomers never drive out old peers."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from rollup_node.stages.p2p.identity.peer_id import PeerId

SILENCE_PERIOD = 60.0
"""Seconds between two trims."""


class TrimCandidate(NamedTuple):
    """A connected peer: `opened_at` in monotonic seconds, `inbound` if it dialled us, its number of streams."""

    peer: PeerId
    opened_at: float
    inbound: bool
    streams: int


@dataclass
class ConnectionManager:
    """Tags and protections of peers. `grace_period` in seconds."""

    low_water: int
    high_water: int
    grace_period: float
    _protected: dict[PeerId, set[str]] = field(default_factory=lambda: defaultdict(set))
    tags: dict[PeerId, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    _last_trim: float | None = None

    def protect(self, peer: PeerId, tag: str) -> None:
        """Protects a peer from trimming until every tag of its protection is removed."""
        self._protected[peer].add(tag)

    def unprotect(self, peer: PeerId, tag: str) -> None:
        """Remove one tag of a peer's protection."""
        tags = self._protected.get(peer, set())
        tags.discard(tag)
        if not tags:
            self._protected.pop(peer, None)

    def is_protected(self, peer: PeerId, tag: str | None = None) -> bool:
        """Whether a peer is protected, by any tag or by this one."""
        tags = self._protected.get(peer, set())
        return bool(tags) if tag is None else tag in tags

    def tag(self, peer: PeerId, name: str, value: int) -> None:
        """Set the value of a tag (0 removes it); peers with low sums of values are trimmed first."""
        if value:
            self.tags[peer][name] = value
        elif peer in self.tags:
            self.tags[peer].pop(name, None)
            if not self.tags[peer]:
                del self.tags[peer]

    def remove_tags(self, peer: PeerId) -> None:
        """Remove the tags of a disconnected peer; its protection stays."""
        self.tags.pop(peer, None)

    def peers_to_trim(self, connected: Iterable[TrimCandidate], now: float) -> list[PeerId]:
        """Return the peers to disconnect now; none within the silence period after a trim."""
        peers = list(connected)
        if len(peers) <= self.high_water or (self._last_trim is not None and now - self._last_trim < SILENCE_PERIOD):
            return []
        self._last_trim = now
        candidates = [
            peer for peer in peers if not self.is_protected(peer.peer) and now - peer.opened_at >= self.grace_period
        ]
        candidates.sort(key=self._trim_order)
        return [peer.peer for peer in candidates[: max(0, len(candidates) - self.low_water)]]

    def _trim_order(self, candidate: TrimCandidate) -> tuple[int, bool, int, float]:
        """Return the sort key, first trimmed first: sum of tag values, peers that we dialled, streams, age."""
        value = sum(self.tags.get(candidate.peer, {}).values())
        return value, not candidate.inbound, candidate.streams, -candidate.opened_at
