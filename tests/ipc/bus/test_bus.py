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
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.ipc.messages import (
    CHANNELS,
    ECHO,
    OTHER_WORK,
    STATE,
    WORK,
    EchoRequest,
    EchoResponse,
    HeadState,
    SquareTask,
    square,
)
from tests.support.timing.conditions import until


@pytest.fixture
def buses(tmp_path: Path) -> Iterator[dict[str, Bus]]:
    buses = in_process_buses(CHANNELS, tmp_path, {"server": 1, "client": 1})
    yield buses
    for bus in buses.values():
        bus.close()


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


def grouped(directory: Path) -> dict[str, Bus]:
    """Two groups with server and client each, and a shared client, worker and `other`."""
    roles = ("server.10", "server.130", "client.10", "client.130", "client", "worker", "other")
    return in_process_buses(CHANNELS, directory, dict.fromkeys(roles, 1))


async def test_each_group_has_its_own_channels(tmp_path: Path) -> None:
    """[LIF33]"""
    buses = grouped(tmp_path)
    received: dict[str, list[object]] = {name: [] for name in ("10", "130", "10 shared", "130 shared")}
    served: list[tuple[str, str]] = []

    def serve(group: str) -> None:
        def on_request(sender: ProcessId, message: EchoRequest) -> None:
            served.append((group, bus.group_of(sender)))
            server.send(sender, EchoResponse(int(group)))

        bus = buses[f"server.{group}"]
        server = bus.serve(ECHO, on_request)
        bus.publish(STATE).set(HeadState(int(group)))

    async with running_buses(buses):
        for group in ("10", "130"):
            serve(group)
            for name, bus in ((group, buses[f"client.{group}"]), (f"{group} shared", buses["client"].within(group))):
                bus.subscribe(STATE, received[name].append)
                bus.connect(ECHO, received[name].append).send(EchoRequest(1))
        await until(lambda: all(len(messages) == 2 for messages in received.values()))
        names = {f"{ECHO}.10.sock", f"{ECHO}.130.sock", f"{STATE}.10.sock", f"{STATE}.130.sock"}
        assert {path.name for path in tmp_path.iterdir()} == names
    for name, messages in received.items():
        number = int(name.split()[0])
        assert sorted(messages, key=repr) == [EchoResponse(number), HeadState(number)]
    assert sorted(served) == [("10", ""), ("10", "10"), ("130", ""), ("130", "130")]


async def test_a_message_from_another_group_is_refused(tmp_path: Path) -> None:
    """[LIF33]"""
    buses = grouped(tmp_path)
    received: list[object] = []
    async with running_buses(buses):
        buses["server.10"].serve(ECHO, lambda sender, message: received.append(message))
        buses["client.130"].connect(ECHO, received.append, group="10").send(EchoRequest(1))
        await until(lambda: buses["server.10"].counters["messages_refused"])
    assert not received
    assert "slot 3 may not send on this channel" in buses["server.10"].last_rejection


async def test_a_worker_works_for_the_dispatchers_of_all_groups(tmp_path: Path) -> None:
    """[LIF33]"""
    buses = grouped(tmp_path)
    async with running_buses(buses):
        dispatchers = [buses[f"server.{group}"].dispatch(WORK) for group in ("10", "130")]
        dispatchers.append(buses["other"].dispatch(OTHER_WORK))
        buses["worker"].work({WORK: square, OTHER_WORK: square})
        results = await asyncio.gather(*(d.run(SquareTask(number)) for number in range(20) for d in dispatchers))
    assert results == [square(SquareTask(number)) for number in range(20) for _ in dispatchers]


def test_the_first_channel_comes_first_where_there_is_one_group(tmp_path: Path) -> None:
    """With several all have the same rank [LIF33]."""
    for roles, ranks in (
        (("server", "other", "worker"), [1, 1]),
        (("server.10", "server.130", "other", "worker"), [3]),
    ):
        buses = in_process_buses(CHANNELS, tmp_path, dict.fromkeys(roles, 1))
        worker = buses["worker"].work({WORK: square, OTHER_WORK: square})
        assert [len(sources) for sources in worker.ranks] == ranks
        for bus in buses.values():
            bus.close()


def test_a_group_without_a_server_uses_the_shared_one(tmp_path: Path) -> None:
    """[LIF33]"""
    buses = in_process_buses(CHANNELS, tmp_path, {"server": 1, "client.10": 1, "client": 1})
    try:
        for view in (buses["client.10"], buses["client"].within("10")):
            view.subscribe(STATE, print)
            view.connect(ECHO, print)
        with pytest.raises(ValueError, match=r"client is connected to channel server\.echo"):
            buses["client"].within("130").connect(ECHO, print)
    finally:
        for bus in buses.values():
            bus.close()


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
