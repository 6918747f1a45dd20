"""Event loops whose clock stands still while anything runs: pauses take no time and last exactly as long as asked for,
whatever else the machine does. For tests without sockets and without other threads."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Does not wait, but adds up how long it was asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "every task waits for another"
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is the sum of all pauses, from 0."""

    def __init__(self) -> None:
        self._pauses = _Selector()
        super().__init__(self._pauses)

    def time(self) -> float:
        return self._pauses.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
