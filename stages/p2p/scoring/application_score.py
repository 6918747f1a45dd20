"""The application-specific part of a peer's score: how its responses to block requests went [SCR3]."""

from typing import NamedTuple

from rollup_node.stages.p2p.identity.peer_id import PeerId

BLOCKS_PER_EPOCH = 6
DECAY_TO_ZERO = 0.01
"""The factor over the whole decay time; a value below it counts as 0."""


def slot_seconds(block_time: int) -> float:
    """Return the length of a slot for a block time in seconds; 2 s when that is 0."""
    return float(block_time or 2)


def decay_factor(epochs: int) -> float:
    """Return the factor per slot by which a value decays to a hundredth over `epochs`."""
    return float(DECAY_TO_ZERO ** (1 / (epochs * BLOCKS_PER_EPOCH)))


def epochs_seconds(epochs: int, block_time: int) -> float:
    """Return the length of `epochs` in seconds."""
    return epochs * BLOCKS_PER_EPOCH * slot_seconds(block_time)


MAX_PEERS = 10_000


class ResponseCounts(NamedTuple):
    """Counts after decay [RPC79]."""

    valid_responses: float = 0.0
    error_responses: float = 0.0
    rejected_payloads: float = 0.0


class ApplicationScoreParams(NamedTuple):
    """Caps and weights of the counts, decay, and seconds kept; with `enabled` off nothing is counted."""

    decay: float
    decay_interval: float
    retain_score: float
    caps: ResponseCounts = ResponseCounts(10.0, 9.0, 20.0)
    weights: ResponseCounts = ResponseCounts(0.5, -1.0, -20.0)
    enabled: bool = True


def application_score_params(block_time: int, enabled: bool = True) -> ApplicationScoreParams:
    """Return the parameters for a chain's block time in seconds."""
    slot, retained = slot_seconds(block_time), epochs_seconds(100, block_time)
    return ApplicationScoreParams(decay_factor(10), slot, retained, enabled=enabled)


class ApplicationScorer:
    """The counts of all peers that were ever requested from."""

    def __init__(self, params: ApplicationScoreParams) -> None:
        self.params = params
        self._counts: dict[PeerId, ResponseCounts] = {}
        self._changed_at: dict[PeerId, float] = {}
        self._connected: set[PeerId] = set()
        self._decay_at: float | None = None

    def peer_connected(self, peer: PeerId) -> None:
        """Let the peer's counts decay from now on."""
        self._connected.add(peer)

    def peer_disconnected(self, peer: PeerId) -> None:
        """Keep the peer's counts as they are."""
        self._connected.discard(peer)

    def on_valid_response(self, peer: PeerId, now: float) -> None:
        self._add(peer, ResponseCounts(valid_responses=1.0), now)

    def on_response_error(self, peer: PeerId, now: float) -> None:
        """Count a failed request."""
        self._add(peer, ResponseCounts(error_responses=1.0), now)

    def on_rejected_payload(self, peer: PeerId, now: float) -> None:
        """Count a block that turned out not to be of the chain."""
        self._add(peer, ResponseCounts(rejected_payloads=1.0), now)

    def score(self, peer: PeerId) -> float:
        """Return the weighted sum of the counts; 0 for a peer without counts."""
        counts = self._counts.get(peer)
        if counts is None:
            return 0.0
        return sum(count * weight for count, weight in zip(counts, self.params.weights, strict=True))

    def counts(self, peer: PeerId) -> ResponseCounts:
        """Return the present counts."""
        return self._counts.get(peer, ResponseCounts())

    def restore(self, peer: PeerId, counts: ResponseCounts, now: float) -> None:
        """Restores counts from the peerstore, unless the peer has counts."""
        if self.params.enabled and peer not in self._counts:
            self._put(peer, counts, now)

    def refresh(self, now: float) -> None:
        """Decays the counts once per interval, however often it is called, and removes old ones."""
        if self._decay_at is None:
            self._decay_at = now + self.params.decay_interval
        while now >= self._decay_at:
            for peer in self._connected & self._counts.keys():
                self._counts[peer] = ResponseCounts(*[self._decayed(count) for count in self._counts[peer]])
                self._changed_at[peer] = now
            self._decay_at = max(self._decay_at + self.params.decay_interval, now - 100 * self.params.decay_interval)
            for peer in [peer for peer, at in self._changed_at.items() if now - at > self.params.retain_score]:
                self._remove(peer)

    def _decayed(self, count: float) -> float:
        count *= self.params.decay
        return count if count >= DECAY_TO_ZERO else 0.0

    def _add(self, peer: PeerId, more: ResponseCounts, now: float) -> None:
        if self.params.enabled:
            values = zip(self.counts(peer), more, self.params.caps, strict=True)
            self._put(peer, ResponseCounts(*[min(count + added, cap) for count, added, cap in values]), now)

    def _put(self, peer: PeerId, counts: ResponseCounts, now: float) -> None:
        if peer not in self._counts and len(self._counts) >= MAX_PEERS:
            self._remove(min(self._changed_at, key=self._changed_at.__getitem__))
        self._counts[peer] = counts
        self._changed_at[peer] = now

    def _remove(self, peer: PeerId) -> None:
        del self._counts[peer]
        del self._changed_at[peer]
