"""Which peers may connect, which connections are trimmed, and when a failed peer is tried again [NET8, NET12, NET13].

The gater denies by options, blocks and bans; few connections of a host and few unfinished handshakes are accepted; the
manager trims when there are too many."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from rollup_node.stages.p2p.addresses.ip import IpAddress, Subnet, colocation_groups, is_within, parse_ip
from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.gating.peer_drops import PeerDropReason
from rollup_node.stages.protocol.pacing import TokenBucket, backoff

TOTAL_SHARE = 0.4
"""The share of one core that the bytes of all peers together may take before anyone is slowed down."""
MAX_SAVED = 0.1
MAX_DELAY = 15.0
"""Seconds after which a peer in debt is read again at the latest, before a keepalive check takes it for dead."""


@dataclass
class ConnectionGater:
    """All blocks and bans. Empty `allowed_networks` allow any network."""

    allowed_networks: tuple[Subnet, ...] = ()
    blocked_peers: set[PeerId] = field(default_factory=set)
    blocked_ips: set[IpAddress] = field(default_factory=set)
    blocked_subnets: set[Subnet] = field(default_factory=set)
    peer_bans: dict[PeerId, float] = field(default_factory=dict)

    def ip_deny_reason(self, ip: IpAddress) -> PeerDropReason | None:
        """Return the reason why connections with the address are denied, None when they are allowed."""
        if self.allowed_networks and not is_within(ip, self.allowed_networks):
            return PeerDropReason.OUTSIDE_NETWORKS
        if ip in self.blocked_ips:
            return PeerDropReason.ADDRESS_BLOCKED
        return PeerDropReason.SUBNET_BLOCKED if is_within(ip, self.blocked_subnets) else None

    def peer_deny_reason(self, peer: PeerId, now: float) -> PeerDropReason | None:
        """Return the reason why connections with the peer are denied, None when they are allowed."""
        if peer in self.blocked_peers:
            return PeerDropReason.PEER_BLOCKED
        return PeerDropReason.PEER_BANNED if self.peer_bans.get(peer, 0.0) > now else None

    def unblock_peer(self, peer: PeerId) -> bool:
        """Remove the block and the ban of a peer; returns whether it was banned."""
        self.blocked_peers.discard(peer)
        return self.peer_bans.pop(peer, None) is not None

    def remove_expired_bans(self, now: float) -> int:
        """Remove expired bans; returns their number [SCR8]."""
        expired = [peer for peer, until in self.peer_bans.items() if until <= now]
        for peer in expired:
            del self.peer_bans[peer]
        return len(expired)


MAX_PER_HOST = 8
"""Connections of one IPv4 address, as in go-libp2p, or of one IPv6 /64."""

C = TypeVar("C")


class PendingHandshakes(Generic[C]):
    """Inbound connections whose handshake is unfinished, oldest first."""

    def __init__(self, max_pending: int) -> None:
        self._max_pending = max_pending
        self._connections: dict[C, str] = {}

    def __iter__(self) -> Iterator[C]:
        return iter(self._connections)

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: C, ip: str) -> C | None:
        """Add a connection; returns the one that must be aborted for it, None while there is room."""
        evicted = None
        if len(self._connections) >= self._max_pending:
            ((crowded, _),) = Counter(self._connections.values()).most_common(1)
            evicted = next(pending for pending, at in self._connections.items() if at == crowded)
            del self._connections[evicted]
        self._connections[connection] = ip
        return evicted

    def remove(self, connection: C) -> None:
        self._connections.pop(connection, None)

    def drain(self) -> list[C]:
        drained = list(self._connections)
        self._connections.clear()
        return drained


def is_over_host_limit(ip: str, others: Iterable[str]) -> bool:
    """Whether the host of an address already has as many connections as it may. Loopback is exempt."""
    group = colocation_groups(ip)[-1]
    return (
        not parse_ip(ip).is_loopback and sum(colocation_groups(other)[-1] == group for other in others) >= MAX_PER_HOST
    )


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
    """Protections of peers, and the connected ones that are `preferred` to others. `grace_period` in seconds."""

    low_water: int
    high_water: int
    grace_period: float
    _protected: dict[PeerId, set[str]] = field(default_factory=lambda: defaultdict(set))
    preferred: set[PeerId] = field(default_factory=set)
    _last_trim: float | None = None

    def protect(self, peer: PeerId, tag: str) -> None:
        """Protect a peer from trimming until every tag of its protection is removed."""
        self._protected[peer].add(tag)

    def unprotect(self, peer: PeerId, tag: str) -> None:
        """Remove one tag of a peer's protection."""
        tags = self._protected.get(peer, set())
        tags.discard(tag)
        if not tags:
            self._protected.pop(peer, None)

    def is_protected(self, peer: PeerId) -> bool:
        return peer in self._protected

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

    def _trim_order(self, candidate: TrimCandidate) -> tuple[bool, bool, int, float]:
        """Return the sort key, first trimmed first: peers not preferred, peers that we dialled, streams, age."""
        is_preferred = candidate.peer in self.preferred
        return is_preferred, not candidate.inbound, candidate.streams, -candidate.opened_at


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
