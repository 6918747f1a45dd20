"""A hostile process on every socket: its messages are rejected and counted, and the others are not disturbed."""

import asyncio
import os
import random
from pathlib import Path

import msgspec
import pytest
import zmq

from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.shared_memory.arena import Descriptor
from rollup_node.ipc.wire.codec import Envelope, TaskRejected, WorkerReport, encode_header
from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.ipc.messages import (
    CHANNELS,
    ECHO,
    STATE,
    WORK,
    EchoRequest,
    EchoResponse,
    HeadState,
    SquareResult,
    SquareTask,
    square,
)
from tests.support.timing.conditions import until

SERVER, CLIENT, WORKER, STRANGER = 0, 1, 2, 3
GOOD = msgspec.msgpack.encode(EchoRequest(1))
PICKLE = b"cos\nsystem\n(S'exit 1'\ntR."


def envelope(slot: int, incarnation: int = 1, descriptor: Descriptor | None = None) -> bytes:
    return encode_header(Envelope(slot, incarnation, 1, 1, descriptor))


def hostile_messages(slot: int) -> list[list[bytes]]:
    """Return what a process that claims to be in `slot` might send; each is wrong in another way."""
    noise = random.Random(slot)
    right = envelope(slot)
    return [
        *([noise.randbytes(noise.randrange(60)) for _ in range(noise.randrange(5))] for _ in range(200)),
        [right],
        [right, GOOD, GOOD],
        [right, PICKLE],
        [PICKLE, PICKLE],
        [right, msgspec.msgpack.encode(["Other", 1])],
        [right, msgspec.msgpack.encode(["EchoRequest", "1", b""])],
        [right, GOOD[:-1]],
        [right, b""],
        [right, os.urandom(1 << 20)],
        [envelope(STRANGER), GOOD],
        [envelope(slot, incarnation=2), GOOD],
        [envelope(slot, descriptor=Descriptor(1 << 62, ((1 << 62, 1 << 62),))), b""],
        [envelope(slot, descriptor=Descriptor(100, ((0, 0),))), b""],
        [encode_header(WorkerReport(STRANGER, 1, None, ((1, 1),))), b""],
        [encode_header(TaskRejected(STRANGER, 1, 1, "no")), b""],
    ]


@pytest.fixture
def buses(tmp_path: Path) -> dict[str, Bus]:
    return in_process_buses(CHANNELS, tmp_path, {"server": 1, "client": 1, "worker": 1})


@pytest.mark.parametrize("slot", [CLIENT, STRANGER])
async def test_servers_reject_hostile_messages_and_go_on(buses: dict[str, Bus], tmp_path: Path, slot: int) -> None:
    requests: list[EchoRequest] = []
    received: list[object] = []
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    async with running_buses(buses):

        def respond(sender: ProcessId, message: EchoRequest) -> None:
            requests.append(message)
            server.send(sender, EchoResponse(2))

        server = buses["server"].serve(ECHO, respond)
        publisher = buses["server"].publish(STATE)
        dispatcher = buses["server"].dispatch(WORK)
        sockets = {channel: context.socket(zmq.DEALER) for channel in (ECHO, WORK)}
        for channel, socket in sockets.items():
            socket.identity = ProcessId(slot, 1).routing_id()
            socket.connect(f"ipc://{tmp_path}/{channel}.sock")
            for message in hostile_messages(slot):
                socket.send_multipart(message or [b""])
        subscriber = context.socket(zmq.SUB)
        subscriber.connect(f"ipc://{tmp_path}/{STATE}.sock")
        for _ in range(50):
            subscriber.subscribe(os.urandom(50))
        count = 2 * len(hostile_messages(slot))
        counters = buses["server"].counters
        await until(lambda: counters["messages_refused"] + counters["messages_void"] >= count)
        assert requests == []
        context.destroy(linger=0)
        client = buses["client"].connect(ECHO, received.append)
        buses["client"].subscribe(STATE, received.append)
        buses["worker"].work({WORK: square})
        publisher.set(HeadState(3))
        async with asyncio.timeout(30):
            assert await dispatcher.run(SquareTask(6)) == SquareResult(36)
            while not (EchoResponse(2) in received and HeadState(3) in received):
                client.send(EchoRequest(1))
                await asyncio.sleep(0.05)
        assert all(message in (EchoResponse(2), HeadState(3)) for message in received)
        assert buses["server"].last_rejection.startswith("server.")


async def test_clients_reject_a_hostile_server(buses: dict[str, Bus], tmp_path: Path) -> None:
    def rejected(name: str) -> int:
        return buses[name].counters["messages_refused"]

    received: list[object] = []
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router, publisher, work = (context.socket(kind) for kind in (zmq.ROUTER, zmq.XPUB, zmq.ROUTER))
    for socket, channel in ((router, ECHO), (publisher, STATE), (work, WORK)):
        socket.bind(f"ipc://{tmp_path}/{channel}.sock")
    async with running_buses(buses):
        client = buses["client"].connect(ECHO, received.append)
        buses["client"].subscribe(STATE, received.append)
        buses["worker"].work({WORK: received.append})
        client.send(EchoRequest(1))
        await until(lambda: all(socket.poll(0) for socket in (router, publisher, work)))
        for message in hostile_messages(SERVER):
            router.send_multipart([ProcessId(CLIENT, 1).routing_id(), *message])
            publisher.send_multipart(message or [b""])
            work.send_multipart([ProcessId(WORKER, 1).routing_id(), *message])
        count = len(hostile_messages(SERVER))
        await until(lambda: rejected("client") >= 2 * count - 60 and rejected("worker") > count / 2)
        assert received == []
    context.destroy(linger=0)
