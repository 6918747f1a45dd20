"""The drops client receives every drop once and in order, although requests are lost and the buffer is small."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.stages.derivation.process.drop_buffer import DropBuffer
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.derivation.reasons.singular import EpochUnknown
from rollup_node.stages.messages.derivation import DropEffect, DropsRequest
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.inspect import drops_client
from rollup_node.tools.inspect.drops_client import DropsClient


class DropsServer:
    """A derivation process that drops batches, with a client. Requests for which `is_lost` holds are not answered."""

    def __init__(self, directory: Path, kept: int) -> None:
        self.buses = in_process_buses(CHANNELS, directory, {"derivation": 1, "engine": 1})
        self.buffer = DropBuffer(kept)
        self.is_lost: Callable[[int], bool] = lambda request_id: False
        self.server = self.buses["derivation"].serve("derivation.drops", self.answer)
        self.client = DropsClient(self.buses["engine"], lambda: None)

    def answer(self, peer: ProcessId, request: DropsRequest) -> None:
        if not self.is_lost(request.id):
            self.server.send(peer, self.buffer.answer(request))

    def drop(self, count: int, waits: bool = True) -> None:
        """Adds `count` drops to the buffer; with `waits` only until it is full."""
        for _ in range(count):
            if waits and self.buffer.is_full:
                return
            self.buffer.add(Dropped(DropEffect.DROPPED, EpochUnknown(self.buffer.total), None))

    async def read(self, count: int) -> list[int]:
        """Adds drops up to `count` in all, and reads until that many were received."""
        received: list[int] = []
        async with asyncio.timeout(20):
            while len(received) < count:
                self.drop(min(50, count - self.buffer.total))
                self.client.request_if_due()
                received += [int(drop.values["epoch"]) for drop in self.client.take()]
                await asyncio.sleep(0.002)
        return received


@pytest.fixture(autouse=True)
def short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drops_client, "REPEAT_SECONDS", 0.01)


def test_no_drop_is_missed_with_a_small_buffer_and_lost_requests(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = DropsServer(tmp_path, kept=20)
        server.is_lost = lambda request_id: request_id % 3 == 1
        async with running_buses(server.buses):
            assert await server.read(500) == list(range(500))
            assert server.client.lost == 0

    asyncio.run(scenario())


def test_a_request_is_complete_when_all_drops_before_its_response_were_received(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = DropsServer(tmp_path, kept=1000)
        server.drop(450)
        async with running_buses(server.buses):
            request_id = server.client.request()
            async with asyncio.timeout(10):
                while not server.client.is_complete(request_id):
                    server.client.request_if_due()
                    await asyncio.sleep(0.002)
            assert [int(drop.values["epoch"]) for drop in server.client.take()] == list(range(450))
            assert not server.client.is_complete(server.client.request())

    asyncio.run(scenario())


def test_drops_that_left_the_buffer_are_counted_as_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = DropsServer(tmp_path, kept=10)
        server.drop(35, waits=False)
        async with running_buses(server.buses):
            assert (await server.read(10))[:10] == list(range(25, 35))
            assert server.client.lost == 25

    asyncio.run(scenario())
