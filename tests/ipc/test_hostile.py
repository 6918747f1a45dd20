"""A hostile process on every socket: its messages are refused and counted, and the others go on as before."""

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.ipc.bus.testing import pumping
from rollup_node.ipc.shared_memory.arena import Descriptor
from rollup_node.ipc.wire.codec import Envelope, Failure, Report, encode_head
from rollup_node.ipc.wire.process_id import ProcessId


class Want(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int


class Found(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int


CHANNELS = (
    Channel("a.ask", Pattern.REQUEST, "a", ("b",), up=Want, down=Found),
    Channel("a.state", Pattern.STATUS, "a", ("b",), down=Found),
    Channel("a.work", Pattern.WORK, "a", ("c",), down=Want, up=Found),
)
A, B, C, STRANGER = 0, 1, 2, 3
GOOD = msgspec.msgpack.encode(Want(1))
PICKLE = b"cos\nsystem\n(S'exit 1'\ntR."


def envelope(row: int, incarnation: int = 1, descriptor: Descriptor | None = None) -> bytes:
    return encode_head(Envelope(row, incarnation, 1, 1, descriptor))


def hostile_messages(row: int) -> list[list[bytes]]:
    """What a process that calls itself `row` might send; none of it is right, each for another reason."""
    noise = random.Random(row)
    right = envelope(row)
    return [
        *([noise.randbytes(noise.randrange(60)) for _ in range(noise.randrange(5))] for _ in range(200)),
        [right],
        [right, GOOD, GOOD],
        [right, PICKLE],
        [PICKLE, PICKLE],
        [right, msgspec.msgpack.encode(["Other", 1])],
        [right, msgspec.msgpack.encode(["Want", "1"])],
        [right, GOOD[:-1]],
        [right, b""],
        [right, os.urandom(1 << 20)],
        [envelope(STRANGER), GOOD],
        [envelope(row, incarnation=2), GOOD],
        [envelope(row, descriptor=Descriptor(1 << 62, ((1 << 62, 1 << 62),))), b""],
        [envelope(row, descriptor=Descriptor(100, ((0, 0),))), b""],
        [encode_head(Report(STRANGER, 1, None, ((1, 1),))), b""],
        [encode_head(Failure(STRANGER, 1, 1, "no")), b""],
    ]


@pytest.fixture
def buses(tmp_path: Path) -> dict[str, Bus]:
    return Bus.for_test(CHANNELS, tmp_path, {"a": 1, "b": 1, "c": 1})


@pytest.mark.parametrize("row", [B, STRANGER])
def test_servers_refuse_and_go_on(buses: dict[str, Bus], tmp_path: Path, row: int) -> None:
    async def scene() -> None:
        asked: list[Any] = []
        found: list[Any] = []
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        async with pumping(buses):
            server = buses["a"].serve("a.ask", lambda p, m: (asked.append(m), server.send(p, Found(2)))[0])
            publisher = buses["a"].publish("a.state")
            pool = buses["a"].dispatch("a.work")
            sockets = []
            for channel in ("a.ask", "a.work", "a.state"):
                kind = zmq.SUB if channel == "a.state" else zmq.DEALER
                socket = context.socket(kind)
                sockets.append(socket)
                socket.identity = ProcessId(row, 1).identity()
                socket.connect(f"ipc://{tmp_path}/{channel}.sock")
                if kind == zmq.SUB:
                    for _ in range(50):
                        socket.subscribe(os.urandom(50))
                    continue
                for message in hostile_messages(row):
                    socket.send_multipart(message or [b""])
            count = 2 * len(hostile_messages(row))
            counters = buses["a"].counters
            async with asyncio.timeout(20):
                while counters["messages_refused"] + counters["messages_void"] < count:
                    await asyncio.sleep(0.01)
            assert asked == []
            context.destroy(linger=0)
            client = buses["b"].connect("a.ask", found.append)
            buses["b"].subscribe("a.state", found.append)
            buses["c"].work({"a.work": lambda task: Found(task.number + 1)})
            publisher.set(Found(3))
            async with asyncio.timeout(20):
                assert await pool.run(Want(6)) == Found(7)
                while set(found) != {Found(2), Found(3)}:
                    client.send(Want(1))
                    await asyncio.sleep(0.05)
            assert buses["a"].last_refusal.startswith("a.")

    asyncio.run(scene())


def test_clients_refuse_a_hostile_server(buses: dict[str, Bus], tmp_path: Path) -> None:
    async def scene() -> None:
        found: list[Any] = []

        def refused(name: str) -> int:
            return buses[name].counters["messages_refused"]

        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        router, publisher, work = (context.socket(kind) for kind in (zmq.ROUTER, zmq.XPUB, zmq.ROUTER))
        for socket, channel in ((router, "a.ask"), (publisher, "a.state"), (work, "a.work")):
            socket.bind(f"ipc://{tmp_path}/{channel}.sock")
        async with pumping(buses):
            client = buses["b"].connect("a.ask", found.append)
            buses["b"].subscribe("a.state", found.append)
            buses["c"].work({"a.work": lambda task: found.append(task)})
            client.send(Want(1))
            async with asyncio.timeout(20):
                while not all(socket.poll(0) for socket in (router, publisher, work)):
                    await asyncio.sleep(0.01)
            for message in hostile_messages(A):
                router.send_multipart([ProcessId(B, 1).identity(), *message])
                publisher.send_multipart(message or [b""])
                work.send_multipart([ProcessId(C, 1).identity(), *message])
            count = len(hostile_messages(A))
            async with asyncio.timeout(20):
                while not (refused("b") >= 2 * count - 60 and refused("c") > count / 2):
                    await asyncio.sleep(0.01)
            assert found == []
        context.destroy(linger=0)

    asyncio.run(scene())
