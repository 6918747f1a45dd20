"""Asking and answering over the bus, in one process."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.ipc.bus.testing import pumping
from rollup_node.ipc.bus.transport import COUNTERS, INLINE_LIMIT


class Want(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    data: bytes = b""


class Found(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int
    data: bytes = b""


CHANNELS = (
    Channel("shop.goods", Pattern.REQUEST, "shop", ("buyer", "thief"), up=Want, down=Found),
    Channel("shop.state", Pattern.STATUS, "shop", ("buyer",), down=Found),
    Channel("shop.work", Pattern.WORK, "shop", ("hand",), down=Want, up=Found),
)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition, at most 30 s."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


def play(buses: dict[str, Bus], scene: Coroutine[Any, Any, None]) -> None:
    """Runs a test's scene while all pumps run."""

    async def run() -> None:
        async with pumping(buses):
            await scene

    asyncio.run(run())


@pytest.fixture
def buses(tmp_path: Path) -> dict[str, Bus]:
    return Bus.for_test(CHANNELS, tmp_path, {"shop": 1, "buyer": 2, "hand": 1})


@pytest.mark.parametrize("size", [0, INLINE_LIMIT - 50, INLINE_LIMIT + 1, 300_000, 9_000_000])
def test_a_need_is_answered(buses: dict[str, Bus], size: int) -> None:
    async def scene() -> None:
        found: list[Found] = []
        server = buses["shop"].serve("shop.goods", lambda peer, m: server.send(peer, Found(m.number, m.data[::-1])))
        client = buses["buyer"].connect("shop.goods", found.append)
        data = os.urandom(size)
        for number in range(3):
            assert client.send(Want(number, data))
            await until(lambda wanted=number: len(found) == wanted + 1)  # type: ignore[misc]
        assert found == [Found(number, data[::-1]) for number in range(3)]

    play(buses, scene())
    inline = 3 if size > 64 * 132 * 1024 else 0
    for name in ("shop", "buyer"):
        counted = {key: count for key, count in buses[name].counters.items() if count}
        assert counted == ({"arena_full_inline": inline} if inline else {})


def test_each_client_gets_its_own_answers(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        asked: list[ProcessId] = []
        found: dict[str, list[Found]] = {"buyer": [], "buyer:1": []}

        def answer(peer: ProcessId, message: Want) -> None:
            asked.append(peer)
            server.send(peer, Found(message.number))

        server = buses["shop"].serve("shop.goods", answer)
        for number, (name, answers) in enumerate(found.items()):
            buses[name].connect("shop.goods", answers.append).send(Want(number))
        await until(lambda: all(found.values()))
        assert found == {"buyer": [Found(0)], "buyer:1": [Found(1)]}
        assert sorted(asked) == [ProcessId(1, 1), ProcessId(2, 1)]

    play(buses, scene())


def test_what_is_asked_before_the_server_is_there_arrives(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        asked: list[Want] = []
        client = buses["buyer"].connect("shop.goods", lambda message: None)
        assert client.send(Want(1))
        await asyncio.sleep(0.05)
        buses["shop"].serve("shop.goods", lambda peer, message: asked.append(message))
        await until(lambda: asked == [Want(1)])

    play(buses, scene())


def test_an_answer_to_nobody_is_not_sent_and_keeps_no_slot(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        server = buses["shop"].serve("shop.goods", lambda peer, message: None)
        arena = buses["shop"]._courier._arenas[0]
        assert not server.send(ProcessId(1, 1), Found(1, bytes(200_000)))
        assert not server.send(ProcessId(1, 9), Found(1, bytes(200_000)))
        assert arena.free == arena.slots
        assert buses["shop"].counters["sends_failed"] == 2

    play(buses, scene())


def test_answers_may_be_sent_from_any_task(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        found: list[Found] = []
        peers: list[ProcessId] = []
        server = buses["shop"].serve("shop.goods", lambda peer, message: peers.append(peer))
        client = buses["buyer"].connect("shop.goods", found.append)
        for number in range(300):
            client.send(Want(number))
            await until(lambda wanted=number: len(peers) > wanted)  # type: ignore[misc]
            server.send(peers[-1], Found(number))
            async with asyncio.timeout(30):
                while len(found) <= number:
                    await asyncio.sleep(0)

    play(buses, scene())


def test_a_full_arena_sends_inline_and_says_so(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        found: list[Found] = []
        peers: list[ProcessId] = []
        server = buses["shop"].serve("shop.goods", lambda peer, message: peers.append(peer))
        buses["buyer"].connect("shop.goods", found.append).send(Want(1))
        await until(lambda: bool(peers))
        for number in range(70):
            assert server.send(peers[0], Found(number, bytes(100_000)))
        assert buses["shop"].counters["arena_full_inline"] == 6
        await until(lambda: len(found) == 70)
        assert [message.number for message in found] == list(range(70))

    play(buses, scene())


def test_a_dead_clients_slots_come_back(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        peers: list[ProcessId] = []
        shop = buses["shop"]
        server = shop.serve("shop.goods", lambda peer, message: peers.append(peer))
        client = buses["buyer"].connect("shop.goods", lambda message: None)
        client.send(Want(1))
        await until(lambda: bool(peers))
        shop._courier.board.start(1, 2)
        arena = shop._courier._arenas[0]
        held = arena.put(bytes(300_000), (1,))
        assert held is not None and arena.free < arena.slots
        shop._courier._readers[1] = 1
        await until(lambda: arena.free == arena.slots)
        assert not server.send(peers[0], Found(1)), "its incarnation is over"

    play(buses, scene())


def test_a_message_of_a_past_incarnation_is_stale(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        asked: list[Want] = []
        shop = buses["shop"]
        shop.serve("shop.goods", lambda peer, message: asked.append(message))
        client = buses["buyer"].connect("shop.goods", lambda message: None)
        client.send(Want(1))
        await until(lambda: len(asked) == 1)
        shop._courier.board.start(1, 2)
        client.send(Want(2))
        await until(lambda: shop.counters["messages_stale"] == 1)
        assert asked == [Want(1)]

    play(buses, scene())


def test_a_void_descriptor_is_a_lost_message(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        asked: list[Want] = []
        shop = buses["shop"]
        client = buses["buyer"].connect("shop.goods", lambda message: None)
        client.send(Want(1, bytes(200_000)))
        buses["buyer"]._courier._arenas[1].take_over(1)
        client.send(Want(2))
        shop.serve("shop.goods", lambda peer, message: asked.append(message))
        await until(lambda: bool(asked))
        assert asked == [Want(2)] and shop.counters["messages_void"] == 1

    play(buses, scene())


def test_a_handlers_error_ends_the_pump(buses: dict[str, Bus]) -> None:
    taken: list[Want] = []

    def divide(peer: ProcessId, message: Want) -> None:
        taken.append(message)
        1 // message.number

    async def scene() -> None:
        buses["shop"].serve("shop.goods", divide)
        buses["buyer"].connect("shop.goods", lambda message: None).send(Want(0))
        await until(lambda: bool(taken))

    with pytest.raises(ZeroDivisionError):
        play(buses, scene())


def test_the_table_decides_who_may_do_what(buses: dict[str, Bus]) -> None:
    def nothing(*_: object) -> None:
        return

    shop, buyer = buses["shop"], buses["buyer"]
    for wrong, message in (
        (lambda: buyer.serve("shop.goods", nothing), "buyer does not serve channel shop.goods"),
        (lambda: shop.connect("shop.goods", nothing), "shop does not use channel shop.goods"),
        (lambda: buyer.connect("shop.state", nothing), "no request channel shop.state"),
        (lambda: shop.publish("shop.goods"), "no status channel shop.goods"),
        (lambda: buyer.subscribe("nowhere", nothing), "no status channel nowhere"),
        (lambda: buyer.work({"shop.work": nothing}), "buyer does not use channel shop.work"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
    for bus in buses.values():
        bus.close()


def test_counters_are_all_there_from_the_start(buses: dict[str, Bus]) -> None:
    assert buses["shop"].counters == dict.fromkeys(COUNTERS, 0)
    for bus in buses.values():
        bus.close()


def test_a_long_directory_is_refused_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="use a runtime directory whose path is"):
        Bus.for_test(CHANNELS, tmp_path / ("long" * 30), {"shop": 1})


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    descriptors, shared = set(os.listdir("/proc/self/fd")), set(os.listdir("/dev/shm"))
    buses = Bus.for_test(CHANNELS, tmp_path, {"shop": 1, "buyer": 2, "hand": 2})

    async def scene() -> None:
        found: list[Found] = []
        server = buses["shop"].serve("shop.goods", lambda peer, m: server.send(peer, Found(1, m.data)))
        buses["shop"].publish("shop.state").set(Found(1))
        pool = buses["shop"].dispatch("shop.work")
        buses["hand"].work({"shop.work": lambda task: Found(task.number, task.data)})
        buses["buyer"].subscribe("shop.state", found.append)
        buses["buyer"].connect("shop.goods", found.append).send(Want(1, bytes(200_000)))
        assert await pool.run(Want(2, bytes(200_000))) == Found(2, bytes(200_000))
        await until(lambda: len(found) == 2)

    play(buses, scene())
    assert list(tmp_path.iterdir()) == []
    assert set(os.listdir("/proc/self/fd")) == descriptors
    assert set(os.listdir("/dev/shm")) == shared


def test_a_bus_left_open_by_an_error_does_not_hang_the_process(tmp_path: Path) -> None:
    code = f"""
import asyncio, gc, msgspec, pathlib
from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.channels import Channel, Pattern

class Want(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int

async def main():
    table = (Channel("a.b", Pattern.REQUEST, "a", ("b",), up=Want, down=Want),)
    buses = Bus.for_test(table, pathlib.Path({str(tmp_path)!r}), {{"a": 1, "b": 1}})
    buses["a"].serve("a.b", lambda peer, message: 1 // message.number)
    buses["b"].connect("a.b", print).send(Want(0))
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
