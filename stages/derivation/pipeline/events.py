"""What the pipeline's stages report: drops, in the order in which they happen, and how many frames were added."""

from collections import deque

from rollup_node.stages.derivation.reasons.reason import Dropped, Reason
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.types import L1BlockRef


class PipelineEvents:
    """Drops that are not yet outputs of the deriver, oldest first; `origin` is the L1 block being read, and
    `frames_added` counts the frames added to channels since the start [MET11]."""

    def __init__(self) -> None:
        self.origin: L1BlockRef | None = None
        self.drops: deque[Dropped] = deque()
        self.frames_added = 0

    def drop(self, effect: DropEffect, reason: Reason) -> None:
        """Records a drop at the L1 block being read."""
        self.drops.append(Dropped(effect, reason, self.origin))

    def add_frame(self) -> None:
        """Counts a frame that was added to its channel."""
        self.frames_added += 1


class DiscardedEvents(PipelineEvents):
    """Keeps no drops: for stages that only read ahead, whose drops the pipeline reports when it comes to them."""

    def drop(self, effect: DropEffect, reason: Reason) -> None:
        """Discards the drop."""
