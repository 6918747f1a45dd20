"""States are repeated, never go back, and reach whoever comes late."""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rollup_node.ipc.bus import status
from rollup_node.ipc.bus.bus import Bus
from rollup_node.ipc.bus.channels import Channel, Pattern
from rollup_node.ipc.bus.testing import pumping
from rollup_node.ipc.wire.codec import Envelope, encode_head


class Heads(msgspec.Struct, frozen=True, array_like=True, tag=True):
    number: int


class Health(msgspec.Struct, frozen=True, array_like=True, tag=True):
    problems: tuple[str, ...]


CHANNELS = (Channel("status.a", Pattern.STATUS, "a", ("b",), down=Heads | Health),)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture
def buses(tmp_path: Path) -> dict[str, Bus]:
    return Bus.for_test(CHANNELS, tmp_path, {"a": 1, "b": 2})


def test_the_last_state_of_each_type_is_seen_by_all(buses: dict[str, Bus], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes late does not wait for the next repetition."""

    async def scene() -> None:
        early: list[object] = []
        late: list[object] = []
        async with pumping(buses):
            buses["b"].subscribe("status.a", early.append)
            publisher = buses["a"].publish("status.a")
            publisher.set(Health(("slow",)))
            for number in range(500):
                publisher.set(Heads(number))
            await until(lambda: Heads(499) in early and Health(("slow",)) in early)
            monkeypatch.setattr(status, "REPEAT_SECONDS", 3600.0)
            publisher._due = math.inf
            buses["b:1"].subscribe("status.a", late.append)
            await until(lambda: len(late) == 2)
            assert late == [Health(("slow",)), Heads(499)]
            numbers = [state.number for state in early if isinstance(state, Heads)]
            assert numbers == sorted(set(numbers))

    asyncio.run(scene())


def test_repeats_and_equal_states_are_not_news(buses: dict[str, Bus], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "REPEAT_SECONDS", 0.01)

    async def scene() -> None:
        seen: list[object] = []
        received: list[list[bytes]] = []
        sent: list[list[bytes]] = []
        async with pumping(buses):
            subscriber = buses["b"].subscribe("status.a", seen.append)
            take = subscriber._take

            def counted(frames: list[bytes]) -> None:
                received.append(frames)
                take(frames)

            monkeypatch.setattr(subscriber, "_take", counted)
            publisher = buses["a"].publish("status.a")
            with monkeypatch.context() as patched:
                patched.setattr(publisher._link, "send", lambda frames: bool(sent.append(frames)) or True)
                publisher.set(Heads(1))
                publisher.set(Heads(1))
                assert len(sent) == 1
            await until(lambda: len(received) > 10)
            assert seen == [Heads(1)]
            publisher.set(Heads(2))
            publisher.set(Heads(1))
            await until(lambda: seen[-1] == Heads(1) and len(seen) > 1)

    asyncio.run(scene())


def test_a_lost_state_is_made_good_by_its_repetition(buses: dict[str, Bus], monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        seen: list[object] = []
        async with pumping(buses):
            buses["b"].subscribe("status.a", seen.append)
            publisher = buses["a"].publish("status.a")
            publisher.set(Heads(1))
            await until(lambda: bool(seen))
            with monkeypatch.context() as patched:
                patched.setattr(publisher._link, "send", lambda frames: False)
                publisher.set(Heads(2))
            await until(lambda: seen == [Heads(1), Heads(2)])

    asyncio.run(scene())


def test_an_older_state_is_never_handed_on(buses: dict[str, Bus]) -> None:
    async def scene() -> None:
        seen: list[object] = []
        async with pumping(buses):
            buses["b"].subscribe("status.a", seen.append)
            publisher = buses["a"].publish("status.a")
            publisher.set(Heads(1))
            publisher.set(Heads(2))
            await until(lambda: seen[-1:] == [Heads(2)])

            def send(incarnation: int, sequence: int, state: Heads) -> None:
                head = encode_head(Envelope(0, incarnation, sequence, 0, None))
                assert publisher._link.send([head, publisher._codec.encode(state)])

            send(1, 1, Heads(1))
            publisher.set(Heads(3))
            await until(lambda: seen[-1] == Heads(3))
            assert seen[-2] == Heads(2)
            buses["b"]._courier.board.start(0, 2)
            send(2, 1, Heads(1))
            await until(lambda: seen[-1] == Heads(1))
            send(1, 900, Heads(9))
            send(2, 2, Heads(4))
            await until(lambda: seen[-1] == Heads(4))
            assert seen[-2] == Heads(1) and buses["b"].counters["messages_stale"] > 0

    asyncio.run(scene())
