"""States are repeated, never go back, and reach late subscribers."""

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from rollup_node.ipc.bus import status
from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.ipc.bus.status import Publisher
from rollup_node.ipc.bus.transport import Transport
from rollup_node.ipc.shared_memory.liveness import LivenessTable
from rollup_node.ipc.wire.codec import Envelope, encode_header
from rollup_node.ipc.wire.process_id import ProcessId
from tests.ipc.messages import CHANNELS, STATE, HeadState, HealthState
from tests.ipc.recording_socket import RecordingSocket
from tests.support.timing.conditions import until


@pytest.fixture
def buses(tmp_path: Path) -> dict[str, Bus]:
    return in_process_buses(CHANNELS, tmp_path, {"server": 1, "client": 2})


def test_the_last_state_of_each_type_reaches_all_subscribers(
    buses: dict[str, Bus], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late subscriber gets the states at once, not with their next repetition, which never comes here."""

    async def scene() -> None:
        early: list[object] = []
        late: list[object] = []
        async with running_buses(buses):
            buses["client"].subscribe(STATE, early.append)
            publisher = buses["server"].publish(STATE)
            publisher.set(HealthState(("slow",)))
            for number in range(500):
                publisher.set(HeadState(number))
            await until(lambda: HeadState(499) in early and HealthState(("slow",)) in early)
            monkeypatch.setattr(status, "REPEAT_SECONDS", 1e9)
            assert publisher.tick(time.monotonic() + 10) == 1e9
            buses["client:1"].subscribe(STATE, late.append)
            await until(lambda: len(late) == 2)
            assert late == [HealthState(("slow",)), HeadState(499)]
            numbers = [state.number for state in early if isinstance(state, HeadState)]
            assert numbers == sorted(set(numbers))

    asyncio.run(scene())


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


def test_a_repeated_state_is_handled_once(buses: dict[str, Bus], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "REPEAT_SECONDS", 0.01)

    async def scene() -> None:
        seen: list[object] = []
        times: set[float | None] = set()
        async with running_buses(buses):
            subscriber = buses["client"].subscribe(STATE, seen.append)
            assert subscriber.last_seen is None
            publisher = buses["server"].publish(STATE)
            publisher.set(HeadState(1))
            while len(times) < 10:
                times.add(subscriber.last_seen)
                await until(lambda: subscriber.last_seen not in times)
            assert seen == [HeadState(1)]
            publisher.set(HeadState(2))
            publisher.set(HeadState(1))
            await until(lambda: seen[-1] == HeadState(1) and len(seen) > 1)

    asyncio.run(scene())


def test_a_lost_state_is_repaired_by_its_repetition(buses: dict[str, Bus], monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        seen: list[object] = []
        async with running_buses(buses):
            buses["client"].subscribe(STATE, seen.append)
            publisher = buses["server"].publish(STATE)
            publisher.set(HeadState(1))
            await until(lambda: seen)
            with monkeypatch.context() as patched:
                patched.setattr(publisher.sockets[0], "send", lambda frames: False)
                publisher.set(HeadState(2))
            await until(lambda: seen == [HeadState(1), HeadState(2)])

    asyncio.run(scene())


def test_an_older_state_is_never_handled(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        seen: list[object] = []
        async with running_buses(buses):
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

    asyncio.run(scene())
