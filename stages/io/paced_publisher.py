"""Publishes counts that change all the time, at most once a second [RPC94]."""

import time
from collections.abc import Callable

from rollup_node.stages.messages.base import Message

PUBLISH_SECONDS = 1.0


class PacedPublisher:
    """Publishes what is made of counts when it is due. `clock` is monotonic."""

    def __init__(self, publish: Callable[[Message], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._publish, self._clock = publish, clock
        self._due = float("-inf")

    def step(self, *states: Callable[[], Message | None]) -> None:
        """Publish the states if the last time was PUBLISH_SECONDS ago; none for None."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + PUBLISH_SECONDS
        for state in states:
            if (message := state()) is not None:
                self._publish(message)
