"""The liveness table: a few cells for each slot of the process table, in memory that all processes share.

Each cell has one writer, so no lock is needed; any process sees a death by reading a word, without a message."""

import time

from rollup_node.ipc.shared_memory.memfd import SharedMemory

_SLOT_WORDS = 8
_INCARNATION, _LAST_BEAT, _READY, _BEATS, _STATES, _TASK_OF = range(6)


class LivenessTable:
    """Liveness of the processes in all slots.

    The supervisor writes the incarnation, the process in a slot the other cells. Created by the supervisor
    before its first fork; `fd` is the descriptor that children keep."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._memory = SharedMemory("liveness", slots * _SLOT_WORDS * 8)
        self._words = self._memory.words

    @property
    def fd(self) -> int:
        return self._memory.fd

    def close(self) -> None:
        """Unmap the table in this process."""
        self._words.release()
        self._memory.close()

    def start(self, slot: int, incarnation: int) -> None:
        """Zero all cells, then set the incarnation. For the supervisor, before it forks the slot's next process."""
        for cell in (_LAST_BEAT, _READY, _BEATS, _STATES, _TASK_OF):
            self._set(slot, cell, 0)
        self._set(slot, _INCARNATION, incarnation)

    def beat(self, slot: int) -> None:
        """Beat for the slot's own process, from its event loop, every second."""
        self._set(slot, _LAST_BEAT, time.monotonic_ns())
        self._set(slot, _BEATS, self.beats(slot) + 1)

    def set_ready(self, slot: int) -> None:
        """Note that the slot's own process has bound its sockets and runs its event loop."""
        self._set(slot, _READY, 1)

    def set_states(self, slot: int, number: int) -> None:
        """Note the number of the state that the slot's own process has sent last."""
        self._set(slot, _STATES, number)

    def set_task_of(self, slot: int, dispatcher: int | None) -> None:
        """Note the slot of the process whose task the slot's own process runs now; None for no task."""
        self._set(slot, _TASK_OF, 0 if dispatcher is None else dispatcher + 1)

    def task_of(self, slot: int) -> int | None:
        """Return the slot of the process whose task the process runs, or ran when it died; None without a task."""
        return self._get(slot, _TASK_OF) - 1 if self._get(slot, _TASK_OF) else None

    def incarnation(self, slot: int) -> int:
        """How often a process has been started in the slot."""
        return self._get(slot, _INCARNATION)

    def last_beat_ns(self, slot: int) -> int:
        """Return the time of the last heartbeat, in ns of the monotonic clock; 0 before the first."""
        return self._get(slot, _LAST_BEAT)

    def beats(self, slot: int) -> int:
        """Return the number of heartbeats since the process was started."""
        return self._get(slot, _BEATS)

    def states(self, slot: int) -> int:
        """Return the number of the state that the process has sent last; 0 before the first."""
        return self._get(slot, _STATES)

    def ready(self, slot: int) -> bool:
        return bool(self._get(slot, _READY))

    def _get(self, slot: int, cell: int) -> int:
        value: int = self._words[self._word(slot, cell)]
        return value

    def _set(self, slot: int, cell: int, value: int) -> None:
        self._words[self._word(slot, cell)] = value

    def _word(self, slot: int, cell: int) -> int:
        if not 0 <= slot < self.slots:
            raise IndexError(f"the liveness table has slots 0 to {self.slots - 1}, not {slot}")
        return slot * _SLOT_WORDS + cell
