"""Where the stages put what goes no further, on its way to become an output of the deriver."""

from collections import deque

from rollup_node.stages.derivation.reasons.reasons import Dropped, Effect, Reason
from rollup_node.stages.protocol.types import L1BlockRef


class Trace:
    """Drops in the order in which they happened, each with the L1 block being read."""

    def __init__(self) -> None:
        self.origin: L1BlockRef | None = None
        self.dropped: deque[Dropped] = deque()

    def note(self, effect: Effect, reason: Reason) -> None:
        """Adds one."""
        self.dropped.append(Dropped(effect, reason, self.origin))
