"""Fills a gap of the unsafe chain: which block to request from whom, and what to trust [SYN10 to SYN16].

The engine process requests the blocks between its head and a block from gossip, and repeats that until it has them
(`request_range`). Numbers are requested from the top down, each from one peer at a time, one at a time from each
peer, after a failure from another one. Responses pass the quarantine. The caller sends what `next_requests` returns,
reports each end by `handle_outcome`, and asks again then, when a peer comes or goes, and after `delay` seconds."""

from dataclasses import dataclass
from typing import NamedTuple

from rollup_node.stages.messages.p2p import GapEnd
from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.reqresp.payload_by_number import BlockFound, ErrorResponse, RequestOutcome, ResultCode
from rollup_node.stages.p2p.reqresp.quarantine import Quarantine, QuarantineRelease
from rollup_node.stages.p2p.reqresp.server_limits import PEER_BURST, RequestLimiter
from rollup_node.stages.p2p.scoring.application_score import ApplicationScorer
from rollup_node.stages.protocol.payloads import ExecutionPayload

MAX_RANGE = 96
"""Numbers in progress at once: fewer than the quarantine holds, so that our own requests evict nothing from it."""


class BlockRequest(NamedTuple):
    """A block to request from a peer."""

    peer: PeerId
    number: int


@dataclass
class _SyncPeer:
    """A peer to request from; it is set aside for a range of which it lacks a block or gave a wrong one [SYN15]."""

    is_static: bool
    in_flight: int | None = None
    set_aside: bool = False


class SyncPlanner:
    """The blocks in progress, the peers, and the quarantine. Times are monotonic seconds."""

    def __init__(self, scores: ApplicationScorer, static_only: bool = False) -> None:
        self.quarantine = Quarantine()
        self._scores, self._static_only = scores, static_only
        self.limiter = RequestLimiter()
        self._peers: dict[PeerId, _SyncPeer] = {}
        self.wanted: dict[int, set[PeerId]] = {}

    def add_peer(self, peer: PeerId, is_static: bool) -> None:
        """Add a connected peer that supports the protocol."""
        if peer not in self._peers:
            self._peers[peer] = _SyncPeer(is_static)

    def remove_peer(self, peer: PeerId) -> None:
        """Remove a disconnected peer; the block in flight from it can be requested from others."""
        self._peers.pop(peer, None)

    def request_range(self, head: int, gap_end: GapEnd, now: float) -> tuple[ExecutionPayload, ...]:
        """Set the range above `head` and below `gap_end`; return the quarantined blocks that are trusted now."""
        first = max(head + 1, gap_end.number - MAX_RANGE)
        numbers = range(gap_end.number - 1, first - 1, -1)
        self.wanted = {number: set() for number in numbers}
        for peer in self._peers.values():
            peer.set_aside = False
        return self._handle_release(
            self.quarantine.trust_range_end(gap_end.number, gap_end.hash, gap_end.parent_hash), now
        )

    def next_requests(self, now: float) -> list[BlockRequest]:
        """Return the requests to send now; each is in flight until its outcome is handled."""
        result = []
        for name, peer in self._idle():
            number = self._next_for(name)
            if number is not None and self.limiter.delay(name, now) <= 0:
                self.limiter.consume(name, now)
                peer.in_flight = number
                result.append(BlockRequest(name, number))
        for request in result:
            self._peers[request.peer] = self._peers.pop(request.peer)
        return result

    def delay(self, now: float) -> float | None:
        """Seconds until a rate limit allows another request; None if only an event can cause one."""
        waits = [self.limiter.delay(name, now) for name, _ in self._idle() if self._next_for(name) is not None]
        return min(waits, default=None)

    def handle_outcome(
        self, request: BlockRequest, outcome: RequestOutcome, now: float
    ) -> tuple[ExecutionPayload, ...]:
        """Handle the end of a request; returns the blocks now known to be of the chain, newest first."""
        peer = self._peers.get(request.peer)
        if peer is None or peer.in_flight != request.number:
            return ()
        peer.in_flight = None
        if isinstance(outcome, BlockFound):
            self._scores.on_valid_response(request.peer, now)
            return self._handle_release(self.quarantine.add(outcome.payload, request.peer), now)
        # An error costs the whole burst, so that the peer rests [SYN11].
        self.limiter.charge(request.peer, PEER_BURST, now)
        if isinstance(outcome, ErrorResponse) and outcome.code == ResultCode.NOT_FOUND:
            peer.set_aside = True
        else:
            self._scores.on_response_error(request.peer, now)
            self.wanted.get(request.number, set()).add(request.peer)
        return ()

    def _handle_release(self, release: QuarantineRelease, now: float) -> tuple[ExecutionPayload, ...]:
        for payload in release.blocks:
            self.wanted.pop(payload.block_number, None)
        for peer in release.rejected:
            self._scores.on_rejected_payload(peer, now)
            if peer in self._peers:
                self._peers[peer].set_aside = True
        return release.blocks

    def _idle(self) -> list[tuple[PeerId, _SyncPeer]]:
        """Peers that a request may be sent to, those used longest ago first."""
        return [
            (name, peer)
            for name, peer in self._peers.items()
            if peer.in_flight is None and not peer.set_aside and (peer.is_static or not self._static_only)
        ]

    def _next_for(self, name: PeerId) -> int | None:
        """Return the highest number in progress that is not in flight and that the peer has not failed to give."""
        in_flight = {peer.in_flight for peer in self._peers.values()}
        for number, failed in self.wanted.items():
            if number not in in_flight and name not in failed and not self.quarantine.has(number):
                return number
        return None
