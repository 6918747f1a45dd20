"""When a bar is shown, and what it counts."""

import sys
from types import ModuleType
from typing import Any

import pytest

import rollup_node
from rollup_node.tools.api import progress
from rollup_node.tools.api.progress import ProgressBar, in_notebook


class Bar:
    """Records what tqdm is told."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments, self.count, self.closed = arguments, 0, False
        bars.append(self)

    def update(self, count: int) -> None:
        self.count += count

    def close(self) -> None:
        self.closed = True


bars: list[Bar] = []


@pytest.fixture(autouse=True)
def tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace tqdm by a recorder, and find it installed."""
    module = ModuleType("tqdm")
    module.tqdm = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm", module)
    monkeypatch.setattr(progress, "find_spec", lambda name: module)
    bars.clear()


def test_a_bar_counts_the_blocks_of_the_range() -> None:
    bar = ProgressBar(True, 10, 15)
    for number in (11, 12, 15):
        bar.update(number)
    bar.close()
    (shown,) = bars
    assert (shown.arguments["total"], shown.count, shown.closed) == (5, 5, True)


@pytest.mark.parametrize(("wanted", "count"), [(None, 1), (False, 0), (True, 1)])
def test_a_notebook_has_one_by_default(wanted: bool | None, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = type("ZMQInteractiveShell", (), {})()
    notebook = ModuleType("IPython")
    notebook.get_ipython = lambda: shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert in_notebook()
    ProgressBar(wanted, 0, None).update(3)
    assert len(bars) == count


def test_a_program_has_none_by_default() -> None:
    assert not in_notebook()
    ProgressBar(None, 0, 9).close()
    assert bars == []


def test_one_that_is_wanted_needs_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(rollup_node.InputError, match="needs the package tqdm"):
        ProgressBar(True, 0, 9)
