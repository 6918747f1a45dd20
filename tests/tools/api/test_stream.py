"""A stream ends with the loop that takes it, however that ends: nothing is left, and another one works."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

import rollup_node
from rollup_node.tools.api.stream import QUEUED, Background, Ended
from tests.support.servers.course_servers import ServedCourse
from tests.tools.api.conftest import over

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


BLOCKS = 56

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def hanging() -> Iterator[rollup_node.Derivation]:
    """Yield a derivation over endpoints that take a connection and answer nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        yield rollup_node.derive("op-sepolia", l1=url, beacon=url, l2=url, from_l2=5, timeout=None)


async def test_an_event_loop_takes_blocks(course: ServedCourse, hanging: rollup_node.Derivation) -> None:
    chain, urls = rollup_node.Chain.load(course.options[-1]), course.urls
    derivation = rollup_node.aderive(chain, l1=urls.l1, beacon=urls.beacon, from_l2=0)
    assert [block.number async for block in derivation] == list(range(1, BLOCKS + 1))
    async with rollup_node.aderive(chain, l1=urls.l1, beacon=urls.beacon, from_l2=0) as derivation:
        async for block in derivation:
            assert block.number == 1
            break
    waiting = asyncio.ensure_future(anext(aiter(hanging)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_a_loop_that_is_left_ends_the_derivation(course: ServedCourse) -> None:
    for block in over(course):
        if block.number == 2:
            break
    with contextlib.suppress(KeyError):
        for block in over(course):
            raise KeyError(block.number)
    with over(course) as derivation:
        next(derivation)
    assert list(derivation) == [] and len(list(over(course, to_l2=4))) == 4


def test_ctrl_c_ends_it_and_a_second_call_works(course: ServedCourse, hanging: rollup_node.Derivation) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        next(hanging)
    timer.join()
    assert list(hanging) == [] and len(list(over(course, to_l2=3))) == 3
