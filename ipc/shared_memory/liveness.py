"""The board: one row of cells per process, in memory that all of them share. Every cell has one writer, so no lock
is needed; any process learns who has died by reading a word, without a message."""

import time
from enum import IntEnum

from rollup_node.ipc.shared_memory.memfd import SharedMemory

_ROW_WORDS = 8
_INCARNATION, _STATE, _BEAT, _READY, _BEATS = range(5)


class ProcessState(IntEnum):
    """What the supervisor knows of a row."""

    ABSENT = 0
    RUNNING = 1
    STOPPING = 2
    DEAD = 3


class LivenessTable:
    """Liveness of all rows. The supervisor writes incarnation and state; the process of a row its beat and ready.

    Made by the supervisor before its first fork; `fd` is the descriptor that children keep. A process that was
    not forked attaches with `LivenessTable(rows, fd)`."""

    def __init__(self, rows: int, fd: int | None = None) -> None:
        self.rows = rows
        self._memory = SharedMemory("board", rows * _ROW_WORDS * 8, fd)
        self._words = self._memory.words

    @property
    def fd(self) -> int:
        return self._memory.fd

    def close(self) -> None:
        """Unmaps the board in this process."""
        self._words.release()
        self._memory.close()

    def start(self, row: int, incarnation: int) -> None:
        """Supervisor, before it forks the row's new process: all cells zero, then the higher incarnation."""
        for cell in (_BEAT, _READY, _BEATS):
            self._set(row, cell, 0)
        self._set(row, _STATE, ProcessState.RUNNING)
        self._set(row, _INCARNATION, incarnation)

    def set_state(self, row: int, state: ProcessState) -> None:
        """Supervisor: what it now knows of the row."""
        self._set(row, _STATE, state)

    def beat(self, row: int) -> None:
        """The row's own process, from its own loop, at least every 0.5 s."""
        self._set(row, _BEAT, time.monotonic_ns())
        self._set(row, _BEATS, self.beats(row) + 1)

    def set_ready(self, row: int, ready: bool = True) -> None:
        """The row's own process: sockets are bound and the loop beats."""
        self._set(row, _READY, int(ready))

    def incarnation(self, row: int) -> int:
        """How often the row's process has been started; 0 before the first time."""
        return self._get(row, _INCARNATION)

    def state(self, row: int) -> ProcessState:
        return ProcessState(self._get(row, _STATE))

    def beat_ns(self, row: int) -> int:
        """When the process last beat, in ns of the monotonic clock; 0 when it has not yet."""
        return self._get(row, _BEAT)

    def beats(self, row: int) -> int:
        """How often the process has beaten since its start."""
        return self._get(row, _BEATS)

    def ready(self, row: int) -> bool:
        return bool(self._get(row, _READY))

    def _get(self, row: int, cell: int) -> int:
        if not 0 <= row < self.rows:
            raise IndexError(f"board has rows 0 to {self.rows - 1}, not {row}")
        value: int = self._words[row * _ROW_WORDS + cell]
        return value

    def _set(self, row: int, cell: int, value: int) -> None:
        if not 0 <= row < self.rows:
            raise IndexError(f"board has rows 0 to {self.rows - 1}, not {row}")
        self._words[row * _ROW_WORDS + cell] = value
