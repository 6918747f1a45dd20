"""How much a peer is worth: the `light_params` scoring of OP Stack nodes (node-behaviour 13.8), or disabled_params.

The total is an application score (how requests to the peer went), a penalty for many peers at one address, and one
for misbehaviour, which decays. Topics are not scored: a refused block by itself costs its sender nothing.
A peer that leaves with a total of zero or less keeps its record for a while, so that coming back clears nothing.
"""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.scoring import decay
from rollup_node.stages.p2p.scoring.application_score import ApplicationScorer, application_score_params

LIGHT, NONE = "light", "none"
MAX_RETAINED = 10_000


class PeerScoreThresholds(NamedTuple):
    """Totals below which a peer is treated worse: not gossiped with; not published to; not listened to at all. Peers
    of a mesh whose median is below `opportunistic_graft` are complemented by better ones."""

    gossip: float
    publish: float
    graylist: float
    accept_px: float
    opportunistic_graft: float


class PeerScoreParams(NamedTuple):
    """Weights and limits. `interval` and `retain` are seconds, decays are per interval. Addresses for which
    `exempt` is true may hold any number of peers."""

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
    """The parameters of `light_params` for a chain's block time in seconds."""
    return PeerScoreParams(
        thresholds=PeerScoreThresholds(-10.0, -40.0, -40.0, 20.0, 0.05),
        app_specific_weight=1.0,
        ip_colocation_weight=-35.0,
        ip_colocation_threshold=10,
        behaviour_penalty_weight=-16.0,
        behaviour_penalty_threshold=6.0,
        behaviour_penalty_decay=decay.decay_factor(10),
        decay_interval=decay.slot_seconds(block_time),
        retain_score=decay.epochs_seconds(100, block_time),
        ip_colocation_exempt=exempt,
    )


def disabled_params(block_time: int) -> PeerScoreParams:
    """The parameters of `disabled_params`: every total is zero, and nobody is below a threshold."""
    return light_params(block_time)._replace(
        thresholds=PeerScoreThresholds(0.0, 0.0, 0.0, 0.0, 0.0),
        app_specific_weight=0.0,
        ip_colocation_weight=0.0,
        behaviour_penalty_weight=0.0,
    )


def peer_scorer(scoring: str, block_time: int, exempt: Callable[[str], bool] = lambda address: False) -> "PeerScorer":
    """The scores by the option `p2p.scoring`, `light_params` or `disabled_params`."""
    if scoring == NONE:
        return PeerScorer(
            disabled_params(block_time), ApplicationScorer(application_score_params(block_time, enabled=False))
        )
    return PeerScorer(light_params(block_time, exempt), ApplicationScorer(application_score_params(block_time)))


class PeerScoreSnapshot(NamedTuple):
    """A peer's total and what it is made of, before weights (node-behaviour 1.8: `scores.gossip`)."""

    score: float
    app_specific_score: float
    ip_colocation_factor: float
    behaviour_penalty: float


class _Record:
    __slots__ = ("addresses", "behaviour", "gone_at")

    def __init__(self) -> None:
        self.addresses: tuple[str, ...] = ()
        self.behaviour = 0.0
        self.gone_at: float | None = None


class PeerScorer:
    """The totals of all peers with a gossip stream, and of those that left with a bad one."""

    def __init__(self, params: PeerScoreParams, app: ApplicationScorer) -> None:
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
        """A peer has come, or its connections have changed; `addresses` are the IPs of them all."""
        record = self._records.setdefault(peer, _Record())
        record.gone_at = None
        self._retained.pop(peer, None)
        self.application.peer_connected(peer)
        self._set_addresses(peer, record, tuple(dict.fromkeys(addresses)))

    def remove_peer(self, peer: PeerId, now: float) -> None:
        """A peer has left."""
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
        """Adds to the behaviour penalty."""
        record = self._records.get(peer)
        if record is not None:
            record.behaviour += count

    def refresh(self, now: float) -> None:
        """Lets penalties decay and forgets who left long ago; does so once per interval however often it is called."""
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
        """The score that thresholds are held against; 0 for a peer not known."""
        record = self._records.get(peer)
        if record is None:
            return 0.0
        params = self.params
        total = self.application.score(peer) * params.app_specific_weight
        if params.ip_colocation_weight:
            total += self._ip_colocation_factor(record) * params.ip_colocation_weight
        excess = record.behaviour - params.behaviour_penalty_threshold
        return total + excess * excess * params.behaviour_penalty_weight if excess > 0 else total

    def snapshot(self, peer: PeerId) -> PeerScoreSnapshot:
        """The total in parts."""
        record = self._records.get(peer)
        if record is None:
            return PeerScoreSnapshot(0.0, 0.0, 0.0, 0.0)
        return PeerScoreSnapshot(
            self.score(peer), self.application.score(peer), self._ip_colocation_factor(record), record.behaviour
        )

    def peers(self) -> Collection[PeerId]:
        """All peers with a record."""
        return self._records.keys()

    def _decay(self) -> None:
        for record in self._records.values():
            if record.gone_at is None and record.behaviour:
                record.behaviour *= self.params.behaviour_penalty_decay
                if record.behaviour < decay.DECAY_TO_ZERO:
                    record.behaviour = 0.0

    def _ip_colocation_factor(self, record: _Record) -> float:
        total = 0.0
        for address in record.addresses:
            surplus = len(self._at_address.get(address, ())) - self.params.ip_colocation_threshold
            if surplus > 0 and not self.params.ip_colocation_exempt(address):
                total += surplus * surplus
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
