"""Which blocks this node has signed: no second block is signed for a height unless the chain was reorganised below it
[SGN9, SGN10]."""

from collections.abc import Iterable
from typing import NamedTuple

from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, Hash

MAX_HEIGHTS = 4096
"""Heights below the highest one that are remembered."""
MAX_BLOCKS_PER_HEIGHT = 16


class BlockRecord(NamedTuple):
    """A block that was signed, or with `is_refused` one that was not. `origin` is None when its L1 info is
    unreadable."""

    number: int
    hash: Hash
    parent_hash: Hash
    origin: BlockId | None
    is_refused: bool = False


def record_of(config: RollupConfig, payload: ExecutionPayload) -> BlockRecord:
    """The record of a block."""
    try:
        origin = l2_ref_of_payload(config, payload).l1_origin
    except BlockError:
        origin = None
    return BlockRecord(payload.block_number, payload.block_hash, payload.parent_hash, origin)


class SignedBlocks:
    """The blocks at the latest heights, and the rule by which another one is refused."""

    def __init__(self, records: Iterable[BlockRecord] = ()) -> None:
        self._heights: dict[int, list[BlockRecord]] = {}
        self._highest = -1
        for record in records:
            self.add(record)

    @property
    def lowest(self) -> int:
        """The lowest height that is remembered."""
        return self._highest - MAX_HEIGHTS + 1

    def conflict(self, block: BlockRecord) -> BlockRecord | None:
        """The signed or refused block because of which this one must not be signed [SGN10]; None if it may be."""
        signed = [each for each in self._heights.get(block.number, ()) if not each.is_refused]
        if any(each.hash == block.hash for each in signed):
            return None
        if block.number <= self._highest:
            for parent in self._heights.get(block.number - 1, ()):
                if parent.is_refused and parent.hash == block.parent_hash:
                    return parent
        for each in signed:
            if each.parent_hash == block.parent_hash and not _origin_was_replaced(each.origin, block.origin):
                return each
        return None

    def add(self, block: BlockRecord) -> bool:
        """Remembers a block, also one that is refused; returns whether it was not known. At a height with too many
        blocks another one that is refused is not remembered, and a signed one takes the place of one that was."""
        known = self._heights.get(block.number, [])
        is_full = len(known) >= MAX_BLOCKS_PER_HEIGHT
        if block.number < self.lowest or block in known or (block.is_refused and is_full):
            return False
        if is_full:
            known.remove(next((each for each in known if each.is_refused), known[0]))
        self._heights[block.number] = [*known, block]
        if not block.is_refused and block.number > self._highest:
            self._highest = block.number
        if len(self._heights) > MAX_HEIGHTS:
            self._heights = {number: blocks for number, blocks in self._heights.items() if number >= self.lowest}
        return True


def _origin_was_replaced(signed: BlockId | None, other: BlockId | None) -> bool:
    """Whether a reorg of L1 explains that a block on the same parent has another origin. Both take the parent's origin
    or the L1 block after it, so without a reorg the second can only be ahead."""
    return signed is not None and other is not None and signed.hash != other.hash and signed.number >= other.number
