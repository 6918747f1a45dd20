"""A range of a witness: a subprocess of the node's own stages that keeps packs of what it reads."""

import os
import sys
from pathlib import Path

import msgspec

from rollup_node.node.system.exit_codes import version
from rollup_node.tools.history.range_task import RangeFailed, run_processes
from rollup_node.tools.witness.packs import PackFolder, RangeResult, range_name
from rollup_node.tools.witness.preimages import WitnessError

MAX_RANGES = 100_000


class WitnessTask(msgspec.Struct, frozen=True):
    """L2 blocks `first` + 1 to `last`.

    `packs` is the folder that all workers share, `arguments` are the options that are the same for all ranges."""

    packs: str
    first: int
    last: int
    version: str
    arguments: tuple[str, ...]


def plan_ranges(first: int, last: int, size: int) -> list[tuple[int, int]]:
    """Return the ranges of `size` blocks from safe head `first` to `last`. Raises ValueError for too many."""
    starts = range(first, last, size)
    if len(starts) > MAX_RANGES:
        raise ValueError(f"{len(starts)} ranges are more than {MAX_RANGES}: give a larger size")
    return [(start, min(start + size, last)) for start in starts]


def run_witness_range(task: WitnessTask) -> RangeResult:
    """Derive a range and keep its packs; one that is complete is not derived again. Raises RangeFailed."""
    if task.version != version():
        raise RangeFailed(f"the worker has version {version()}, the run {task.version}: install the same version")
    packs, name = PackFolder(Path(task.packs)), range_name(task.first, task.last)
    if not packs.path.is_dir():
        raise RangeFailed(f"{os.uname().nodename} does not see the folder {task.packs}: all workers need it")
    what = f"the range {task.first} to {task.last}"
    try:
        if not packs.has(name):
            flags = ["--from-l2", str(task.first), "--to-l2", str(task.last), "--packs", task.packs]
            flags += ["--parent", str(os.getpid())]
            command = [sys.executable, "-m", "rollup_node", "witness", "range", *flags, *task.arguments]
            run_processes(lambda: command, packs.path / name)
        return packs.get(name, RangeResult, what)
    except OSError as error:
        raise RangeFailed(f"its packs cannot be read: {error.strerror}") from None
    except WitnessError as error:
        raise RangeFailed(str(error)) from None
