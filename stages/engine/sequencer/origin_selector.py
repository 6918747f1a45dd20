"""Which L1 block the next sequenced block has as its origin [SEQ14 to SEQ18], and the few L1 blocks kept for that."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.types import L1Block, L1BlockRef, L2BlockRef

MAX_BLOCKS = 64


class InconsistentOriginError(ResetError):
    """The L2 head's origin is not on the L1 chain as it is now."""


class SelectedOrigin(msgspec.Struct, frozen=True):
    """The L1 origin of the next block."""

    block: L1Block


class NoOrigin(msgspec.Struct, frozen=True):
    """No block can be built yet; to be tried again in a second [SEQ8]."""

    reason: str


class L1Window:
    """The newest canonical L1 blocks by number. A head that does not follow the previous one empties it."""

    def __init__(self) -> None:
        self.head: L1BlockRef | None = None
        self.blocks: dict[int, L1Block] = {}

    def note_head(self, head: L1BlockRef) -> bool:
        """L1's head moved; True if it is another one than before."""
        last = self.head
        if head == last:
            return False
        self.head = head
        if last is not None and head.parent_hash != last.hash:
            self.clear()
        return True

    def note_block(self, block: L1Block) -> None:
        """Add a canonical block.

        Blocks that do not link to it are removed with all beyond them, since they are of a chain before a reorg, and so
        are the lowest beyond MAX_BLOCKS."""
        number, header = block.header.number, block.header
        below, above = self.blocks.get(number - 1), self.blocks.get(number + 1)
        if below is not None and below.header.hash != header.parent_hash:
            self.blocks = {known: kept for known, kept in self.blocks.items() if known >= number}
        if above is not None and above.header.parent_hash != header.hash:
            self.blocks = {known: kept for known, kept in self.blocks.items() if known <= number}
        self.blocks[number] = block
        while len(self.blocks) > MAX_BLOCKS:
            del self.blocks[min(self.blocks)]

    def clear(self) -> None:
        """Remove the blocks, since L1 may have had a reorg. The head stays."""
        self.blocks.clear()

    def get(self, number: int) -> L1Block | None:
        """Return the block of a number, None if it is not kept."""
        return self.blocks.get(number)


class OriginSelector:
    """Selects origins for a sequencer that keeps `confirmations` L1 blocks behind L1's head [SEQ14 to SEQ17]."""

    def __init__(self, rollup: RollupConfig, confirmations: int, recover: bool) -> None:
        self.rollup = rollup
        self.schedule = rollup.schedule()
        self.confirmations = confirmations
        self.recover = recover

    def wanted(self, head: L2BlockRef, window: L1Window) -> tuple[int, int]:
        """(first, count) of the L1 blocks that the next choices need; a count of 0 for none."""
        current = head.l1_origin.number
        last = current + 1 if self._visible(current + 1, window) else current
        missing = [number for number in range(current, last + 1) if window.get(number) is None]
        return (missing[0], last - missing[0] + 1) if missing else (current, 0)

    def select(self, head: L2BlockRef, window: L1Window) -> SelectedOrigin | NoOrigin:
        """Return the origin of the block after `head`.

        Raises InconsistentOriginError when the head's origin is not on the L1 chain, or the next L1 block does not
        follow it [SEQ14]."""
        current = window.get(head.l1_origin.number)
        if current is None:
            return NoOrigin(f"L1 block {head.l1_origin}, the origin of the L2 head, is not fetched yet")
        if current.header.hash != head.l1_origin.hash:
            raise InconsistentOriginError(f"L2 head {head} has L1 origin {head.l1_origin}, but L1 has {current.ref}")
        following = window.get(current.header.number + 1) if self._visible(current.header.number + 1, window) else None
        if following is not None and following.header.parent_hash != current.header.hash:
            raise InconsistentOriginError(f"L1 block {following.ref} does not follow {current.ref}")
        time = head.timestamp + self.rollup.block_time
        if following is not None:
            return SelectedOrigin(following if time >= following.header.timestamp else current)
        drift = self.schedule.epoch(current.header.timestamp).max_sequencer_drift
        if time - current.header.timestamp > drift:
            return NoOrigin(
                f"the next L2 block would be {time - current.header.timestamp} s past its L1 origin {current.ref},"
                f" more than the drift of {drift} s, and L1 block {current.header.number + 1} is not visible"
            )
        if self.recover and not self._surely_missing(current.header.number + 1, window):
            return NoOrigin(f"recover mode: L1 block {current.header.number + 1} is not fetched yet")
        return SelectedOrigin(current)

    def _visible(self, number: int, window: L1Window) -> bool:
        """Return whether a block is deep enough below L1's head to be built on."""
        return window.head is not None and number + self.confirmations <= window.head.number

    def _surely_missing(self, number: int, window: L1Window) -> bool:
        """Return whether L1 has no such block that could be built on."""
        return window.head is not None and not self._visible(number, window)
