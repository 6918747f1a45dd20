"""What the kernel tells about a process (Linux /proc)."""

import os
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessStat(NamedTuple):
    """`state` is the letter of proc(5); `cpu` is user and system time in seconds, `start_ticks` the start in clock
    ticks after boot (with the pid it names a process for good), `resident` the resident memory in bytes."""

    state: str
    cpu: float
    start_ticks: int
    resident: int


def read_stat(pid: int) -> ProcessStat | None:
    """The process's present figures, or None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return ProcessStat(
        fields[0].decode(), (int(fields[11]) + int(fields[12])) / _TICK, int(fields[19]), int(fields[21]) * _PAGE
    )


def thread_count() -> int:
    """The threads of this process."""
    return len(os.listdir("/proc/self/task"))
