"""Every drop comes to its reader, in order, whatever is lost on the way and however few are kept."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.node.inspect import drops_client as client_drops
from rollup_node.node.inspect.drops_client import DropsReader
from rollup_node.stages.derivation.process.drop_buffer import DropBuffer
from rollup_node.stages.messages.derivation import Drop, DropEffect, DropsRequest
from rollup_node.stages.topology import CHANNELS


class Source:
    """A derivation process that drops things and waits for its reader."""

    def __init__(self, directory: Path, kept: int) -> None:
        self.buses = in_process_buses(CHANNELS, directory, {"derivation": 1, "engine": 1})
        self.history = DropBuffer(kept)
        self.loses: Callable[[int], bool] = lambda number: False
        self.server = self.buses["derivation"].serve("derivation.drops", self.take)
        self.reader = DropsReader(self.buses["engine"], lambda: None)

    def take(self, peer: ProcessId, want: DropsRequest) -> None:
        if not self.loses(want.id):
            self.server.send(peer, self.history.answer(want))

    def drop(self, count: int, waits: bool = True) -> None:
        """Drops as many more, or until the history is full."""
        for _ in range(count):
            if waits and self.history.is_full:
                return
            self.history.add(
                Drop("V1", str(self.history.total), None, False, DropEffect.DROPPED, "l1_window_empty", {})
            )

    async def read(self, count: int) -> list[int]:
        """Reads until so many were dropped and read."""
        found: list[int] = []
        async with asyncio.timeout(20):
            while len(found) < count:
                self.drop(min(50, count - self.history.total))
                self.reader.keep_asking()
                found += [int(drop.text) for drop in self.reader.take()]
                await asyncio.sleep(0.002)
        return found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_drops, "REPEAT_SECONDS", 0.01)


def test_nothing_is_missed_when_few_are_kept_and_questions_are_lost(tmp_path: Path) -> None:
    async def play() -> None:
        source = Source(tmp_path, kept=20)
        source.loses = lambda number: number % 3 == 1
        async with running_buses(source.buses):
            assert await source.read(500) == list(range(500))
            assert source.reader.forgotten == 0

    asyncio.run(play())


def test_all_up_to_a_moment(tmp_path: Path) -> None:
    async def play() -> None:
        source = Source(tmp_path, kept=1000)
        source.drop(450)
        async with running_buses(source.buses):
            question = source.reader.ask()
            async with asyncio.timeout(10):
                while not source.reader.has_all_of(question):
                    source.reader.keep_asking()
                    await asyncio.sleep(0.002)
            assert [int(drop.text) for drop in source.reader.take()] == list(range(450))
            assert not source.reader.has_all_of(source.reader.ask())

    asyncio.run(play())


def test_what_is_forgotten_is_counted(tmp_path: Path) -> None:
    async def play() -> None:
        source = Source(tmp_path, kept=10)
        source.drop(35, waits=False)
        async with running_buses(source.buses):
            assert (await source.read(10))[:10] == list(range(25, 35))
            assert source.reader.forgotten == 25

    asyncio.run(play())
