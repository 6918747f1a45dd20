"""Attributes queued behind the current job, and results not yet acknowledged.

The first attributes of a run have a parent that the engine has. Those behind were derived ahead: each counts only if
the block before was accepted with the number, time, L1 origin and system config that it was derived on [ENG40].
Whatever else becomes of a block cancels the attributes behind it; derivation sends what it derives instead."""

from collections import deque

import msgspec

from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.types import ZERO_HASH, Hash, L2BlockRef

MAX_AHEAD = 64
MAX_UNREPORTED = 8
"""Accepted blocks whose results derivation gets in one message while more attributes wait."""


class AttributesReceiver:
    """`offered` are attributes on a known parent, `ahead` those that follow, in sequence.

    `reported` is the sequence of the last result that was sent."""

    def __init__(self) -> None:
        self.offered: AttributesReady | None = None
        self.ahead: deque[AttributesReady] = deque()
        self.reported = 0
        self._accepted: deque[tuple[int, Hash]] = deque(maxlen=2 * MAX_AHEAD)

    def clear(self) -> None:
        """Forget all: a new start, with which sequences begin again."""
        self.offered, self.reported = None, 0
        self.ahead.clear()
        self._accepted.clear()

    def add(self, derived: AttributesReady, newest: int | None) -> None:
        """Take attributes of derivation.

        `newest` is the sequence of the current job or of the last accepted block, None after any other end.
        Attributes ahead that leave a gap, or are known, are ignored."""
        if derived.parent_config is None:
            self.offered = derived
            return
        if self.offered is not None and (newest is None or self.offered.sequence > newest):
            newest = self.offered.sequence
        if self.ahead:
            newest = self.ahead[-1].sequence
        if newest is not None and derived.sequence == newest + 1 and len(self.ahead) < MAX_AHEAD:
            self.ahead.append(derived)

    def following(self, sequence: int, block: L2BlockRef, config: SystemConfig) -> AttributesReady | None:
        """Return the attributes after number `sequence`, now with their parent; None if none wait.

        `block` with this system config was made of the attributes before. Attributes that were derived on another
        block are dropped, and all behind them."""
        while self.ahead and self.ahead[0].sequence <= sequence:
            self.ahead.popleft()
        if not self.ahead:
            return None
        first = self.ahead[0]
        predicted = msgspec.structs.replace(block, hash=ZERO_HASH, parent_hash=ZERO_HASH)
        if first.sequence == sequence + 1 and first.parent == predicted and first.parent_config == config:
            return msgspec.structs.replace(first, parent=block, parent_config=None)
        self.ahead.clear()
        return None

    # --- results ---------------------------------------------------------------------------------------------------

    def accept(self, sequence: int, block: Hash) -> None:
        """Note that the block of these attributes is in the chain."""
        self._accepted.append((sequence, block))

    def repeat_from(self, sequence: int) -> None:
        """Note that derivation has no result of these attributes."""
        self.reported = min(self.reported, sequence - 1)

    def take_accepted(self, last: int) -> tuple[Hash, ...]:
        """Return the blocks accepted before number `last` whose results were not sent.

        They count as sent now, with it."""
        result = tuple(block for sequence, block in self._accepted if self.reported < sequence < last)
        self.reported = last
        return result
