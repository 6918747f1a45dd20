"""Peer scores: the parameters `light` of OP Stack nodes, or none [SCR2, SCR5].

A score is the sum of an application-specific part, a penalty for many peers at one IP address, and a behaviour penalty,
which decays. Topics are not scored [SCR4]. Without a positive score reconnecting resets nothing."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rollup_node.stages.p2p.config import PeerScoring
from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.scoring import application_score
from rollup_node.stages.p2p.storage.peer_record import GossipScores

MAX_RETAINED = 10_000


class PeerScoreThresholds(NamedTuple):
    """Scores below which a peer gets no gossip or messages, or is ignored; the median below which a mesh grows."""

    gossip: float
    publish: float
    graylist: float
    accept_px: float
    opportunistic_graft: float


class PeerScoreParams(NamedTuple):
    """Weights and limits, in seconds and per decay interval; exempt addresses may have any number of peers."""

    thresholds: PeerScoreThresholds
    app_specific_weight: float
    ip_colocation_weight: float
    ip_colocation_threshold: int
    behaviour_penalty_weight: float
    behaviour_penalty_threshold: float
    behaviour_penalty_decay: float
    decay_interval: float
    retain_score: float
    ip_colocation_exempt: Callable[[str], bool] = lambda address: False


def light_params(block_time: int, exempt: Callable[[str], bool] = lambda address: False) -> PeerScoreParams:
    """Return the parameters `light` for a chain's block time in seconds."""
    return PeerScoreParams(
        thresholds=PeerScoreThresholds(-10.0, -40.0, -40.0, 20.0, 0.05),
        app_specific_weight=1.0,
        ip_colocation_weight=-35.0,
        ip_colocation_threshold=10,
        behaviour_penalty_weight=-16.0,
        behaviour_penalty_threshold=6.0,
        behaviour_penalty_decay=application_score.decay_factor(10),
        decay_interval=application_score.slot_seconds(block_time),
        retain_score=application_score.epochs_seconds(100, block_time),
        ip_colocation_exempt=exempt,
    )


def disabled_params(block_time: int) -> PeerScoreParams:
    """Return the parameters `none`: every score is zero, and no threshold excludes anyone."""
    return light_params(block_time)._replace(
        thresholds=PeerScoreThresholds(0.0, 0.0, 0.0, 0.0, 0.0),
        app_specific_weight=0.0,
        ip_colocation_weight=0.0,
        behaviour_penalty_weight=0.0,
    )


def peer_scorer(
    scoring: PeerScoring, block_time: int, exempt: Callable[[str], bool] = lambda address: False
) -> "PeerScorer":
    """Return the scorer for the option `p2p.scoring`."""
    if scoring == PeerScoring.NONE:
        return PeerScorer(
            disabled_params(block_time),
            application_score.ApplicationScorer(application_score.application_score_params(block_time, enabled=False)),
        )
    return PeerScorer(
        light_params(block_time, exempt),
        application_score.ApplicationScorer(application_score.application_score_params(block_time)),
    )


@dataclass(slots=True)
class _Record:
    addresses: tuple[str, ...] = ()
    behaviour: float = 0.0
    gone_at: float | None = None


class PeerScorer:
    """The scores of all peers with a gossip stream, and of those that left with a score of zero or less."""

    def __init__(self, params: PeerScoreParams, app: application_score.ApplicationScorer) -> None:
        self.params = params
        self.thresholds = params.thresholds
        self.application = app
        self._records: dict[PeerId, _Record] = {}
        self._retained: dict[PeerId, None] = {}
        self._at_address: dict[str, set[PeerId]] = {}
        self._refresh_at: float | None = None

    def __len__(self) -> int:
        return len(self._records)

    def add_peer(self, peer: PeerId, addresses: Iterable[str]) -> None:
        """Add a peer, or update the IP addresses and colocation groups of its connections."""
        record = self._records.setdefault(peer, _Record())
        record.gone_at = None
        self._retained.pop(peer, None)
        self.application.peer_connected(peer)
        self._set_addresses(peer, record, tuple(dict.fromkeys(addresses)))

    def remove_peer(self, peer: PeerId, now: float) -> None:
        """Remove a disconnected peer; its record is retained unless its score is positive."""
        record = self._records.get(peer)
        if record is None or record.gone_at is not None:
            return
        self.application.peer_disconnected(peer)
        if self.score(peer) > 0:
            self._remove(peer)
            return
        record.gone_at = now
        self._retained[peer] = None
        if len(self._retained) > MAX_RETAINED:
            self._remove(next(iter(self._retained)))

    def add_penalty(self, peer: PeerId, count: int) -> None:
        """Add to the behaviour penalty."""
        record = self._records.get(peer)
        if record is not None:
            record.behaviour += count

    def refresh(self, now: float) -> None:
        """Decays penalties once per interval, however often it is called, and removes records retained long enough."""
        self.application.refresh(now)
        if self._refresh_at is None:
            self._refresh_at = now + self.params.decay_interval
        while now >= self._refresh_at:
            self._decay()
            self._refresh_at = max(
                self._refresh_at + self.params.decay_interval, now - 100 * self.params.decay_interval
            )
        for peer in list(self._retained):
            gone_at = self._records[peer].gone_at
            if gone_at is not None and now - gone_at <= self.params.retain_score:
                break
            self._remove(peer)

    def score(self, peer: PeerId) -> float:
        """Return the score that thresholds are compared with; 0 for an unknown peer."""
        record = self._records.get(peer)
        if record is None:
            return 0.0
        params = self.params
        total = self.application.score(peer) * params.app_specific_weight
        if params.ip_colocation_weight:
            total += self._ip_colocation_factor(record) * params.ip_colocation_weight
        excess = record.behaviour - params.behaviour_penalty_threshold
        return total + excess * excess * params.behaviour_penalty_weight if excess > 0 else total

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
        for record in self._records.values():
            if record.gone_at is None and record.behaviour:
                record.behaviour *= self.params.behaviour_penalty_decay
                if record.behaviour < application_score.DECAY_TO_ZERO:
                    record.behaviour = 0.0

    def _ip_colocation_factor(self, record: _Record) -> float:
        total = 0.0
        for address in record.addresses:
            excess = len(self._at_address.get(address, ())) - self.params.ip_colocation_threshold
            if excess > 0 and not self.params.ip_colocation_exempt(address):
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
        self._retained.pop(peer, None)
