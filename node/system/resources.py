"""What control groups, the machine and the user leave the node: CPU time, processes, threads, memory.

Memory is watched: the system kills a process without a word when there is none."""

import ctypes
import math
import os
import resource
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.procfs import task_count
from rollup_node.stages.io.log.lasting_conditions import LastingCondition
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import megabytes

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
MAX_FILE = 1 << 16

OWN_TASKS = 8
"""The supervisor, its sweeper and its precheck, with the threads of the last."""

TASKS_PER_PROCESS = 4
"""Its main thread, two of ZeroMQ, and one for calls that block."""
MEMINFO = Path("/proc/meminfo")
MEMORY_LOOK_SECONDS = 10.0
LARGEST_SHOWN = 3


def read_text(path: Path) -> str:
    """Return the text of a small file of the system, empty where there is none."""
    with suppress(OSError, UnicodeDecodeError), path.open("rb") as file:
        return file.read(MAX_FILE).decode("ascii")
    return ""


def group_folders(controller: str, root: Path = CGROUPS, own: Path = OWN_CGROUP) -> list[Path]:
    """Return the folders of the control groups of this process for a controller, from its own up to the root.

    Those of version 2 come before those of version 1. In a container the root is often the group itself."""
    result: list[Path] = []
    for line in read_text(own).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        tops = [root, root / "unified"] if number == "0" else [root / controller, root / controllers]
        if number != "0" and controller not in controllers.split(","):
            continue
        for top in dict.fromkeys(tops):
            path = top if ".." in name else top / name.lstrip("/")
            result += [folder for folder in (path, *path.parents) if folder == top or top in folder.parents]
    return result


def _number(path: Path) -> int | None:
    text = read_text(path).strip()
    return int(text) if text.isdigit() else None


def cpu_quota(root: Path = CGROUPS, own: Path = OWN_CGROUP) -> float | None:
    """Return the cores whose time the control groups allow, None without a quota."""
    return min(filter(None, map(_quota, group_folders("cpu", root, own))), default=None)


def _quota(folder: Path) -> float | None:
    quota, period = (read_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    if text := read_text(folder / "cpu.max"):
        quota, _, period = text.strip().partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def usable_cores(root: Path = CGROUPS, own: Path = OWN_CGROUP) -> int:
    """Return the cores that this process may use at once, by its affinity and by the quota, rounded up.

    A quota below 2 counts as 2, as in Go since 1.25."""
    quota = cpu_quota(root, own)
    cores = len(os.sched_getaffinity(0))
    return cores if quota is None else min(cores, max(2, math.ceil(quota)))


def free_tasks(root: Path = CGROUPS, own: Path = OWN_CGROUP) -> int | None:
    """Return how many processes and threads more are allowed, None without a limit."""
    limits = []
    for folder in group_folders("pids", root, own):
        most, used = _number(folder / "pids.max"), _number(folder / "pids.current")
        if most is not None and used is not None:
            limits.append(most - used)
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    # It does not hold for root.
    if most != resource.RLIM_INFINITY and os.geteuid() != 0:
        limits.append(most - task_count(os.getuid()))
    return max(0, min(limits)) if limits else None


def task_limit_text(processes: int, free: int | None) -> tuple[str, bool]:
    """Return what a node of so many processes needs, and whether that is too much."""
    needed = OWN_TASKS + TASKS_PER_PROCESS * processes
    left = "there is no limit" if free is None else f"the limit leaves {free}"
    return f"the node needs {needed} processes and threads, and {left}", free is not None and free < needed


def check_task_limit(processes: int, free: int | None) -> None:
    """Raise SetupError when too few processes and threads are allowed: ZeroMQ aborts without its threads."""
    text, is_too_much = task_limit_text(processes, free)
    if is_too_much:
        raise SetupError(f"{text}: {Code.HOST_LIMIT.remedy}")


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


class MemoryWatch:
    """`sizes` returns the resident bytes of the node's processes by name; `read` the memory that is left."""

    def __init__(
        self, log: Logger, sizes: Callable[[], Mapping[str, int]], read: Callable[[], Memory | None] = read_memory
    ) -> None:
        self._sizes, self._read = sizes, read
        self._condition = LastingCondition(log, counts=False)
        self._due = 0.0

    def step(self, now: float) -> None:
        """Look at the memory, at most every MEMORY_LOOK_SECONDS. `now` is monotonic time."""
        if now < self._due:
            return
        self._due = now + MEMORY_LOOK_SECONDS
        memory = self._read()
        if memory is None:
            return
        fields = megabytes("available", memory.available) | megabytes("total", memory.total)
        if not is_little(memory):
            self._condition.end("there is memory again", **fields)
            return
        largest = sorted(self._sizes().items(), key=lambda item: -item[1])[:LARGEST_SHOWN]
        shown = ", ".join(f"{name} {in_mb(size)}" for name, size in largest)
        self._condition.report(Code.MEMORY, "little memory is left", **fields, largest=shown)
