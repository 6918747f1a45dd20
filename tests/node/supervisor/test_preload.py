"""What is loaded before the first fork."""

import gc
import sys

import pytest

from rollup_node.node.supervisor.preload import freeze_heap, preload
from rollup_node.node.system.process_table import ProcessSpec


def test_modules_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("colorsys", "sndhdr", "wave"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec = ProcessSpec("x", "colorsys:rgb_to_hls", None, preload=("wave",))
    preload(spec)
    assert {"colorsys", "wave"} <= set(sys.modules)


def test_a_missing_module_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        preload(ProcessSpec("x", "no_such_module:build", None))


def test_the_heap_is_excluded_from_collection() -> None:
    before, kept = gc.get_freeze_count(), [[number] for number in range(1000)]
    freeze_heap()
    assert gc.get_freeze_count() - before >= len(kept)
