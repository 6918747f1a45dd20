"""An entry of `processes.json`, in which the supervisor lists the processes of the node."""

import msgspec


class ProcessEntry(msgspec.Struct, frozen=True):
    """One process in processes.json.

    `started` is in Unix seconds; `start_ticks` is the kernel's start time, which distinguishes a process from a
    later one with its pid."""

    role: str
    copy: int
    pid: int
    incarnation: int
    started: float
    start_ticks: int
