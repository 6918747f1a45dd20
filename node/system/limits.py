"""What the control groups and the user of this process leave it: CPU time, processes and threads."""

import math
import os
import resource
from contextlib import suppress
from pathlib import Path

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.node.system.procfs import task_count
from rollup_node.stages.messages.codes import Code

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
MAX_FILE = 1 << 16

OWN_TASKS = 8
"""The supervisor, its sweeper and its precheck, with the threads of the last."""

TASKS_PER_PROCESS = 4
"""Its main thread, two of ZeroMQ, and one for calls that block."""


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
