"""What the supervisor imports before it forks, so that all children share it and a restart is a bare fork."""

import gc
import importlib

from rollup_node.node.system.process_table import ProcessSpec


def preload(spec: ProcessSpec) -> None:
    """Import the modules of a process; repeating it is cheap."""
    gc.disable()
    try:
        for module in (*spec.preload, spec.build.partition(":")[0]):
            importlib.import_module(module)
    finally:
        freeze_heap()


def freeze_heap() -> None:
    """Excludes all present objects from garbage collection: pages that it does not write stay shared with children.

    Collection is enabled after this: imports make much that lives and little garbage, so they run without."""
    gc.collect()
    gc.freeze()
    gc.enable()
