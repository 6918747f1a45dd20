"""Blocks that peers gave and nobody vouches for yet. A block is released once its hash is trusted: because it is the
target of a range, or the parent of a block that was released. Hashes are computed only then, so that a stranger's
block costs no work. What is not the block expected at its number, or is pushed out unreleased, was of no use, and who
gave it is named."""

from collections import OrderedDict
from typing import NamedTuple

from rollup_node.stages.p2p.identity.peer_id import PeerId
from rollup_node.stages.protocol.block_hash import payload_block_hash
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash

MOST_BLOCKS = 100
MOST_BYTES = 256 << 20
MOST_TRUSTED = 10_000
_FIXED_COST = 1000
_COST_PER_TRANSACTION = 24


class Held(NamedTuple):
    """A block and the peer that gave it."""

    payload: ExecutionPayload
    peer: PeerId

    @property
    def size(self) -> int:
        """Bytes it is counted as."""
        transactions = self.payload.transactions
        return _FIXED_COST + sum(map(len, transactions)) + _COST_PER_TRANSACTION * len(transactions)


class Release(NamedTuple):
    """Blocks that are now known to be of the chain, newest first, and peers whose blocks turned out not to be."""

    blocks: tuple[ExecutionPayload, ...] = ()
    rejected: tuple[PeerId, ...] = ()


class Quarantine:
    """The blocks by hash and number, and the trusted hashes; of each the last used stay."""

    def __init__(self) -> None:
        self._held: OrderedDict[Hash, Held] = OrderedDict()
        self._by_number: dict[int, Hash] = {}
        self._trusted: OrderedDict[Hash, None] = OrderedDict()
        self._expected: dict[int, Hash] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def has(self, number: int) -> bool:
        """Whether a block of that number is held."""
        return number in self._by_number

    def aim(self, number: int, block_hash: Hash, parent_hash: Hash) -> Release:
        """Trusts a block from now on, and with it its parent; other blocks are not expected any more. What can be
        released because of it."""
        self._expected.clear()
        top, below = self._expect(number, block_hash), self._expect(number - 1, parent_hash)
        return Release(top.blocks + below.blocks, top.rejected + below.rejected)

    def add(self, payload: ExecutionPayload, peer: PeerId) -> Release:
        """Takes a block as it came; what can be released because of it."""
        if payload.block_hash in self._held:
            return Release()
        held = Held(payload, peer)
        if self._expected.get(payload.block_number, payload.block_hash) != payload.block_hash:
            return Release((), (peer,))
        rejected = self._remove_other(payload.block_number, payload.block_hash)
        self._held[payload.block_hash] = held
        self._by_number[payload.block_number] = payload.block_hash
        self.bytes += held.size
        found = self._release(payload.block_hash) if payload.block_hash in self._trusted else Release()
        while len(self._held) > MOST_BLOCKS or self.bytes > MOST_BYTES:
            oldest = self._drop(next(iter(self._held)))
            if oldest is not None:
                rejected.append(oldest.peer)
        return Release(found.blocks, (*rejected, *found.rejected))

    def _release(self, block_hash: Hash) -> Release:
        """The block of a trusted hash, and then its ancestors as far as they are here."""
        blocks: list[ExecutionPayload] = []
        rejected: list[PeerId] = []
        while (held := self._drop(block_hash)) is not None:
            payload = held.payload
            if payload_block_hash(payload) != block_hash:
                rejected.append(held.peer)
                break
            blocks.append(payload)
            block_hash = payload.parent_hash
            self._note_trusted(block_hash)
            self._expected[payload.block_number - 1] = block_hash
            rejected += self._remove_other(payload.block_number - 1, block_hash)
        return Release(tuple(blocks), tuple(rejected))

    def _expect(self, number: int, block_hash: Hash) -> Release:
        self._note_trusted(block_hash)
        self._expected[number] = block_hash
        rejected = self._remove_other(number, block_hash)
        found = self._release(block_hash)
        return Release(found.blocks, (*rejected, *found.rejected))

    def _note_trusted(self, block_hash: Hash) -> None:
        self._trusted[block_hash] = None
        self._trusted.move_to_end(block_hash)
        if len(self._trusted) > MOST_TRUSTED:
            self._trusted.popitem(last=False)

    def _remove_other(self, number: int, block_hash: Hash) -> list[PeerId]:
        """Drops a block of a number that has another hash; who gave it."""
        other = self._by_number.get(number, block_hash)
        held = None if other == block_hash else self._drop(other)
        return [] if held is None else [held.peer]

    def _drop(self, block_hash: Hash) -> Held | None:
        held = self._held.pop(block_hash, None)
        if held is not None:
            self.bytes -= held.size
            del self._by_number[held.payload.block_number]
        return held
