"""Which blocks this node has signed: one per height, unless the chain was reorganised below it [SGN9, SGN10]."""

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef, L2BlockRef

MAX_HEIGHTS = 4096
"""Heights up to the highest signed one that are remembered."""
MAX_BLOCKS_PER_HEIGHT = 16

L1Hash = Callable[[int], Hash | None]
"""The hash of the canonical L1 block of a number, None where it is unknown."""


class BlockFate(IntEnum):
    """What became of a block. Stored in files: values are never reused."""

    SIGNED = 0
    """It was signed, or is about to be."""
    REFUSED = 1
    """A sequenced block that was not signed because of another one."""
    ANCESTOR = 2
    """The parent of a signed block, which was not signed itself."""


class BlockRecord(NamedTuple):
    """A block and what became of it. `origin` is None when its L1 info is unreadable."""

    number: int
    hash: Hash
    parent_hash: Hash
    origin: BlockId | None
    fate: BlockFate = BlockFate.SIGNED


class SigningRequest(NamedTuple):
    """A block to sign, with its parent; the chain up to number `derived` follows from L1."""

    block: BlockRecord
    parent: BlockRecord
    derived: int


def signing_request(
    config: RollupConfig, payload: ExecutionPayload, parent: L2BlockRef, derived: int
) -> SigningRequest:
    try:
        origin = l2_ref_of_payload(config, payload).l1_origin
    except BlockError:
        origin = None
    return SigningRequest(
        BlockRecord(payload.block_number, payload.block_hash, payload.parent_hash, origin),
        BlockRecord(parent.number, parent.hash, parent.parent_hash, parent.l1_origin, BlockFate.ANCESTOR),
        derived,
    )


class SignedBlocks:
    """The blocks at the latest heights, decided in the order in which they were sequenced."""

    def __init__(self, records: Iterable[BlockRecord] = ()) -> None:
        self._heights: dict[int, list[BlockRecord]] = {}
        self._highest = -1
        for record in records:
            self._add(record)

    @property
    def lowest(self) -> int:
        return self._highest - MAX_HEIGHTS + 1

    def decide(self, request: SigningRequest, l1_hash: L1Hash) -> tuple[str | None, list[BlockRecord]]:
        """Why a block must not be signed, None if it may be; and the records that this adds."""
        block, parent, _ = request
        refusal = self._refusal(request, l1_hash)
        stored = self.find(parent.number, parent.hash)
        if refusal is not None:
            new = [block._replace(fate=BlockFate.REFUSED)]
        elif stored is None or stored.fate is BlockFate.REFUSED:
            new = [block, parent]
        else:
            new = [block]
        return refusal, [record for record in new if self._add(record)]

    def _refusal(self, request: SigningRequest, l1_hash: L1Hash) -> str | None:
        block, parent, derived = request
        known = self.find(block.number, block.hash)
        if block.number > self._highest or (known is not None and known.fate is BlockFate.SIGNED):
            return None
        if block.number < self.lowest:
            return f"what was signed below block {self.lowest} is forgotten"
        stored = self.find(parent.number, parent.hash)
        if parent.number > derived and (stored is None or stored.fate is BlockFate.REFUSED):
            return f"its parent was {'never seen' if stored is None else 'refused'}, and is not derived from L1"
        for other in self._heights.get(block.number, ()):
            is_rival = other.fate is not BlockFate.REFUSED and other.hash != block.hash
            if is_rival and other.parent_hash == block.parent_hash and not _was_replaced(other.origin, block, l1_hash):
                return f"block {other.number} 0x{other.hash.hex()} came first on the same parent"
        for child in self._heights.get(block.number + 1, ()):
            if child.fate is not BlockFate.REFUSED and self._is_unknown(block.number, child.parent_hash, block.hash):
                return f"the parent 0x{child.parent_hash.hex()} of a signed block takes its height"
        return None

    def _is_unknown(self, number: int, parent_hash: Hash, block_hash: Hash) -> bool:
        return parent_hash != block_hash and all(item.hash != parent_hash for item in self._heights.get(number, ()))

    def find(self, number: int, block_hash: Hash) -> BlockRecord | None:
        """Return what is stored of a block: signed counts before ancestor, and that before refused."""
        get = [item for item in self._heights.get(number, ()) if item.hash == block_hash]
        return min(get, key=lambda item: _ORDER[item.fate], default=None)

    def _add(self, block: BlockRecord) -> bool:
        """Remember a block, at a full height in place of a lesser one and only if signed; return whether it is new."""
        known = self._heights.get(block.number, [])
        is_full = len(known) >= MAX_BLOCKS_PER_HEIGHT
        if block.number < self.lowest or block in known or (block.fate is not BlockFate.SIGNED and is_full):
            return False
        if is_full:
            known.remove(max(known, key=lambda item: _ORDER[item.fate]))
        self._heights[block.number] = [*known, block]
        if block.fate is BlockFate.SIGNED and block.number > self._highest:
            self._highest = block.number
        if len(self._heights) > MAX_HEIGHTS:
            self._heights = {number: blocks for number, blocks in self._heights.items() if number >= self.lowest}
        return True


_ORDER = {BlockFate.SIGNED: 0, BlockFate.ANCESTOR: 1, BlockFate.REFUSED: 2}


def _was_replaced(origin: BlockId | None, block: BlockRecord, l1_hash: L1Hash) -> bool:
    """Whether a reorg of L1 replaced the origin of a signed block, so that this one takes its place.

    It is on the same parent, and its origin is another L1 block of that number, or an older one while L1 has another
    block of that number. An older one alone says nothing: L1 may have been read from an endpoint that is behind."""
    if origin is None or block.origin is None or origin.number < block.origin.number:
        return False
    if origin.number == block.origin.number:
        return origin.hash != block.origin.hash
    return l1_hash(origin.number) not in (None, origin.hash)


MAX_L1_BLOCKS = 1024


class RecentL1Chain:
    """Numbers and hashes of the latest L1 blocks, as far down as the heads followed each other without a gap."""

    def __init__(self) -> None:
        self._hashes: dict[int, Hash] = {}
        self._newest = -1

    def hash_of(self, number: int) -> Hash | None:
        """Return the hash of the canonical L1 block of a number, None where it is unknown."""
        return self._hashes.get(number)

    def take(self, head: L1BlockRef) -> None:
        """Take a new head. One that is older, of an endpoint that is behind, changes nothing."""
        is_below = head.number < min(self._hashes, default=head.number)
        if is_below or self._hashes.get(head.number) == head.hash:
            return
        if self._hashes.get(head.number - 1) != head.parent_hash:
            self._hashes = {head.number - 1: head.parent_hash}
        for number in range(head.number, self._newest + 1):
            self._hashes.pop(number, None)
        self._hashes[head.number], self._newest = head.hash, head.number
        self._hashes.pop(head.number - MAX_L1_BLOCKS, None)


MAX_PAYLOADS = 128
MAX_PAYLOAD_BYTES = 32 << 20


class KeptPayload(NamedTuple):
    """A block whose payload is kept: `position` grows with each block, `size` in bytes."""

    position: int
    number: int
    hash: Hash
    size: int


class KeptPayloads:
    """The kept payloads in the order in which the blocks were sequenced."""

    def __init__(self, kept: Iterable[KeptPayload] = ()) -> None:
        self._kept = {item.hash: item for item in sorted(kept)}
        self._bytes = sum(item.size for item in self._kept.values())
        self._next = max((item.position for item in self._kept.values()), default=0) + 1

    @property
    def lowest(self) -> int:
        """The lowest position that is kept."""
        return next((item.position for item in self._kept.values()), self._next)

    def add(self, number: int, block_hash: Hash, size: int) -> KeptPayload | None:
        """Add a block as the last one, and forget the oldest beyond the bounds, but never this one.

        Return None where it is the last one already. One that is kept from before moves to the end."""
        before = self._kept.get(block_hash)
        if before is not None and before.position == self._next - 1:
            return None
        if before is not None:
            self._bytes -= self._kept.pop(block_hash).size
        added = self._kept[block_hash] = KeptPayload(self._next, number, block_hash, size)
        self._next += 1
        self._bytes += size
        while len(self._kept) > 1 and (len(self._kept) > MAX_PAYLOADS or self._bytes > MAX_PAYLOAD_BYTES):
            self._bytes -= self._kept.pop(next(iter(self._kept))).size
        return added

    def find(self, block_hash: Hash) -> KeptPayload | None:
        """Return the kept payload of a block, None if there is none."""
        return self._kept.get(block_hash)

    def newest_first(self) -> Iterator[KeptPayload]:
        """Return the kept payloads, the last one first."""
        return reversed(self._kept.values())
