"""States are repeated, never go back, and reach whoever comes late."""

import asyncio
import time
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
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture
def buses(tmp_path: Path) -> dict[str, Bus]:
    return Bus.for_test(CHANNELS, tmp_path, {"a": 1, "b": 2})


def test_the_last_state_of_each_type_is_seen_by_all(buses: dict[str, Bus]) -> None:
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
            started = time.monotonic()
            buses["b:1"].subscribe("status.a", late.append)
            await until(lambda: len(late) == 2)
            assert time.monotonic() - started < status.REPEAT_SECONDS * 5
            assert late == [Health(("slow",)), Heads(499)]
            numbers = [state.number for state in early if isinstance(state, Heads)]
            assert numbers == sorted(set(numbers))

    asyncio.run(scene())


def test_repeats_and_equal_states_are_not_news(buses: dict[str, Bus], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "REPEAT_SECONDS", 0.01)

    async def scene() -> None:
        seen: list[object] = []
        sent: list[list[bytes]] = []
        async with pumping(buses):
            buses["b"].subscribe("status.a", seen.append)
            publisher = buses["a"].publish("status.a")
            monkeypatch.setattr(publisher._link, "send", lambda frames: bool(sent.append(frames)) or True)
            publisher.set(Heads(1))
            publisher.set(Heads(1))
            assert len(sent) == 1
            monkeypatch.undo()
            await until(lambda: bool(seen))
            await asyncio.sleep(0.2)
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
            old = [encode_head(Envelope(0, 1, 1, 0, None)), publisher._codec.encode(Heads(1))]
            publisher._link.send(old)
            await asyncio.sleep(0.1)
            assert seen[-1] == Heads(2)
            board = buses["b"]._courier.board
            board.start(0, 2)
            publisher._link.send([encode_head(Envelope(0, 2, 1, 0, None)), publisher._codec.encode(Heads(1))])
            await until(lambda: seen[-1] == Heads(1))
            publisher._link.send([encode_head(Envelope(0, 1, 900, 0, None)), publisher._codec.encode(Heads(9))])
            await asyncio.sleep(0.1)
            assert seen[-1] == Heads(1) and buses["b"].counters["messages_stale"] > 0

    asyncio.run(scene())
