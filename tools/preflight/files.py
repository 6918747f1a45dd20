"""Checks of the directories in which the node keeps files, without making any, and of the machine's memory."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from rollup_node.node.checks.finding import Finding, error, not_checked, ok, warning
from rollup_node.node.system.memory import Memory, in_mb, is_little, read_memory
from rollup_node.stages.messages.codes import Code

LITTLE = 1 << 30
"""Bytes: databases of peers and of safe heads grow by some hundred megabytes a year."""

TOO_LITTLE = 64 << 20


def check_files(paths: Mapping[str, str]) -> list[Finding]:
    """Whether each file can be written, or made with the directories above it, and the room on its disk.

    Paths by their options. Disks are reported once."""
    found: list[Finding] = []
    disks: set[int] = set()
    for option, text in paths.items():
        path = Path(text).absolute()
        there = next(each for each in (path, *path.parents) if each.exists())
        found.append(_writable(f"--{option}", path, there))
        disk = there.stat().st_dev
        if disk not in disks:
            disks.add(disk)
            found.append(_room(f"disk of --{option}", there))
    return found


def _writable(check: str, path: Path, there: Path) -> Finding:
    if there != path and not there.is_dir():
        return error(check, Code.DIRECTORY, f"{path} cannot be made: {there} is no directory")
    wanted = os.W_OK | os.X_OK if there.is_dir() else os.W_OK
    if not os.access(there, wanted):
        return error(check, Code.DIRECTORY, f"{there} cannot be written")
    return ok(check, f"{path} can be {'written' if there == path else 'made'}")


def _room(check: str, there: Path) -> Finding:
    free = shutil.disk_usage(there).free
    text = f"{free / (1 << 30):.1f} GiB free at {there}"
    if free < TOO_LITTLE:
        return error(check, Code.DISK, text)
    return warning(check, Code.DISK, text) if free < LITTLE else ok(check, text)


CHECK = "memory"


def check_memory(read: Callable[[], Memory | None] = read_memory) -> Finding:
    """Return the finding for the memory that is left."""
    memory = read()
    if memory is None:
        return not_checked(CHECK, "the system does not say how much there is")
    text = f"{in_mb(memory.available)} of {in_mb(memory.total)} are left"
    return warning(CHECK, Code.MEMORY, text) if is_little(memory) else ok(CHECK, text)
