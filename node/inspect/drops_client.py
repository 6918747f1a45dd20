"""Reads all that derivation drops, in order and without a gap."""

import time
from collections.abc import Callable

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.messages.derivation import Drop, DropsRequest, DropsResponse

REPEAT_SECONDS = 0.2


class DropsReader:
    """Asks for the next page until it comes; `wake` is called when there is something to take."""

    def __init__(self, bus: Bus, wake: Callable[[], None]) -> None:
        self.forgotten = 0
        self._wake = wake
        self._next = 0
        self._taken: list[Drop] = []
        self._last_id = 0
        self._asked_at = 0.0
        self._answered_id = 0
        self._total = 0
        self._client = bus.connect("derivation.drops", self._receive)

    def ask(self) -> int:
        """Asks for the next page; the number of the question."""
        self._last_id += 1
        self._asked_at = time.monotonic()
        self._client.send(DropsRequest(self._last_id, self._next))
        return self._last_id

    def keep_asking(self) -> None:
        """Asks again when it is time to."""
        if time.monotonic() - self._asked_at > REPEAT_SECONDS:
            self.ask()

    def take(self) -> list[Drop]:
        """What has come since the last call."""
        taken, self._taken = self._taken, []
        return taken

    def has_all_of(self, question: int) -> bool:
        """Whether everything that had been dropped when this question was answered has come."""
        return self._answered_id >= question and self._next >= self._total

    def _receive(self, found: DropsResponse) -> None:
        if found.first > self._next:
            self.forgotten += found.first - self._next
            self._next = found.first
        fresh = found.drops[self._next - found.first :]
        self._taken += fresh
        self._next += len(fresh)
        if found.id > self._answered_id:
            self._answered_id, self._total = found.id, found.total
        if fresh:
            self.ask()
            self._wake()
