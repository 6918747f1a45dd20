"""Which L1 block the next sequenced block builds on (node-behaviour 12.2), and the few L1 blocks kept for that."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.types import L1Block, L1BlockRef, L2BlockRef

KEPT = 64


class InconsistentOriginError(ResetError):
    """The L2 head's origin is not on the L1 chain as it is now."""


class Origin(msgspec.Struct, frozen=True):
    """Build on this L1 block."""

    block: L1Block


class NoOrigin(msgspec.Struct, frozen=True):
    """No block can be built yet; try again in a second."""

    reason: str


class L1Window:
    """The newest canonical L1 blocks by number. A head that does not follow the last one empties it."""

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
            self.forget()
        return True

    def note_block(self, block: L1Block) -> None:
        """A canonical block came; blocks that do not link to it are forgotten with all beyond them, for one of them is
        of before a reorg, and so are the lowest beyond KEPT."""
        number, header = block.header.number, block.header
        below, above = self.blocks.get(number - 1), self.blocks.get(number + 1)
        if below is not None and below.header.hash != header.parent_hash:
            self.blocks = {known: kept for known, kept in self.blocks.items() if known >= number}
        if above is not None and above.header.parent_hash != header.hash:
            self.blocks = {known: kept for known, kept in self.blocks.items() if known <= number}
        self.blocks[number] = block
        while len(self.blocks) > KEPT:
            del self.blocks[min(self.blocks)]

    def forget(self) -> None:
        """The blocks count no more: L1 may have moved. The head stays."""
        self.blocks.clear()

    def get(self, number: int) -> L1Block | None:
        return self.blocks.get(number)


class OriginSelector:
    """Rules 1-4 of node-behaviour 12.2. `confirmations` in L1 blocks."""

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

    def select(self, head: L2BlockRef, window: L1Window) -> Origin | NoOrigin:
        """The origin of the block after `head`; InconsistentOriginError if L1 has moved away under the head."""
        current = window.get(head.l1_origin.number)
        if current is None:
            return NoOrigin(f"L1 block {head.l1_origin}, the origin of the L2 head, is not at hand")
        if current.header.hash != head.l1_origin.hash:
            raise InconsistentOriginError(f"L2 head {head} has L1 origin {head.l1_origin}, but L1 has {current.ref}")
        following = window.get(current.header.number + 1) if self._visible(current.header.number + 1, window) else None
        if following is not None and following.header.parent_hash != current.header.hash:
            raise InconsistentOriginError(f"L1 block {following.ref} does not follow {current.ref}")
        time = head.timestamp + self.rollup.block_time
        if following is not None:
            return Origin(following if time >= following.header.timestamp else current)
        drift = self.schedule.epoch(current.header.timestamp).max_sequencer_drift
        if time - current.header.timestamp > drift:
            return NoOrigin(
                f"the next L2 block would be {time - current.header.timestamp} s past its L1 origin {current.ref},"
                f" more than the drift of {drift} s, and L1 block {current.header.number + 1} is not visible"
            )
        if self.recover and not self._surely_missing(current.header.number + 1, window):
            return NoOrigin(f"recover mode: L1 block {current.header.number + 1} is not at hand yet")
        return Origin(current)

    def _visible(self, number: int, window: L1Window) -> bool:
        """Whether a block is deep enough below L1's head to be built on."""
        return window.head is not None and number + self.confirmations <= window.head.number

    def _surely_missing(self, number: int, window: L1Window) -> bool:
        """Whether L1 has no such block that could be built on."""
        return window.head is not None and not self._visible(number, window)
