"""What the kernel reports of a process (Linux /proc)."""

import os
import re
from contextlib import suppress
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PSS = re.compile(rb"^Pss: +([0-9]+) kB", re.MULTILINE)


class ProcessStat(NamedTuple):
    """`state` is the letter of proc(5).

    `cpu` is user and system time in seconds; `start_ticks` is the start in clock ticks after boot, which with the
    pid identifies a process; `resident` is the resident memory in bytes; `major_faults` counts the page faults that
    had to wait for a disk."""

    state: str
    cpu: float
    start_ticks: int
    resident: int
    major_faults: int


class Waiting(NamedTuple):
    """How long a process has waited for CPU time.

    `runnable`: a thread wants a CPU now; `run_delay`: the seconds that its present threads were runnable without
    running, up to their last run; 0 on a kernel that does not count them."""

    runnable: bool
    run_delay: float


def read_stat(pid: int) -> ProcessStat | None:
    """Return the present figures of a process, or None when there is none."""
    text = _read(f"/proc/{pid}/stat")
    if not text:
        return None
    # The second field is the name in parentheses, which may itself contain spaces and parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    return ProcessStat(
        state=fields[0].decode(),
        cpu=(int(fields[11]) + int(fields[12])) / _TICK,
        start_ticks=int(fields[19]),
        resident=int(fields[21]) * _PAGE,
        major_faults=int(fields[9]),
    )


def read_proportional_memory(pid: int) -> int | None:
    """Return the memory of a process in bytes, with its share of shared pages (PSS); None if that cannot be read."""
    result = _PSS.search(_read(f"/proc/{pid}/smaps_rollup"))
    return int(result[1]) * 1024 if result else None


def read_waiting(pid: int) -> Waiting:
    """How long a process has waited for CPU time, over all its threads; nothing if there is no such process."""
    runnable, delay = False, 0
    for thread in _names(f"/proc/{pid}/task"):
        stat = _read(f"/proc/{pid}/task/{thread}/stat")
        runnable |= stat[stat.rfind(b")") + 2 :][:1] == b"R"
        # CPU time, time on the run queue in ns, and time slices.
        fields = _read(f"/proc/{pid}/task/{thread}/schedstat").split()
        delay += int(fields[1]) if len(fields) == 3 else 0
    return Waiting(runnable, delay / 1e9)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def user_of(pid: int) -> int:
    """Return the effective user of a process. Raises OSError when there is none."""
    return os.stat(f"/proc/{pid}").st_uid


def thread_count() -> int:
    """Return the number of threads of this process."""
    return len(os.listdir("/proc/self/task"))


def task_count(user: int) -> int:
    """Return the number of threads of all processes of a user that this process sees."""
    count = 0
    for pid in filter(str.isdigit, _names("/proc")):
        with suppress(OSError):
            count += len(_names(f"/proc/{pid}/task")) if user_of(int(pid)) == user else 0
    return count
