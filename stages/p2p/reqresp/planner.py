"""Filling a gap of the unsafe chain from peers: which block to ask whom for, and what of the answers can be believed
(node-behaviour 13.6).

The engine process wants the blocks between its head and a block it has from gossip, and goes on wanting them until they
are there (`want`). Numbers are asked for from the top down, each from one peer at a time, at most one at a time from a
peer, within the limits that servers have. A failure sends the number to another peer, and what everybody failed to give
rests until the range is wanted again. Answers pass the quarantine.
A shell sends what `requests` says, reports each by `answered` (also when the stream failed), and calls `requests` again
then, when a peer comes or goes, and after `pause` seconds.
"""

from typing import NamedTuple

from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.p2p.reqresp.payload_by_number import BlockFound, ErrorResponse, RequestOutcome, ResultCode
from rollup_node.stages.p2p.reqresp.quarantine import Quarantine, QuarantineRelease
from rollup_node.stages.p2p.reqresp.rate_limits import PEER_BURST, RequestLimiter
from rollup_node.stages.p2p.scoring.application_score import ApplicationScorer
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

MAX_RANGE = 96
"""Numbers worked on at once: fewer than the quarantine holds, so that our own asking pushes nothing out."""


class Target(NamedTuple):
    """The block above a gap, which is known."""

    number: int
    hash: Hash
    parent_hash: Hash


class BlockRequest(NamedTuple):
    """A block to ask a peer for."""

    peer: PeerId
    number: int


class _SyncPeer:
    """Someone to ask; no more for this range once it said that it lacks a block of it, or gave a wrong one."""

    def __init__(self, is_static: bool) -> None:
        self.is_static = is_static
        self.in_flight: int | None = None
        self.set_aside = False


class SyncPlanner:
    """What is wanted, who is asked, and the quarantine. Times are seconds of a steady clock."""

    def __init__(self, scores: ApplicationScorer, only_static: bool = False) -> None:
        self.quarantine = Quarantine()
        self._scores = scores
        self._only_static = only_static
        self._buckets = RequestLimiter()
        self._peers: dict[PeerId, _SyncPeer] = {}
        self._wanted: dict[int, set[PeerId]] = {}

    @property
    def wanted(self) -> int:
        """How many blocks are worked on."""
        return len(self._wanted)

    def add_peer(self, peer: PeerId, is_static: bool) -> None:
        """A peer that speaks the protocol is connected."""
        if peer not in self._peers:
            self._peers[peer] = _SyncPeer(is_static)

    def remove_peer(self, peer: PeerId) -> None:
        """A peer is gone; what it was asked for is open again."""
        self._peers.pop(peer, None)

    def request_range(self, head: int, target: Target, now: float) -> tuple[ExecutionPayload, ...]:
        """The blocks above number `head` and below the target are wanted, and no others any more. Answers what of it
        was in quarantine and is trusted now, newest first."""
        first = max(head + 1, target.number - MAX_RANGE)
        numbers = range(target.number - 1, first - 1, -1)
        self._wanted = {number: set() for number in numbers}
        for peer in self._peers.values():
            peer.set_aside = False
        return self._handle_release(self.quarantine.trust_range_end(*target), now)

    def next_requests(self, now: float) -> list[BlockRequest]:
        """What to ask whom for now; each is then on its way until it is answered."""
        found = []
        for name, peer in self._idle():
            number = self._next_for(name)
            if number is not None and self._buckets.delay(name, now) <= 0:
                self._buckets.consume(name, now)
                peer.in_flight = number
                found.append(BlockRequest(name, number))
        for request in found:
            self._peers[request.peer] = self._peers.pop(request.peer)
        return found

    def delay(self, now: float) -> float | None:
        """Seconds until a limit allows another request; None if only an event can bring one."""
        waits = [self._buckets.delay(name, now) for name, _ in self._idle() if self._next_for(name) is not None]
        return min(waits, default=None)

    def handle_outcome(self, request: BlockRequest, answer: RequestOutcome, now: float) -> tuple[ExecutionPayload, ...]:
        """Takes the end of a request; the blocks now known to be of the chain, newest first."""
        peer = self._peers.get(request.peer)
        if peer is None or peer.in_flight != request.number:
            return ()
        peer.in_flight = None
        if isinstance(answer, BlockFound):
            self._scores.on_valid_response(request.peer, now)
            return self._handle_release(self.quarantine.add(answer.payload, request.peer), now)
        self._buckets.charge(request.peer, PEER_BURST, now)
        if isinstance(answer, ErrorResponse) and answer.code == ResultCode.NOT_FOUND:
            peer.set_aside = True
        else:
            self._scores.on_response_error(request.peer, now)
            self._wanted.get(request.number, set()).add(request.peer)
        return ()

    def _handle_release(self, release: QuarantineRelease, now: float) -> tuple[ExecutionPayload, ...]:
        for payload in release.blocks:
            self._wanted.pop(payload.block_number, None)
        for peer in release.rejected:
            self._scores.on_rejected_payload(peer, now)
            if peer in self._peers:
                self._peers[peer].set_aside = True
        return release.blocks

    def _idle(self) -> list[tuple[PeerId, _SyncPeer]]:
        """Peers that may be asked, those asked longest ago first."""
        return [
            (name, peer)
            for name, peer in self._peers.items()
            if peer.in_flight is None and not peer.set_aside and (peer.is_static or not self._only_static)
        ]

    def _next_for(self, name: PeerId) -> int | None:
        """The highest wanted number that nobody is asked for and that the peer has not failed to give."""
        asked = {peer.in_flight for peer in self._peers.values()}
        for number, failed in self._wanted.items():
            if number not in asked and name not in failed and not self.quarantine.has(number):
                return number
        return None
