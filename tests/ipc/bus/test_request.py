"""Requests and responses between processes, through sockets and arenas."""

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.ipc.bus.transport import INLINE_LIMIT
from tests.ipc.messages import CHANNELS, ECHO, EchoRequest, EchoResponse
from tests.support.timing.conditions import until

CLIENT = ProcessId(1, 1)


@pytest.fixture
def buses(tmp_path: Path) -> dict[str, Bus]:
    return in_process_buses(CHANNELS, tmp_path, {"server": 1, "client": 2})


def run(buses: dict[str, Bus], scene: Coroutine[Any, Any, None]) -> None:
    """Runs a test's scene while all buses run."""

    async def both() -> None:
        async with running_buses(buses):
            await scene

    asyncio.run(both())


@pytest.mark.parametrize("size", [0, INLINE_LIMIT - 50, INLINE_LIMIT + 1, 300_000, 9_000_000])
def test_a_request_is_answered(buses: dict[str, Bus], size: int) -> None:
    async def scene() -> None:
        responses: list[EchoResponse] = []
        server = buses["server"].serve(
            ECHO, lambda sender, m: server.send(sender, EchoResponse(m.number, m.data[::-1]))
        )
        client = buses["client"].connect(ECHO, responses.append)
        data = os.urandom(size)
        for number in range(3):
            assert client.send(EchoRequest(number, data))
            await until(lambda wanted=number: len(responses) == wanted + 1)  # type: ignore[misc]
        assert responses == [EchoResponse(number, data[::-1]) for number in range(3)]

    run(buses, scene())
    inline = 3 if size > 64 * 132 * 1024 else 0
    for name in ("server", "client"):
        counted = {key: count for key, count in buses[name].counters.items() if count}
        assert counted == ({"arena_full_inline": inline} if inline else {})


def test_each_client_gets_its_own_responses(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        senders: list[ProcessId] = []
        responses: dict[str, list[EchoResponse]] = {"client": [], "client:1": []}

        def respond(sender: ProcessId, message: EchoRequest) -> None:
            senders.append(sender)
            server.send(sender, EchoResponse(message.number))

        server = buses["server"].serve(ECHO, respond)
        for number, (name, received) in enumerate(responses.items()):
            buses[name].connect(ECHO, received.append).send(EchoRequest(number))
        await until(lambda: all(responses.values()))
        assert responses == {"client": [EchoResponse(0)], "client:1": [EchoResponse(1)]}
        assert sorted(senders) == [ProcessId(1, 1), ProcessId(2, 1)]

    run(buses, scene())


def test_a_request_sent_before_the_server_runs_arrives(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        requests: list[EchoRequest] = []
        client = buses["client"].connect(ECHO, lambda message: None)
        assert client.send(EchoRequest(1))
        await asyncio.sleep(0.05)
        buses["server"].serve(ECHO, lambda sender, message: requests.append(message))
        await until(lambda: requests == [EchoRequest(1)])

    run(buses, scene())


def test_a_response_to_an_unknown_client_is_not_sent_and_keeps_no_chunk(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        server = buses["server"].serve(ECHO, lambda sender, message: None)
        arena = buses["server"].transport.arenas[0]
        assert not server.send(CLIENT, EchoResponse(1, bytes(200_000)))
        assert not server.send(ProcessId(1, 9), EchoResponse(1, bytes(200_000)))
        assert arena.free == arena.chunks
        assert buses["server"].counters["sends_failed"] == 2

    run(buses, scene())


def test_responses_may_be_sent_from_any_task(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        responses: list[EchoResponse] = []
        senders: list[ProcessId] = []
        server = buses["server"].serve(ECHO, lambda sender, message: senders.append(sender))
        client = buses["client"].connect(ECHO, responses.append)
        for number in range(300):
            client.send(EchoRequest(number))
            await until(lambda wanted=number: len(senders) > wanted)  # type: ignore[misc]
            server.send(senders[-1], EchoResponse(number))
            async with asyncio.timeout(30):
                while len(responses) <= number:
                    await asyncio.sleep(0)

    run(buses, scene())


def test_a_full_arena_sends_inline_and_counts_it(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        responses: list[EchoResponse] = []
        senders: list[ProcessId] = []
        server = buses["server"].serve(ECHO, lambda sender, message: senders.append(sender))
        buses["client"].connect(ECHO, responses.append).send(EchoRequest(1))
        await until(lambda: senders)
        for number in range(70):
            assert server.send(senders[0], EchoResponse(number, bytes(100_000)))
        assert buses["server"].counters["arena_full_inline"] == 6
        await until(lambda: len(responses) == 70)
        assert [message.number for message in responses] == list(range(70))

    run(buses, scene())


def test_the_chunks_of_a_dead_client_are_freed(buses: dict[str, Bus]) -> None:
    """The client's own bus does not run, so the response stays in the arena."""

    async def scene() -> None:
        senders: list[ProcessId] = []
        bus = buses["server"]
        server = bus.serve(ECHO, lambda sender, message: senders.append(sender))
        buses["client"].connect(ECHO, lambda message: None).send(EchoRequest(1))
        await until(lambda: senders)
        arena = bus.transport.arenas[0]
        assert server.send(senders[0], EchoResponse(1, bytes(300_000)))
        assert arena.free < arena.chunks
        bus.transport.liveness.start(CLIENT.slot, 2)
        await until(lambda: arena.free == arena.chunks)
        assert not server.send(senders[0], EchoResponse(1)), "the client has been replaced"

    run({"server": buses["server"]}, scene())
    for name in ("client", "client:1"):
        buses[name].close()


def test_a_message_of_a_replaced_process_is_stale(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        requests: list[EchoRequest] = []
        bus = buses["server"]
        bus.serve(ECHO, lambda sender, message: requests.append(message))
        client = buses["client"].connect(ECHO, lambda message: None)
        client.send(EchoRequest(1))
        await until(lambda: len(requests) == 1)
        bus.transport.liveness.start(CLIENT.slot, 2)
        client.send(EchoRequest(2))
        await until(lambda: bus.counters["messages_stale"] == 1)
        assert requests == [EchoRequest(1)]

    run(buses, scene())


def test_a_void_descriptor_is_a_lost_message(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        requests: list[EchoRequest] = []
        bus = buses["server"]
        client = buses["client"].connect(ECHO, lambda message: None)
        client.send(EchoRequest(1, bytes(200_000)))
        bus.transport.arenas[CLIENT.slot].take_over(2)
        client.send(EchoRequest(2))
        bus.serve(ECHO, lambda sender, message: requests.append(message))
        await until(lambda: requests)
        assert requests == [EchoRequest(2)] and bus.counters["messages_void"] == 1

    run(buses, scene())
