"""Watches the memory that is left, since the system kills a process without a word when there is none."""

from collections.abc import Callable, Mapping

from rollup_node.node.system.memory import Memory, in_mb, is_little, read_memory
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code

EVERY_SECONDS = 10.0
SHOWN = 3


class MemoryWatch:
    """`sizes` returns the resident bytes of the node's processes by name; `read` the memory that is left."""

    def __init__(
        self, log: Logger, sizes: Callable[[], Mapping[str, int]], read: Callable[[], Memory | None] = read_memory
    ) -> None:
        self._sizes, self._read = sizes, read
        self._condition = LastingCondition(log, counts=False)
        self._due = 0.0

    def step(self, now: float) -> None:
        """Look at the memory, at most every EVERY_SECONDS. `now` is monotonic time."""
        if now < self._due:
            return
        self._due = now + EVERY_SECONDS
        memory = self._read()
        if memory is None:
            return
        fields = {"available": in_mb(memory.available), "total": in_mb(memory.total)}
        if not is_little(memory):
            self._condition.end("there is memory again", **fields)
            return
        largest = sorted(self._sizes().items(), key=lambda each: -each[1])[:SHOWN]
        shown = ", ".join(f"{name} {in_mb(size)}" for name, size in largest)
        self._condition.report(Code.MEMORY, "little memory is left", **fields, largest=shown)
