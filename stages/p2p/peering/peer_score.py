"""Peer scores: the parameters `light` of OP Stack nodes, or none [SCR2, SCR3, SCR5].

A score is the sum of an application-specific part (how a peer's responses to block requests went), a penalty for many
peers at one IP address, and a behaviour penalty, which decays. Topics are not scored [SCR4]. Without a positive score
reconnecting resets nothing."""

import operator
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.config import PeerScoring
from rollup_node.stages.p2p.storage.peer_record import GossipScores, ReqRespScores

SLOTS_PER_EPOCH = 6
DECAY_TO_ZERO = 0.01
"""The factor over the whole decay time; a value below it counts as 0."""
DECAY = float(DECAY_TO_ZERO ** (1 / (10 * SLOTS_PER_EPOCH)))
"""The factor per slot by which a value decays to a hundredth over ten epochs."""
RETAINED_SLOTS = 100 * SLOTS_PER_EPOCH
MAX_PEERS = 10_000
MAX_RETAINED = 10_000
CAPS, WEIGHTS = ReqRespScores(10.0, 9.0, 20.0), ReqRespScores(0.5, -1.0, -20.0)
"""Of the counts of responses [SCR3]."""


class ApplicationScorer:
    """The counts of all peers that were ever requested from; when not `enabled`, nothing is counted.

    Those of `connected` peers decay, the others are kept for `retained_seconds`."""

    def __init__(self, retained_seconds: float, enabled: bool = True) -> None:
        self._enabled, self._retained_seconds = enabled, retained_seconds
        self._counts: dict[PeerId, ReqRespScores] = {}
        self._changed_at: dict[PeerId, float] = {}
        self.connected: set[PeerId] = set()

    def on_valid_response(self, peer: PeerId, now: float) -> None:
        self._add(peer, ReqRespScores(valid_responses=1.0), now)

    def on_response_error(self, peer: PeerId, now: float) -> None:
        """Count a failed request."""
        self._add(peer, ReqRespScores(error_responses=1.0), now)

    def on_rejected_payload(self, peer: PeerId, now: float) -> None:
        """Count a block that turned out not to be of the chain."""
        self._add(peer, ReqRespScores(rejected_payloads=1.0), now)

    def score(self, peer: PeerId) -> float:
        """Return the weighted sum of the counts; 0 for a peer without counts."""
        values = msgspec.structs.astuple(self.counts(peer))
        return float(sum(map(operator.mul, values, msgspec.structs.astuple(WEIGHTS))))

    def counts(self, peer: PeerId) -> ReqRespScores:
        return self._counts.get(peer, ReqRespScores())

    def restore(self, peer: PeerId, counts: ReqRespScores, now: float) -> None:
        """Restore counts from the peerstore, unless the peer has counts."""
        if self._enabled and peer not in self._counts:
            self._put(peer, counts, now)

    def decay(self, now: float) -> None:
        """Decay the counts, as is due once per slot, and remove old ones."""
        for peer in self.connected & self._counts.keys():
            values = [count * DECAY for count in msgspec.structs.astuple(self._counts[peer])]
            self._counts[peer] = ReqRespScores(*[value if value >= DECAY_TO_ZERO else 0.0 for value in values])
            self._changed_at[peer] = now
        for peer in [peer for peer, at in self._changed_at.items() if now - at > self._retained_seconds]:
            self._remove(peer)

    def _add(self, peer: PeerId, more: ReqRespScores, now: float) -> None:
        if self._enabled:
            added = map(operator.add, msgspec.structs.astuple(self.counts(peer)), msgspec.structs.astuple(more))
            self._put(peer, ReqRespScores(*map(min, added, msgspec.structs.astuple(CAPS))), now)

    def _put(self, peer: PeerId, counts: ReqRespScores, now: float) -> None:
        if peer not in self._counts and len(self._counts) >= MAX_PEERS:
            self._remove(min(self._changed_at, key=self._changed_at.__getitem__))
        self._counts[peer] = counts
        self._changed_at[peer] = now

    def _remove(self, peer: PeerId) -> None:
        del self._counts[peer]
        del self._changed_at[peer]


class PeerScoreThresholds(NamedTuple):
    """Scores below which a peer gets no gossip or messages, or is ignored; the median below which a mesh grows."""

    gossip: float
    publish: float
    graylist: float
    opportunistic_graft: float


LIGHT_THRESHOLDS = PeerScoreThresholds(-10.0, -40.0, -40.0, 0.05)
IP_COLOCATION_WEIGHT, IP_COLOCATION_THRESHOLD = -35.0, 10
BEHAVIOUR_PENALTY_WEIGHT, BEHAVIOUR_PENALTY_THRESHOLD = -16.0, 6.0


@dataclass(slots=True)
class _Record:
    addresses: tuple[str, ...] = ()
    behaviour: float = 0.0


class PeerScorer:
    """The scores of all peers with a gossip stream, and of those that left with a score of zero or less.

    `block_time` is in seconds; a slot is as long, or 2 s when it is 0. Our own machine may have any
    number of peers. With `none` every score is zero, and excludes nobody."""

    def __init__(self, scoring: PeerScoring, block_time: int) -> None:
        self._is_enabled = scoring is not PeerScoring.NONE
        self.thresholds = LIGHT_THRESHOLDS if self._is_enabled else PeerScoreThresholds(0.0, 0.0, 0.0, 0.0)
        self._slot_seconds = float(block_time or 2)
        self.retained_seconds = RETAINED_SLOTS * self._slot_seconds
        self.application = ApplicationScorer(self.retained_seconds, self._is_enabled)
        self._records: dict[PeerId, _Record] = {}
        self._left_at: dict[PeerId, float] = {}
        self._at_address: dict[str, set[PeerId]] = {}
        self._next_slot: float | None = None

    def __len__(self) -> int:
        return len(self._records)

    def add_peer(self, peer: PeerId, addresses: Iterable[str]) -> None:
        """Add a peer, or update the IP addresses and colocation groups of its connections."""
        record = self._records.setdefault(peer, _Record())
        self._left_at.pop(peer, None)
        self.application.connected.add(peer)
        self._set_addresses(peer, record, tuple(dict.fromkeys(addresses)))

    def remove_peer(self, peer: PeerId, now: float) -> None:
        """Remove a disconnected peer; its record is retained unless its score is positive."""
        if peer not in self._records or peer in self._left_at:
            return
        self.application.connected.discard(peer)
        if self.score(peer) > 0:
            self._remove(peer)
            return
        self._left_at[peer] = now
        if len(self._left_at) > MAX_RETAINED:
            self._remove(next(iter(self._left_at)))

    def add_penalty(self, peer: PeerId, count: int) -> None:
        """Add to the behaviour penalty."""
        record = self._records.get(peer)
        if record is not None:
            record.behaviour += count

    def refresh(self, now: float) -> None:
        """Decay once per slot, however often it is called, and remove records retained long enough.

        Of a long pause about the last hundred slots count."""
        if self._next_slot is None:
            self._next_slot = now + self._slot_seconds
        while now >= self._next_slot:
            self._next_slot = max(self._next_slot + self._slot_seconds, now - 100 * self._slot_seconds)
            self.application.decay(now)
            self._decay()
        for peer, left_at in list(self._left_at.items()):
            if now - left_at <= self.retained_seconds:
                break
            self._remove(peer)

    def score(self, peer: PeerId) -> float:
        """Return the score that thresholds are compared with; 0 for an unknown peer."""
        record = self._records.get(peer)
        if record is None or not self._is_enabled:
            return 0.0
        total = self.application.score(peer) + self._ip_colocation_factor(record) * IP_COLOCATION_WEIGHT
        excess = max(0.0, record.behaviour - BEHAVIOUR_PENALTY_THRESHOLD)
        return total + excess * excess * BEHAVIOUR_PENALTY_WEIGHT

    def gossip_scores(self, peer: PeerId) -> GossipScores:
        """Return the score and its parts before weights [RPC79]."""
        record = self._records.get(peer)
        if record is None:
            return GossipScores()
        return GossipScores(
            total=self.score(peer),
            ip_colocation_factor=self._ip_colocation_factor(record),
            behavioral_penalty=record.behaviour,
        )

    def peers(self) -> Collection[PeerId]:
        return self._records.keys()

    def _decay(self) -> None:
        for peer, record in self._records.items():
            if peer not in self._left_at and record.behaviour:
                record.behaviour *= DECAY
                if record.behaviour < DECAY_TO_ZERO:
                    record.behaviour = 0.0

    def _ip_colocation_factor(self, record: _Record) -> float:
        total = 0.0
        for address in record.addresses:
            excess = len(self._at_address.get(address, ())) - IP_COLOCATION_THRESHOLD
            if excess > 0 and not parse_ip(address).is_loopback:
                total += excess * excess
        return total

    def _set_addresses(self, peer: PeerId, record: _Record, addresses: tuple[str, ...]) -> None:
        for address in record.addresses:
            others = self._at_address[address]
            others.discard(peer)
            if not others:
                del self._at_address[address]
        for address in addresses:
            self._at_address.setdefault(address, set()).add(peer)
        record.addresses = addresses

    def _remove(self, peer: PeerId) -> None:
        self._set_addresses(peer, self._records[peer], ())
        del self._records[peer]
        self._left_at.pop(peer, None)
