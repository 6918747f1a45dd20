"""Requests of other processes that wait for their answers: reads of the engine, one queue for each kind, and admin
calls that are answered when what they ask for has happened. All queues are bounded; what finds no room is repeated by
the process that needs it."""

from collections import deque
from typing import Generic, TypeVar

from rollup_node.ipc.wire.process_id import ProcessId

R = TypeVar("R")

MAX_ADMIN_REQUESTS = 64

AdminKey = tuple[ProcessId, int]
"""The requesting process and the id of its request."""


class ReadQueue(Generic[R]):
    """Requests of one kind with who made them, oldest first; the oldest stays until it is answered."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._waiting: deque[tuple[ProcessId, R]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, peer: ProcessId, request: R) -> None:
        """Takes a request, unless it is waiting already or there is no room."""
        if (peer, request) not in self._waiting and len(self._waiting) < self._bound:
            self._waiting.append((peer, request))

    def next(self) -> R | None:
        """The oldest request; None if there is none."""
        return self._waiting[0][1] if self._waiting else None

    def answered(self) -> ProcessId:
        """Removes the oldest request; who made it."""
        return self._waiting.popleft()[0]


class AdminRequests:
    """Stops and resets that are not done yet."""

    def __init__(self) -> None:
        self.stops: list[AdminKey] = []
        self.resets: list[AdminKey] = []

    def add_stop(self, key: AdminKey) -> None:
        """The sequencer is stopping for this request."""
        if len(self.stops) < MAX_ADMIN_REQUESTS:
            self.stops.append(key)

    def add_reset(self, key: AdminKey) -> bool:
        """A reset is requested; False if this request was made before, or there is no room."""
        if key in self.resets or len(self.resets) >= MAX_ADMIN_REQUESTS:
            return False
        self.resets.append(key)
        return True

    def take_stops(self) -> list[AdminKey]:
        """The stops, which are done now."""
        stops, self.stops = self.stops, []
        return stops

    def take_resets(self) -> list[AdminKey]:
        """The resets, which are done now."""
        resets, self.resets = self.resets, []
        return resets
