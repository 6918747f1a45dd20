"""Decoding elsewhere: ahead of need, on demand, and here when nobody else can."""

import asyncio
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from rollup_node.ipc.bus.task_dispatcher import TaskFailed
from rollup_node.stages.derivation.codec.span_batch import SpanRules
from rollup_node.stages.derivation.pipeline.channel_reader import need_of
from rollup_node.stages.derivation.pipeline.outputs import NeedDecoded
from rollup_node.stages.derivation.process.decoding_client import MAX_AHEAD, Decoding
from rollup_node.stages.derivation.tasks import DecodedChannel, run
from rollup_node.stages.protocol.forks.rules import L1Rules


def _need(number: int) -> NeedDecoded:
    return need_of(zlib.compress(b"\x83abc" * number), L1Rules(), SpanRules(1, 1, 2))


class Pool:
    """Runs tasks when it is let, or fails them."""

    def __init__(self, fails: bool = False) -> None:
        self.gate = asyncio.Event()
        self.started: list[Any] = []
        self._fails = fails

    async def run(self, task: Any) -> DecodedChannel:
        self.started.append(task)
        await self.gate.wait()
        if self._fails:
            raise TaskFailed("3 workers died of it")
        return run(task)


async def _result(decoding: Decoding, need: NeedDecoded) -> DecodedChannel:
    async with asyncio.timeout(30):
        while (result := decoding.result(need)) is None:
            await asyncio.sleep(0.005)
    return result


def _play(scene: Callable[[Pool, Decoding], Any], fails: bool = False) -> None:
    async def play() -> None:
        pool = Pool(fails)
        decoding = Decoding(pool, lambda: None)  # type: ignore[arg-type]
        await scene(pool, decoding)
        await decoding.close()

    asyncio.run(play())


def test_what_was_asked_for_ahead_is_not_asked_for_again() -> None:
    async def scene(pool: Pool, decoding: Decoding) -> None:
        decoding.ahead(_need(1))
        pool.gate.set()
        assert await _result(decoding, _need(1)) == run(_need(1).task)
        assert len(pool.started) == 1

    _play(scene)


def test_only_some_are_begun_ahead_and_a_need_goes_first() -> None:
    async def scene(pool: Pool, decoding: Decoding) -> None:
        for number in range(MAX_AHEAD + 5):
            decoding.ahead(_need(number))
        await asyncio.sleep(0)
        last = _need(MAX_AHEAD + 4)
        assert decoding.result(last) is None
        await asyncio.sleep(0)
        assert len(pool.started) == MAX_AHEAD + 1
        pool.gate.set()
        assert await _result(decoding, last) == run(last.task)
        for number in range(MAX_AHEAD + 5):
            await _result(decoding, _need(number))
        assert len(pool.started) == MAX_AHEAD + 5

    _play(scene)


def test_what_was_foreseen_can_be_forgotten() -> None:
    async def scene(pool: Pool, decoding: Decoding) -> None:
        for number in range(MAX_AHEAD + 5):
            decoding.ahead(_need(number))
        decoding.forget_queue()
        pool.gate.set()
        for number in range(MAX_AHEAD):
            await _result(decoding, _need(number))
        await asyncio.sleep(0.05)
        assert len(pool.started) == MAX_AHEAD

    _play(scene)


def test_a_channel_that_workers_fail_at_is_decoded_here() -> None:
    async def scene(pool: Pool, decoding: Decoding) -> None:
        pool.gate.set()
        assert await _result(decoding, _need(3)) == run(_need(3).task)

    _play(scene, fails=True)


@pytest.mark.parametrize("number", [1, 2])
def test_without_a_pool_channels_are_decoded_at_once(number: int) -> None:
    decoding = Decoding(None, lambda: None)
    decoding.ahead(_need(number))
    assert decoding.result(_need(number)) == run(_need(number).task)
