"""Tasks run by workers, through sockets and arenas, in one process."""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.ipc.bus.bus import Bus, ProcessId, TaskFailed
from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.tools.bench.in_process import in_process_buses, running_buses
from tests.ipc.messages import CHANNELS, OTHER_WORK, WORK, EchoRequest, EchoResponse, SquareResult, SquareTask, square

WORKER_SLOT = 2
SLOTS = {("server", ""): [0], ("other", ""): [1], ("worker", ""): [2, 3]}


@pytest.fixture
def buses(tmp_path: Path) -> dict[str, Bus]:
    return in_process_buses(CHANNELS, tmp_path, {role: len(slots) for (role, _), slots in SLOTS.items()})


@pytest.mark.parametrize("size", [0, 100_000, 1_000_000])
async def test_all_tasks_end_with_their_own_results(buses: dict[str, Bus], size: int) -> None:
    async with running_buses(buses):
        dispatchers = [buses["server"].dispatch(WORK), buses["other"].dispatch(OTHER_WORK)]
        for dispatcher in dispatchers:
            dispatcher.scheduler.report_timeout = math.inf
        for name in ("worker", "worker:1"):
            buses[name].work({WORK: square, OTHER_WORK: square})
        tasks = [SquareTask(number, number.to_bytes(4, "big") * (size // 4)) for number in range(40)]
        results = await asyncio.gather(*(dispatcher.run(task) for dispatcher in dispatchers for task in tasks))
        assert results == [square(task) for task in tasks] * 2
    assert not any(bus.counters["tasks_reissued"] + bus.counters["messages_void"] for bus in buses.values())


async def test_a_cancelled_task_leaves_nothing(buses: dict[str, Bus]) -> None:
    async with running_buses(buses):
        dispatcher = buses["server"].dispatch(WORK)
        run = asyncio.create_task(dispatcher.run(SquareTask(1)))
        await asyncio.sleep(0.01)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert dispatcher.scheduler.outstanding == 0 and not dispatcher._futures
        buses["worker"].work({WORK: square})
        assert await dispatcher.run(SquareTask(3)) == SquareResult(9)


async def test_a_task_that_kills_workers_fails_with_its_reason(buses: dict[str, Bus], tmp_path: Path) -> None:
    """The pump of the worker that runs the bad task dies, and the liveness table shows its successor."""
    transport = buses["worker"].transport

    def handle(task: SquareTask) -> SquareResult:
        if task.number == 13:
            raise MemoryError
        return square(task)

    def worker_bus(incarnation: int) -> Bus:
        process_id = ProcessId(WORKER_SLOT, incarnation)
        bus = Bus(CHANNELS, "worker", process_id, SLOTS, transport.liveness, {}, tmp_path)
        bus.work({WORK: handle})
        return bus

    dispatcher = buses["server"].dispatch(WORK)
    dispatching = asyncio.create_task(buses["server"].run())
    bad = asyncio.create_task(dispatcher.run(SquareTask(13)))
    good = [asyncio.create_task(dispatcher.run(SquareTask(number))) for number in range(5)]
    incarnation = 1
    while not bad.done():
        bus = worker_bus(incarnation)
        pump = asyncio.create_task(bus.run())
        await asyncio.wait({pump, bad}, return_when=asyncio.FIRST_COMPLETED)
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)
        incarnation += 1
        transport.liveness.start(WORKER_SLOT, incarnation)
        bus.close()
    with pytest.raises(TaskFailed, match="3 workers died of it"):
        await bad
    assert buses["server"].counters["tasks_poisoned"] == 1
    assert incarnation in (4, 5)
    last = worker_bus(incarnation)
    pump = asyncio.create_task(last.run())
    async with asyncio.timeout(30):
        assert await asyncio.gather(*good) == [square(SquareTask(number)) for number in range(5)]
    for task in (pump, dispatching):
        task.cancel()
    await asyncio.gather(pump, dispatching, return_exceptions=True)
    for bus in (last, *buses.values()):
        bus.close()


async def run_malformed(
    directory: Path, worker_channel: Channel, handler: Callable[..., object], match: str
) -> dict[str, Bus]:
    """Run a task, which must fail, between processes that declare the channel differently; the buses."""
    buses = in_process_buses(CHANNELS, directory, {"server": 1, "worker": 1})
    liveness = buses["worker"].transport.liveness
    worker = Bus((worker_channel,), "worker", ProcessId(1, 1), {("server", ""): [0]}, liveness, {}, directory)
    buses = {"server": buses["server"], "unused": buses["worker"], "worker": worker}
    async with running_buses(buses):
        dispatcher = buses["server"].dispatch(WORK)
        worker.work({WORK: handler})
        with pytest.raises(TaskFailed, match=match):
            await dispatcher.run(SquareTask(1))
    return buses


async def test_a_malformed_result_is_rejected_and_fails_the_task_in_the_end(tmp_path: Path) -> None:
    other = Channel(WORK, Pattern.WORK, "server", ("worker",), down=SquareTask, up=EchoResponse)
    buses = await run_malformed(tmp_path, other, lambda task: EchoResponse(task.number), "3 workers died of it")
    assert buses["server"].counters["messages_refused"] == 3


async def test_a_malformed_task_fails_at_once(tmp_path: Path) -> None:
    other = Channel(WORK, Pattern.WORK, "server", ("worker",), down=EchoRequest, up=SquareResult)
    buses = await run_malformed(tmp_path, other, square, "malformed message")
    assert buses["worker"].counters["messages_refused"] == 1


async def test_a_lost_result_is_computed_again(buses: dict[str, Bus], monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_buses(buses):
        dispatcher = buses["server"].dispatch(WORK)
        dispatcher.scheduler.report_timeout = math.inf
        (socket,) = buses["worker"].work({WORK: square}).sockets
        send, lost = socket.send, list[list[bytes]]()

        def lossy(frames: list[bytes]) -> bool:
            if frames[1] and not lost:
                lost.append(frames)
                return True
            return send(frames)

        monkeypatch.setattr(socket, "send", lossy)
        assert await dispatcher.run(SquareTask(4)) == SquareResult(16)
        assert lost and buses["server"].counters["tasks_reissued"] == 1
