"""Fills a gap of the unsafe chain: which block to request from whom, and what to trust [SYN10 to SYN16].

The engine process requests the blocks between its head and a block from gossip, and repeats that until it has them
(`request_range`). Numbers are requested from the top down, each from one peer at a time, one at a time from each
peer, after a failure from another one. Responses pass the quarantine. The caller sends what `next_requests` returns,
reports each end by `handle_outcome`, and asks again then, when a peer comes or goes, and after `delay` seconds."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from rollup_node.stages.messages.p2p import GapEnd
from rollup_node.stages.p2p.addresses.peer_id import PeerId
from rollup_node.stages.p2p.peering.peer_score import ApplicationScorer
from rollup_node.stages.p2p.reqresp.payload_by_number import RequestOutcome, ResultCode
from rollup_node.stages.p2p.reqresp.server_limits import GLOBAL_BURST, GLOBAL_RATE, MAX_PEERS, PEER_BURST, PEER_RATE
from rollup_node.stages.protocol.pacing import KeyedTokenBuckets, TokenBucket
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash
from rollup_node.stages.protocol.types import Hash

MAX_BLOCKS = 100
MAX_BYTES = 32 << 20
MAX_TRUSTED = 10_000
_FIXED_COST = 1000
_COST_PER_TRANSACTION = 56
"""What Python needs for a short transaction beside its bytes."""


class QuarantinedBlock(NamedTuple):
    """A block and its sender."""

    payload: ExecutionPayload
    peer: PeerId

    @property
    def size(self) -> int:
        """Bytes that the block is counted as."""
        transactions = self.payload.transactions
        return _FIXED_COST + sum(map(len, transactions)) + _COST_PER_TRANSACTION * len(transactions)


class QuarantineRelease(NamedTuple):
    """Blocks now known to be of the chain, newest first, and peers whose blocks turned out not to be."""

    blocks: tuple[ExecutionPayload, ...] = ()
    rejected: tuple[PeerId, ...] = ()


class Quarantine:
    """The quarantined blocks by hash and number, and the trusted hashes, both bounded."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[Hash, QuarantinedBlock] = OrderedDict()
        self._by_number: dict[int, Hash] = {}
        self._trusted: OrderedDict[Hash, None] = OrderedDict()
        self._expected: dict[int, Hash] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._blocks)

    def has(self, number: int) -> bool:
        return number in self._by_number

    def trust_range_end(self, number: int, block_hash: Hash, parent_hash: Hash) -> QuarantineRelease:
        """Trust the end of a range and its parent, and no earlier range; return what that releases."""
        self._expected.clear()
        top, below = self._expect(number, block_hash), self._expect(number - 1, parent_hash)
        return QuarantineRelease(top.blocks + below.blocks, top.rejected + below.rejected)

    def add(self, payload: ExecutionPayload, peer: PeerId) -> QuarantineRelease:
        """Add a block of a peer; returns what that releases."""
        if payload.block_hash in self._blocks:
            return QuarantineRelease()
        block = QuarantinedBlock(payload, peer)
        if self._expected.get(payload.block_number, payload.block_hash) != payload.block_hash:
            return QuarantineRelease((), (peer,))
        rejected = self._remove_other(payload.block_number, payload.block_hash)
        self._blocks[payload.block_hash] = block
        self._by_number[payload.block_number] = payload.block_hash
        self.bytes += block.size
        result = self._release(payload.block_hash) if payload.block_hash in self._trusted else QuarantineRelease()
        while len(self._blocks) > MAX_BLOCKS or self.bytes > MAX_BYTES:
            oldest = self._drop(next(iter(self._blocks)))
            if oldest is not None:
                rejected.append(oldest.peer)
        return QuarantineRelease(result.blocks, (*rejected, *result.rejected))

    def _release(self, block_hash: Hash) -> QuarantineRelease:
        """Release the block of a trusted hash and its ancestors, as far as they are in quarantine."""
        blocks: list[ExecutionPayload] = []
        rejected: list[PeerId] = []
        while (block := self._drop(block_hash)) is not None:
            payload = block.payload
            if payload_block_hash(payload) != block_hash:
                rejected.append(block.peer)
                break
            blocks.append(payload)
            block_hash = payload.parent_hash
            self._trust(block_hash)
            self._expected[payload.block_number - 1] = block_hash
            rejected += self._remove_other(payload.block_number - 1, block_hash)
        return QuarantineRelease(tuple(blocks), tuple(rejected))

    def _expect(self, number: int, block_hash: Hash) -> QuarantineRelease:
        self._trust(block_hash)
        self._expected[number] = block_hash
        rejected = self._remove_other(number, block_hash)
        result = self._release(block_hash)
        return QuarantineRelease(result.blocks, (*rejected, *result.rejected))

    def _trust(self, block_hash: Hash) -> None:
        self._trusted[block_hash] = None
        self._trusted.move_to_end(block_hash)
        if len(self._trusted) > MAX_TRUSTED:
            self._trusted.popitem(last=False)

    def _remove_other(self, number: int, block_hash: Hash) -> list[PeerId]:
        """Drop a block of the number that has another hash; returns its sender."""
        other = self._by_number.get(number, block_hash)
        block = None if other == block_hash else self._drop(other)
        return [] if block is None else [block.peer]

    def _drop(self, block_hash: Hash) -> QuarantinedBlock | None:
        block = self._blocks.pop(block_hash, None)
        if block is not None:
            self.bytes -= block.size
            del self._by_number[block.payload.block_number]
        return block


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
        # The limits of the peers' servers, beyond which a request would only wait there.
        self._all_peers = TokenBucket(GLOBAL_RATE, GLOBAL_BURST)
        self._each_peer: KeyedTokenBuckets[PeerId] = KeyedTokenBuckets(PEER_RATE, PEER_BURST, MAX_PEERS)
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
            if number is not None and self._limit_delay(name, now) <= 0:
                self._all_peers.consume(now)
                self._each_peer[name].consume(now)
                peer.in_flight = number
                result.append(BlockRequest(name, number))
        for request in result:
            self._peers[request.peer] = self._peers.pop(request.peer)
        return result

    def delay(self, now: float) -> float | None:
        """Seconds until a rate limit allows another request; None if only an event can cause one."""
        waits = [self._limit_delay(name, now) for name, _ in self._idle() if self._next_for(name) is not None]
        return min(waits, default=None)

    def _limit_delay(self, peer: PeerId, now: float) -> float:
        return max(self._all_peers.delay(now), self._each_peer[peer].delay(now))

    def handle_outcome(
        self, request: BlockRequest, outcome: RequestOutcome, now: float
    ) -> tuple[ExecutionPayload, ...]:
        """Handle the end of a request; returns the blocks now known to be of the chain, newest first."""
        peer = self._peers.get(request.peer)
        if peer is None or peer.in_flight != request.number:
            return ()
        peer.in_flight = None
        if outcome.payload is not None:
            self._scores.on_valid_response(request.peer, now)
            return self._handle_release(self.quarantine.add(outcome.payload, request.peer), now)
        # An error costs the whole burst, so that the peer rests [SYN11].
        self._each_peer[request.peer].consume(now, PEER_BURST)
        if outcome.code == ResultCode.NOT_FOUND:
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
