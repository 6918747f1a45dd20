"""States are sent when they change, never go back, and reach late subscribers and those that have lost one."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from rollup_node.ipc.bus import status
from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.status import Publisher
from rollup_node.ipc.bus.transport import INLINE_LIMIT, Transport
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire.codec import Envelope, encode_header
from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.ipc.messages import CHANNELS, ECHO, STATE, EchoRequest, EchoResponse, HeadState, HealthState
from tests.ipc.recording_socket import RecordingSocket
from tests.support.timing.conditions import until


@pytest.fixture
def stopped(tmp_path: Path) -> dict[str, Bus]:
    return in_process_buses(CHANNELS, tmp_path, {"server": 1, "client": 2})


@pytest.fixture
async def buses(stopped: dict[str, Bus]) -> AsyncIterator[dict[str, Bus]]:
    async with running_buses(stopped):
        yield stopped


async def test_the_last_state_of_each_type_reaches_all_subscribers(buses: dict[str, Bus]) -> None:
    """A late subscriber gets the states at once; then nothing is sent any more."""
    early: list[object] = []
    late: list[object] = []
    buses["client"].subscribe(STATE, early.append)
    publisher = buses["server"].publish(STATE)
    publisher.set(HealthState(("slow",)))
    for number in range(500):
        publisher.set(HeadState(number))
    await until(lambda: HeadState(499) in early and HealthState(("slow",)) in early)
    assert publisher.tick(1e6) > 1e6
    buses["client:1"].subscribe(STATE, late.append)
    await until(lambda: len(late) == 2)
    assert late == [HealthState(("slow",)), HeadState(499)]
    numbers = [state.number for state in early if isinstance(state, HeadState)]
    assert numbers == sorted(set(numbers))


def test_an_equal_state_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "MIN_SECONDS", 0.0)
    liveness = LivenessTable(1)
    socket = RecordingSocket()
    publisher = Publisher(socket, Transport(ProcessId(0, 1), liveness, {}), HeadState)
    for number in (1, 1, 2, 1):
        publisher.set(HeadState(number))
    assert [header.number for header in socket.headers if isinstance(header, Envelope)] == [1, 2, 3]
    liveness.close()


def test_states_that_change_without_a_pause_are_sent_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and each urgent one at once, the last of an interval at its end; each type has its own."""
    monkeypatch.setattr(status, "MIN_SECONDS", 1e3)
    liveness, socket, woken = LivenessTable(1), RecordingSocket(), list[None]()
    transport = Transport(ProcessId(0, 1), liveness, {})
    publisher = Publisher(socket, transport, HeadState | HealthState, lambda: woken.append(None))
    for number in range(50):
        publisher.set(HeadState(number))
    publisher.set(HealthState(("slow",)))
    assert len(socket.sent) == 2 and len(woken) == 1
    publisher.set(HeadState(50), urgent=True)
    assert len(socket.sent) == 3
    now = time.monotonic()
    publisher.tick(now)
    repeated = len(socket.sent)
    for number in (51, 52):
        publisher.set(HeadState(number))
    assert len(socket.sent) == repeated and publisher.tick(now) <= now + 1e3
    publisher.tick(now + 1e3 + 1)
    decoded = [msgspec.msgpack.decode(frames[1]) for frames in socket.sent[repeated:]]
    assert decoded[0] == msgspec.msgpack.decode(msgspec.msgpack.encode(HeadState(52)))
    liveness.close()


async def test_a_state_that_is_sent_again_is_handled_once(buses: dict[str, Bus]) -> None:
    seen: list[object] = []
    subscriber = buses["client"].subscribe(STATE, seen.append)
    publisher = buses["server"].publish(STATE)
    publisher.set(HeadState(1))
    await until(lambda: seen)
    sent: list[list[bytes]] = []
    send, socket = publisher.sockets[0].send, publisher.sockets[0]
    socket.send = lambda frames: sent.append(frames) or send(frames)  # type: ignore[func-returns-value,method-assign]
    for number in range(1, 4):
        subscriber.sockets[0].subscribe_again()
        await until(lambda wanted=number: len(sent) >= wanted)  # type: ignore[misc]
    assert seen == [HeadState(1)]
    publisher.set(HeadState(2))
    publisher.set(HeadState(1))
    await until(lambda: seen[-1] == HeadState(1) and len(seen) > 1)


@pytest.mark.parametrize("later", [(), (HealthState(("slow",)),)], ids=["the last", "one before another"])
async def test_a_lost_state_is_asked_for(
    buses: dict[str, Bus], monkeypatch: pytest.MonkeyPatch, later: tuple[HealthState, ...]
) -> None:
    seen: list[object] = []
    buses["client"].subscribe(STATE, seen.append)
    publisher = buses["server"].publish(STATE)
    publisher.set(HeadState(1))
    await until(lambda: seen)
    with monkeypatch.context() as patched:
        patched.setattr(publisher.sockets[0], "send", lambda frames: False)
        publisher.set(HeadState(2), urgent=True)
    for state in later:
        publisher.set(state)
    await until(lambda: set(seen) == {HeadState(1), HeadState(2), *later})


async def test_a_publisher_is_seen_by_its_heartbeats_while_no_state_is_missing(
    buses: dict[str, Bus], monkeypatch: pytest.MonkeyPatch
) -> None:
    """[LIF32] A process that stands still, one that was killed, and one whose states do not come, all grow old."""
    seen: list[object] = []
    subscriber = buses["client"].subscribe(STATE, seen.append)
    assert subscriber.last_seen is None
    publisher = buses["server"].publish(STATE)
    publisher.set(HeadState(1))
    await until(lambda: seen)
    before = subscriber.last_seen
    assert before is not None
    await until(lambda: (subscriber.last_seen or 0) > before)
    with monkeypatch.context() as patched:
        patched.setattr(publisher.sockets[0], "send", lambda frames: False)
        publisher.set(HeadState(2), urgent=True)
        last = subscriber.last_seen
        buses["server"].transport.liveness.beat(0)
        assert subscriber.last_seen == last
    await until(lambda: (subscriber.last_seen or 0) > last)
    buses["server"].transport.liveness.start(0, 2)
    last = subscriber.last_seen
    buses["server"].transport.liveness.beat(0)
    assert subscriber.last_seen == last


async def test_a_client_is_told_of_a_new_server(buses: dict[str, Bus]) -> None:
    told: list[None] = []
    buses["client"].connect(ECHO, lambda message: None, lambda: told.append(None))
    buses["client"].transport.liveness.start(0, 2)
    await until(lambda: told)


async def test_an_older_state_is_never_handled(buses: dict[str, Bus]) -> None:
    seen: list[object] = []
    client = buses["client"]
    client.subscribe(STATE, seen.append)
    publisher = buses["server"].publish(STATE)
    publisher.set(HeadState(1))
    publisher.set(HeadState(2))
    await until(lambda: seen[-1:] == [HeadState(2)])

    def send(incarnation: int, sequence: int, state: HeadState) -> None:
        header = encode_header(Envelope(0, incarnation, sequence, 0, None))
        assert publisher.sockets[0].send([header, msgspec.msgpack.encode(state)])

    send(1, 1, HeadState(1))
    publisher.set(HeadState(3))
    await until(lambda: seen[-1] == HeadState(3))
    assert seen[-2] == HeadState(2)
    client.transport.liveness.start(0, 2)
    send(2, 1, HeadState(1))
    await until(lambda: seen[-1] == HeadState(1))
    send(1, 900, HeadState(9))
    send(2, 2, HeadState(4))
    await until(lambda: seen[-1] == HeadState(4))
    assert seen[-2] == HeadState(1) and client.counters["messages_stale"] > 0


CLIENT = ProcessId(1, 1)


@pytest.mark.parametrize("size", [0, INLINE_LIMIT - 50, INLINE_LIMIT + 1, 300_000, 9_000_000])
async def test_a_request_is_answered(buses: dict[str, Bus], size: int) -> None:
    responses: list[EchoResponse] = []
    server = buses["server"].serve(ECHO, lambda sender, m: server.send(sender, EchoResponse(m.number, m.data[::-1])))
    client = buses["client"].connect(ECHO, responses.append)
    data = os.urandom(size)
    for number in range(3):
        assert client.send(EchoRequest(number, data))
        await until(lambda wanted=number: len(responses) == wanted + 1)  # type: ignore[misc]
    assert responses == [EchoResponse(number, data[::-1]) for number in range(3)]
    inline = 3 if size > 64 * 132 * 1024 else 0
    for name in ("server", "client"):
        counted = {key: count for key, count in buses[name].counters.items() if count}
        assert counted == ({"arena_full_inline": inline} if inline else {})


async def test_a_request_sent_before_the_server_runs_arrives(buses: dict[str, Bus]) -> None:
    requests: list[EchoRequest] = []
    client = buses["client"].connect(ECHO, lambda message: None)
    assert client.send(EchoRequest(1))
    await asyncio.sleep(0.05)
    buses["server"].serve(ECHO, lambda sender, message: requests.append(message))
    await until(lambda: requests == [EchoRequest(1)])


async def test_a_request_to_a_server_that_has_died_is_not_done_by_the_next(tmp_path: Path) -> None:
    """[LIF34] Its client may have given up long ago, and told the operator so."""
    requests: list[EchoRequest] = []
    buses = in_process_buses(CHANNELS, tmp_path, {"server": 1, "client": 1})
    liveness = buses["client"].transport.liveness
    async with running_buses({"client": buses["client"]}):
        client = buses["client"].connect(ECHO, lambda message: None)
        assert client.send(EchoRequest(1))
        liveness.start(0, 2)
        slots = {("server", ""): [0], ("client", ""): [1]}
        server = Bus(CHANNELS, "server", ProcessId(0, 2), slots, liveness, {}, tmp_path)
        async with running_buses({"server": server}):
            server.serve(ECHO, lambda sender, message: requests.append(message))
            assert client.send(EchoRequest(2))
            await until(lambda: EchoRequest(2) in requests)
    assert requests == [EchoRequest(2)] and server.counters["messages_stale"] == 1
    buses["server"].close()


async def test_the_chunks_of_a_dead_client_are_freed(stopped: dict[str, Bus]) -> None:
    """The client's own bus does not run, so the response stays in the arena."""
    senders: list[ProcessId] = []
    bus = stopped["server"]
    async with running_buses({"server": bus}):
        server = bus.serve(ECHO, lambda sender, message: senders.append(sender))
        stopped["client"].connect(ECHO, lambda message: None).send(EchoRequest(1))
        await until(lambda: senders)
        arena = bus.transport.arenas[0]
        assert server.send(senders[0], EchoResponse(1, bytes(300_000)))
        assert arena.free < arena.chunks
        bus.transport.liveness.start(CLIENT.slot, 2)
        await until(lambda: arena.free == arena.chunks)
        assert not server.send(senders[0], EchoResponse(1)), "the client has been replaced"
    for name in ("client", "client:1"):
        stopped[name].close()
