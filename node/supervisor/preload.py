"""What the supervisor loads before it forks, so that all children share it and a restart is a bare fork."""

import gc
import importlib

from rollup_node.node.system.processes import Row


def prepare(row: Row) -> None:
    """Imports the modules of a row and runs its preparation; again it costs nothing."""
    for module in (*row.preload, row.build.partition(":")[0]):
        importlib.import_module(module)
    if row.prepare is not None:
        row.prepare()
    settle()


def settle() -> None:
    """Takes what there is out of the collector's sight: memory that it does not touch stays shared with children."""
    gc.collect()
    gc.freeze()
