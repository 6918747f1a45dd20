"""A stream ends with the loop that takes it, however that ends: nothing is left, and another one works."""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import pytest

import rollup_node
from rollup_node.tools.api import stream
from rollup_node.tools.api.stream import QUEUED, Background, Ended, ProgressBar

Emit = Callable[[int], Awaitable[None]]


class Counting:
    """Emits numbers up to `last`, without end for None; `emitted` counts them."""

    def __init__(self, last: int | None, error: Exception | None = None) -> None:
        self.emitted, self.closed = 0, False
        self._last, self._error = last, error

    async def main(self, emit: Emit) -> None:
        try:
            while self._last is None or self.emitted < self._last:
                await emit(self.emitted)
                self.emitted += 1
            if self._error is not None:
                raise self._error
        finally:
            self.closed = True


def _drain(background: Background[int]) -> tuple[list[int], BaseException | None]:
    taken: list[int] = []
    while not isinstance(result := background.take(), Ended):
        taken.append(result)
    return taken, result.error


@pytest.mark.parametrize("error", [None, ValueError("no more")])
def test_results_come_in_order_and_then_the_end(error: Exception | None) -> None:
    background = Background(Counting(3 * QUEUED, error).main)
    background.start()
    assert _drain(background) == (list(range(3 * QUEUED)), error)
    background.stop()


def test_what_nobody_takes_is_bounded() -> None:
    counting = Counting(None)
    background = Background(counting.main)
    background.start()
    assert [background.take() for _ in range(5)] == list(range(5))
    background.stop()
    assert counting.emitted <= QUEUED + 5 and counting.closed
    assert not any(thread.name == "rollup_node" for thread in threading.enumerate())
    background.stop()


def test_one_that_was_never_started_ends_at_once() -> None:
    Background(Counting(1).main).stop()


async def test_an_event_loop_is_not_blocked() -> None:
    """Nothing comes before another task of the loop has had its turn."""
    counting, turned = Counting(2 * QUEUED), threading.Event()

    async def main(emit: Emit) -> None:
        await asyncio.to_thread(turned.wait, 30)
        await counting.main(emit)

    background = Background(main)
    background.start()
    asyncio.get_running_loop().call_later(0.05, turned.set)
    async with asyncio.timeout(20):
        taken = [await background.take_async() for _ in range(2 * QUEUED)]
    assert taken == list(range(2 * QUEUED)) and await background.take_async() == Ended(None)
    background.stop()


pytestmark = pytest.mark.usefixtures("nothing_is_left")


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


@pytest.fixture
def tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace tqdm by a recorder, and find it installed."""
    module = ModuleType("tqdm")
    module.tqdm = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm", module)
    monkeypatch.setattr(stream, "find_spec", lambda name: module)
    bars.clear()


@pytest.mark.parametrize(
    ("is_notebook", "wanted", "count"),
    [(True, None, 1), (True, False, 0), (False, None, 0), (False, True, 1)],
)
@pytest.mark.usefixtures("tqdm")
def test_a_bar_counts_the_blocks_of_the_range(
    is_notebook: bool, wanted: bool | None, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook has one by default."""
    notebook = ModuleType("IPython")
    notebook.get_ipython = type("ZMQInteractiveShell" if is_notebook else "TerminalInteractiveShell", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    bar = ProgressBar(wanted, 10, 15)
    for number in (11, 12, 15):
        bar.update(number)
    bar.close()
    assert [(shown.arguments["total"], shown.count, shown.closed) for shown in bars] == [(5, 5, True)] * count


def test_a_bar_that_is_wanted_needs_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(rollup_node.InputError, match="needs the package tqdm"):
        ProgressBar(True, 0, 9)
