"""Turns on the event loop."""

import asyncio
from itertools import pairwise

from rollup_node.stages.rpc.process.turns import Turns


def test_nobody_waits_alone() -> None:
    async def main() -> None:
        turns = Turns(1)
        coroutine = turns.turn("a")
        try:
            coroutine.send(None)
        except StopIteration:
            return
        raise AssertionError("it waited")

    asyncio.run(main())


def test_keys_take_turns_one_per_iteration() -> None:
    async def main() -> None:
        turns = Turns(1)
        order: list[str] = []

        async def work(name: str) -> None:
            await turns.turn(name[0])
            order.append(name)

        names = ("a1", "a2", "a3", "b1")
        tasks = [asyncio.create_task(work(name)) for name in names]
        progress = []
        while len(order) < len(names):
            await asyncio.sleep(0)
            progress.append(len(order))
        assert order == ["a1", "a2", "b1", "a3"]
        assert all(later - earlier <= 1 for earlier, later in pairwise(progress))
        await asyncio.gather(*tasks)
        await asyncio.sleep(0)
        await asyncio.wait_for(turns.turn("a"), 1)

    asyncio.run(main())


def test_urgent_ones_of_a_key_come_first() -> None:
    async def main() -> None:
        turns = Turns(1)
        order: list[str] = []

        async def work(name: str, urgent: bool) -> None:
            await turns.turn("a", urgent=urgent)
            order.append(name)

        await asyncio.gather(work("free", False), work("later", False), work("first", True), work("second", True))
        assert order == ["free", "first", "second", "later"]

    asyncio.run(main())


def test_the_turn_of_one_that_is_cancelled_goes_to_the_next() -> None:
    async def main() -> None:
        turns = Turns(1)
        await turns.turn("a")
        first, cancelled, waiting = (asyncio.create_task(turns.turn("a")) for _ in range(3))
        await asyncio.sleep(0)
        cancelled.cancel()
        async with asyncio.timeout(5):
            await waiting
        assert first.done() and cancelled.cancelled()

    asyncio.run(main())
