"""Blocks that peers gave and nobody vouches for yet. A block is released once its hash is trusted: because it is the
target of a range, or the parent of a block that was released. Hashes are computed only then, so that a stranger's
block costs no work; what is pushed out unreleased was of no use, and who gave it is named."""

from collections import OrderedDict
from typing import NamedTuple

from rollup_node.stages.p2p.identity import PeerId
from rollup_node.stages.protocol.hashes import payload_block_hash
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
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def has(self, number: int) -> bool:
        """Whether a block of that number is held."""
        return number in self._by_number

    def trust(self, block_hash: Hash) -> Release:
        """Trusts a hash from now on; what can be released because of it."""
        self._note_trusted(block_hash)
        return self._release(block_hash)

    def add(self, payload: ExecutionPayload, peer: PeerId) -> Release:
        """Takes a block as it came; what can be released because of it."""
        if payload.block_hash in self._held:
            return Release()
        held = Held(payload, peer)
        rejected = [other.peer for other in (self._remove_number(payload.block_number),) if other is not None]
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
            if self._by_number.get(payload.block_number - 1, block_hash) != block_hash:
                other = self._remove_number(payload.block_number - 1)
                rejected += [other.peer] if other is not None else []
        return Release(tuple(blocks), tuple(rejected))

    def _note_trusted(self, block_hash: Hash) -> None:
        self._trusted[block_hash] = None
        self._trusted.move_to_end(block_hash)
        if len(self._trusted) > MOST_TRUSTED:
            self._trusted.popitem(last=False)

    def _remove_number(self, number: int) -> Held | None:
        block_hash = self._by_number.get(number)
        return None if block_hash is None else self._drop(block_hash)

    def _drop(self, block_hash: Hash) -> Held | None:
        held = self._held.pop(block_hash, None)
        if held is not None:
            self.bytes -= held.size
            del self._by_number[held.payload.block_number]
        return held
