"""What the kernel reports of a process (Linux /proc)."""

import os
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessStat(NamedTuple):
    """`state` is the letter of proc(5); `cpu` is user and system time in seconds; `start_ticks` is the start in clock
    ticks after boot, which with the pid identifies a process; `resident` is the resident memory in bytes."""

    state: str
    cpu: float
    start_ticks: int
    resident: int


def read_stat(pid: int) -> ProcessStat | None:
    """The present figures of a process, or None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The second field is the name in parentheses, which may itself contain spaces and parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    return ProcessStat(
        fields[0].decode(), (int(fields[11]) + int(fields[12])) / _TICK, int(fields[19]), int(fields[21]) * _PAGE
    )


def user_of(pid: int) -> int:
    """The effective user of a process. Raises OSError when there is none."""
    return os.stat(f"/proc/{pid}").st_uid


def thread_count() -> int:
    """The number of threads of this process."""
    return len(os.listdir("/proc/self/task"))
