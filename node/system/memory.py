"""The memory that is left, and its watch: the system kills a process without a word when there is none."""

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from rollup_node.node.system.limits import CGROUPS, OWN_CGROUP, group_folders, read_text
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import megabytes

MEMINFO = Path("/proc/meminfo")


class Memory(NamedTuple):
    """Bytes."""

    total: int
    available: int


def read_memory(meminfo: Path = MEMINFO, cgroups: Path = CGROUPS, own: Path = OWN_CGROUP) -> Memory | None:
    """Return the memory of the machine or of the control group, whichever has less left.

    None where the system does not say it. A group's limit counts with those of the groups that it is in; what it
    keeps of files can be freed."""
    folders = group_folders("memory", cgroups, own)
    result = [item for item in (_machine(meminfo), *map(_group, folders)) if item is not None]
    return min(result, key=lambda memory: memory.available, default=None)


def _numbers(text: str) -> dict[str, int]:
    """Return the lines of a name, a number and perhaps a unit."""
    words = (line.replace(":", " ").split() for line in text.splitlines())
    return {word[0]: int(word[1]) for word in words if len(word) >= 2 and word[1].isdigit()}


def _machine(path: Path) -> Memory | None:
    result = _numbers(read_text(path))
    if "MemTotal" not in result or "MemAvailable" not in result:
        return None
    return Memory(result["MemTotal"] << 10, result["MemAvailable"] << 10)


def _group(path: Path) -> Memory | None:
    """Return what a control group of version 2 or 1 has."""
    limit = read_text(path / "memory.max") or read_text(path / "memory.limit_in_bytes")
    used = read_text(path / "memory.current") or read_text(path / "memory.usage_in_bytes")
    if not limit.strip().isdigit() or not used.strip().isdigit():
        return None
    numbers = _numbers(read_text(path / "memory.stat"))
    freeable = numbers.get("total_inactive_file", numbers.get("inactive_file", 0))
    return Memory(int(limit), max(0, int(limit) - int(used) + freeable))


_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def trim_heap() -> None:
    """Give the free pages of this process's heap back, as far as the C library can: large values leave many."""
    if _trim is not None:
        _trim(0)


def is_little(memory: Memory) -> bool:
    """Whether so little is left that the system may soon kill a process."""
    return memory.available < min(memory.total // 20, 512 << 20)


def in_mb(size: int) -> str:
    """Bytes as megabytes."""
    return f"{size / 1e6:.0f} MB"


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
        fields = megabytes("available", memory.available) | megabytes("total", memory.total)
        if not is_little(memory):
            self._condition.end("there is memory again", **fields)
            return
        largest = sorted(self._sizes().items(), key=lambda item: -item[1])[:SHOWN]
        shown = ", ".join(f"{name} {in_mb(size)}" for name, size in largest)
        self._condition.report(Code.MEMORY, "little memory is left", **fields, largest=shown)
