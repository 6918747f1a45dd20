"""A stream ends with the loop that takes it, however that ends: nothing is left, and another one works."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

import rollup_node
from rollup_node.tools.api import background, run
from tests.support.servers.course_servers import ServedCourse
from tests.tools.api.conftest import over

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


def test_what_is_not_taken_is_bounded(course: ServedCourse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "QUEUED", 3)
    derivation = over(course)
    next(derivation)
    emitted = threading.Event()
    while not emitted.wait(0.01):
        if derivation._background._results.qsize() >= 3:
            emitted.set()
    assert derivation._background._results.qsize() <= 4
    assert len(list(derivation)) == BLOCKS - 1


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


def test_a_bug_in_the_thread_is_raised_as_it_is(course: ServedCourse, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*arguments: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(run, "run_stages", fails)
    with pytest.raises(ZeroDivisionError):
        list(over(course))
