"""Blocks of peers whose hash is not yet trusted.

A block is released once it is: because it ends a requested range, or is the parent of a released block [SYN12,
SYN13]. Hashes are computed only then, so that a stranger's block costs no work. The sender of a block that is not
the one expected at its number, or is evicted unreleased, is reported."""

from collections import OrderedDict
from typing import NamedTuple

from rollup_node.stages.p2p.identity.peer_id import PeerId
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
        """Releases the block of a trusted hash and its ancestors, as far as they are in quarantine."""
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
