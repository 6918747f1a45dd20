"""Tasks given to workers, in one process."""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rollup_node.ipc.bus.bus import Bus, TaskFailed
from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.ipc.bus.dispatch import Send
from rollup_node.ipc.bus.testing import pumping


class Square(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    data: bytes = b""


class Product(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    data: bytes = b""


CHANNELS = (
    Channel("work.first", Pattern.WORK, "first", ("hand",), down=Square, up=Product),
    Channel("work.second", Pattern.WORK, "second", ("hand",), down=Square, up=Product),
)


def square(task: Square) -> Product:
    return Product(task.number**2, task.data[::-1])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture
def buses(tmp_path: Path) -> dict[str, Bus]:
    return Bus.for_test(CHANNELS, tmp_path, {"first": 1, "second": 1, "hand": 2})


@pytest.mark.parametrize("size", [0, 100_000, 1_000_000])
def test_all_tasks_end_with_their_own_results(buses: dict[str, Bus], size: int) -> None:
    async def scene() -> None:
        async with pumping(buses):
            pools = [buses[name].dispatch(f"work.{name}") for name in ("first", "second")]
            for pool in pools:
                pool.dispatcher.patience = math.inf
            for name in ("hand", "hand:1"):
                buses[name].work({"work.first": square, "work.second": square})
            tasks = [
                pool.run(Square(number, number.to_bytes(4, "big") * (size // 4)))
                for pool in pools
                for number in range(40)
            ]
            results = await asyncio.gather(*tasks)
            wanted = [Product(n**2, (n.to_bytes(4, "big") * (size // 4))[::-1]) for n in range(40)]
            assert results == wanted * 2

    asyncio.run(scene())
    assert not any(bus.counters["tasks_reissued"] + bus.counters["messages_void"] for bus in buses.values())


def test_a_cancelled_task_leaves_nothing(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        async with pumping(buses):
            pool = buses["first"].dispatch("work.first")
            run = asyncio.create_task(pool.run(Square(1)))
            await asyncio.sleep(0.01)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert pool.dispatcher.outstanding == 0 and not pool._futures
            buses["hand"].work({"work.first": square})
            assert await pool.run(Square(3)) == Product(9)

    asyncio.run(scene())


def test_a_task_that_kills_workers_fails_with_its_reason(buses: dict[str, Bus]) -> None:
    """The pump of a worker that meets the bad task dies, and the board shows the next incarnation."""

    async def scene() -> None:
        def work(task: Square) -> Product:
            if task.number == 13:
                raise MemoryError
            return square(task)

        pool = buses["first"].dispatch("work.first")
        dispatching = asyncio.create_task(buses["first"].run())
        bad = asyncio.create_task(pool.run(Square(13)))
        good = [asyncio.create_task(pool.run(Square(number))) for number in range(5)]
        hand, courier = buses["hand"], buses["hand"]._courier
        incarnation = 1
        while not bad.done():
            bus = Bus(CHANNELS, "hand", hand.row, incarnation, hand._rows, courier.board, {}, hand._directory)
            bus.work({"work.first": work})
            pump = asyncio.create_task(bus.run())
            await asyncio.wait({pump, bad}, return_when=asyncio.FIRST_COMPLETED)
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            incarnation += 1
            courier.board.start(hand.row, incarnation)
            bus.close()
        with pytest.raises(TaskFailed, match="3 workers died of it"):
            await bad
        assert buses["first"].counters["tasks_poisoned"] == 1
        assert incarnation == 4 or incarnation == 5
        last = Bus(CHANNELS, "hand", hand.row, incarnation, hand._rows, courier.board, {}, hand._directory)
        last.work({"work.first": work})
        pump = asyncio.create_task(last.run())
        async with asyncio.timeout(30):
            assert await asyncio.gather(*good) == [square(Square(number)) for number in range(5)]
        for task in (pump, dispatching):
            task.cancel()
        await asyncio.gather(pump, dispatching, return_exceptions=True)
        for bus in (last, *buses.values()):
            bus.close()

    asyncio.run(scene())


def test_a_result_of_the_wrong_type_is_refused_and_at_last_fails(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        async with pumping(buses):
            pool = buses["first"].dispatch("work.first")
            worker = buses["hand"].work({"work.first": square})
            (source,) = worker._sources
            source._up.encode = lambda message: b"\x91\xa6Square"  # type: ignore[method-assign]
            with pytest.raises(TaskFailed, match="3 workers died of it"):
                async with asyncio.timeout(30):
                    await pool.run(Square(1))
            assert buses["first"].counters["messages_refused"] == 3

    asyncio.run(scene())


def test_a_lost_result_is_asked_for_again(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        async with pumping(buses):
            pool = buses["first"].dispatch("work.first")
            pool.dispatcher.patience = math.inf
            worker = buses["hand"].work({"work.first": square})
            link = worker._sources[0].link
            send, lost = link.send, []

            def lossy(frames: list[bytes]) -> bool:
                if frames[1] and not lost:
                    lost.append(frames)
                    return True
                return send(frames)

            link.send = lossy  # type: ignore[method-assign]
            async with asyncio.timeout(30):
                assert await pool.run(Square(4)) == Product(16)
            assert lost and buses["first"].counters["tasks_reissued"] == 1

    asyncio.run(scene())


def test_a_lost_task_is_sent_again(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        async with pumping(buses):
            pool = buses["first"].dispatch("work.first")
            pool.dispatcher.patience = 0.3
            taken: list[Send] = []
            take = pool.dispatcher.take_sends

            def lossy() -> list[Send]:
                sends = take()
                if sends and not taken:
                    taken.extend(sends)
                    return []
                if sends:
                    pool.dispatcher.patience = math.inf
                return sends

            pool.dispatcher.take_sends = lossy  # type: ignore[method-assign]
            buses["hand"].work({"work.first": square})
            async with asyncio.timeout(30):
                assert await pool.run(Square(4)) == Product(16)
            assert taken and buses["first"].counters["tasks_reissued"] == 1

    asyncio.run(scene())


def test_a_malformed_task_fails_at_once(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        async with pumping(buses):
            pool = buses["first"].dispatch("work.first")
            buses["hand"].work({"work.first": square})
            pool._down.encode = lambda message: b"\x91\xa5Other"  # type: ignore[method-assign]
            with pytest.raises(TaskFailed, match="malformed message"):
                async with asyncio.timeout(30):
                    await pool.run(Square(1))
            assert buses["hand"].counters["messages_refused"] == 1

    asyncio.run(scene())
