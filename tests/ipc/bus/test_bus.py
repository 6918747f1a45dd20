"""The bus: which channels a role may use, what happens to errors, and what is left behind."""

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.ipc.bus.transport import COUNTERS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.ipc.messages import CHANNELS, ECHO, STATE, WORK, EchoRequest, EchoResponse, HeadState, SquareTask, square
from tests.support.timing.conditions import until


@pytest.fixture
def buses(tmp_path: Path) -> Iterator[dict[str, Bus]]:
    buses = in_process_buses(CHANNELS, tmp_path, {"server": 1, "client": 1})
    yield buses
    for bus in buses.values():
        bus.close()


def test_an_exception_of_a_handler_ends_the_pump(buses: dict[str, Bus]) -> None:
    received: list[EchoRequest] = []

    def divide(client: ProcessId, message: EchoRequest) -> None:
        received.append(message)
        1 // message.number

    async def scene() -> None:
        async with running_buses(buses):
            buses["server"].serve(ECHO, divide)
            buses["client"].connect(ECHO, lambda message: None).send(EchoRequest(0))
            await until(lambda: received)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(scene())


def test_the_channel_table_decides_who_may_do_what(buses: dict[str, Bus]) -> None:
    def ignore(*_: object) -> None:
        return

    server, client = buses["server"], buses["client"]
    for wrong, message in (
        (lambda: client.serve(ECHO, ignore), "client does not serve channel server.echo"),
        (lambda: server.connect(ECHO, ignore), "server does not use channel server.echo"),
        (lambda: client.connect(STATE, ignore), "no request channel server.state"),
        (lambda: server.publish(ECHO), "no status channel server.echo"),
        (lambda: client.subscribe("nowhere", ignore), "no status channel nowhere"),
        (lambda: client.work({WORK: ignore}), "client does not use channel server.work"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


def test_a_process_that_the_node_does_not_run_serves_nothing(tmp_path: Path) -> None:
    """A worker works for those dispatchers that the node runs; any other use of such a channel is a bug of the plan."""
    buses = in_process_buses(CHANNELS, tmp_path, {"client": 1, "worker": 1})
    try:
        assert buses["worker"].work({WORK: square}).sockets == ()
        for use, channel in ((buses["client"].connect, ECHO), (buses["client"].subscribe, STATE)):
            with pytest.raises(ValueError, match=f"this node runs no server, which serves channel {channel}"):
                use(channel, print)
    finally:
        for bus in buses.values():
            bus.close()


def test_a_role_connects_once_to_a_channel(buses: dict[str, Bus]) -> None:
    buses["client"].connect(ECHO, print)
    with pytest.raises(ValueError, match=r"client is connected to channel server\.echo"):
        buses["client"].connect(ECHO, print)


def test_counters_exist_from_the_start(buses: dict[str, Bus]) -> None:
    assert buses["server"].counters == dict.fromkeys(COUNTERS, 0)
    assert buses["server"].last_rejection == ""


def test_a_long_directory_is_rejected_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="use a runtime directory whose path is"):
        in_process_buses(CHANNELS, tmp_path / ("long" * 30), {"server": 1})


async def test_nothing_is_left_behind(tmp_path: Path) -> None:
    gc.collect()
    descriptors = set(os.listdir("/proc/self/fd"))
    buses = in_process_buses(CHANNELS, tmp_path, {"server": 1, "client": 2, "worker": 2})
    received: list[object] = []
    async with running_buses(buses):
        server = buses["server"].serve(ECHO, lambda sender, m: server.send(sender, EchoResponse(1, m.data)))
        buses["server"].publish(STATE).set(HeadState(1))
        dispatcher = buses["server"].dispatch(WORK)
        buses["worker"].work({WORK: square})
        buses["client"].subscribe(STATE, received.append)
        buses["client"].connect(ECHO, received.append).send(EchoRequest(1, bytes(200_000)))
        task = SquareTask(2, bytes(200_000))
        assert await dispatcher.run(task) == square(task)
        await until(lambda: len(received) == 2)
        assert "/dev/shm/" not in Path("/proc/self/maps").read_text(), "shared memory has no name"
    assert list(tmp_path.iterdir()) == []
    assert set(os.listdir("/proc/self/fd")) == descriptors


def test_a_bus_left_open_by_an_error_does_not_hang_the_process(tmp_path: Path) -> None:
    code = f"""
import asyncio, gc, msgspec, pathlib
from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.tools.api.in_process import in_process_buses

class Number(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int

async def main():
    table = (Channel("a.b", Pattern.REQUEST, "a", ("b",), up=Number, down=Number),)
    buses = in_process_buses(table, pathlib.Path({str(tmp_path)!r}), {{"a": 1, "b": 1}})
    buses["a"].serve("a.b", lambda client, message: 1 // message.number)
    buses["b"].connect("a.b", print).send(Number(0))
    async with asyncio.TaskGroup() as group:
        for bus in buses.values():
            group.create_task(bus.run())

try:
    asyncio.run(main())
except* ZeroDivisionError:
    print("a bug")
gc.collect()
print("the end")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == "a bug\nthe end\n"
