"""The process between made-up neighbours, on recorded blocks: loss, restarts and resets cost only time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.ipc.bus.in_process import in_process_buses, running_buses
from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.derivation.process.drop_buffer import DropHistory
from rollup_node.stages.derivation.process.stage import DerivationStage, build
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.blobs import BlobsRequest, BlobsResponse
from rollup_node.stages.messages.derivation import DerivationStatus, Drop, Drops, DropsRequest, DropsResponse
from rollup_node.stages.messages.engine import (
    AttributesOutcome,
    AttributesReady,
    AttributesResult,
    EngineStatus,
    PipelineStart,
    StartRequest,
)
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.types import BlockId
from rollup_node.stages.topology import CHANNELS

BASE, FIRST = 6582895, 16491244
ROLES = ("l1", "blobs", "engine", "derivation", "rpc", "compute")


class Neighbours:
    """Simple l1, blobs and engine processes. Every message that `loses` says is lost is not answered."""

    def __init__(self, recording: Any, directory: Path, inline: bool = False, drops_are_read: bool = False) -> None:
        self.recording = recording
        self.buses = in_process_buses(CHANNELS, directory, dict.fromkeys(ROLES, 1))
        self.loses: Callable[[Any], bool] = lambda message: False
        self.derived: list[AttributesReady] = []
        self.reset = 1
        self.head = FIRST
        self.refuse_next = False
        self.asked: list[Any] = []
        self.states: dict[type, Any] = {}
        self.l1 = self.buses["l1"].serve("l1.blocks", self._on_l1)
        self.blobs = self.buses["blobs"].serve("blobs.contents", self._on_blobs)
        self.engine = self.buses["engine"].serve("engine.blocks", self._on_engine)
        self.engine_status = self.buses["engine"].publish("status.engine")
        self.buses["rpc"].subscribe("status.derivation", lambda state: self.states.update({type(state): state}))
        self.buses["compute"].work({"work.derivation": tasks.run})
        config = DerivationConfig(
            recording.config,
            L1_CHAINS[11155111],
            window=64,
            inline_decoding=inline,
            drops_are_read=drops_are_read,
        )
        self.stage: DerivationStage = build(config, self.buses["derivation"], Meter("derivation"))

    def start(self) -> PipelineStart:
        block = self.recording.l2_blocks[FIRST]
        config = self.recording.config.genesis.system_config
        base = BlockId(BASE, self.recording.l1_blocks[BASE].header.hash)
        return PipelineStart(self.reset, block.ref, self.recording.config_of(FIRST), base, config)

    def _on_l1(self, peer: ProcessId, want: L1BlocksRequest) -> None:
        self.asked.append(want)
        if self.loses(want):
            return
        for number in range(want.first, want.first + want.count):
            block = self.recording.l1_blocks.get(number)
            if block is None:
                self.l1.send(peer, L1BlockUnavailable(number, number - 1, None))
                return
            self.l1.send(peer, L1BlockResponse(block))

    def _on_blobs(self, peer: ProcessId, want: BlobsRequest) -> None:
        self.asked.append(want)
        if not self.loses(want):
            self.blobs.send(peer, BlobsResponse(want.block.hash, self.recording.contents(want.blobs)))

    def _on_engine(self, peer: ProcessId, message: Any) -> None:
        self.asked.append(message)
        if self.loses(message):
            return
        if isinstance(message, StartRequest) and message.reset < self.reset:
            self.head = FIRST
            self.engine.send(peer, self.start())
        elif isinstance(message, AttributesReady) and message.reset == self.reset:
            self._apply(peer, message)

    def _apply(self, peer: ProcessId, message: AttributesReady) -> None:
        if message.parent.number == self.head:
            self.derived.append(message)
            self.head += 1
        block = self.recording.l2_blocks.get(message.parent.number + 1)
        if block is not None:
            config = self.recording.config_of(block.ref.number)
            self.engine.send(
                peer, AttributesResult(self.reset, message.sequence, AttributesOutcome.ACCEPTED, block.ref, config)
            )

    async def until(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.01)

    async def state_when(self, kind: type, condition: Callable[[Any], bool]) -> Any:
        """The state of a kind, once there is one that fulfils a condition."""
        await self.until(lambda: kind in self.states and condition(self.states[kind]))
        return self.states[kind]


@asynccontextmanager
async def running(neighbours: Neighbours) -> AsyncIterator[None]:
    activity = neighbours.stage.periodic_tasks[0]

    async def loop() -> None:
        while True:
            pause = await activity.step()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause or 0.0001):
                    await activity.wake.wait()
            activity.wake.clear()

    async with running_buses(neighbours.buses):
        await neighbours.stage.start()
        task = asyncio.create_task(loop())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await neighbours.stage.close()
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


def _check(neighbours: Neighbours) -> None:
    for derived in neighbours.derived[:4]:
        block = neighbours.recording.l2_blocks[derived.parent.number + 1]
        assert derived.attributes.transactions == block.content.transactions


def _is_ahead(message: Any) -> bool:
    return isinstance(message, BlobsRequest) and not message.urgent


@pytest.mark.parametrize("inline", [False, True])
def test_derives_the_recorded_blocks(recording: Any, tmp_path: Path, inline: bool) -> None:
    """Blobs of blocks ahead are asked for while those needed now are waited for."""

    async def play() -> None:
        neighbours = Neighbours(recording, tmp_path, inline)
        neighbours.loses = lambda message: (
            isinstance(message, BlobsRequest) and message.urgent and not any(map(_is_ahead, neighbours.asked))
        )
        async with running(neighbours):
            await neighbours.until(lambda: len(neighbours.derived) == 5)
            status = await neighbours.state_when(DerivationStatus, lambda status: status.blocks_derived == 4)
            assert status.current_l1.number == 6582952
            await neighbours.state_when(Health, lambda health: health.problems == ())
        _check(neighbours)

    asyncio.run(play())


def test_drops_are_told_and_waited_with(recording: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for three drops derivation goes on only as they are read, and all of them are."""

    async def play() -> None:
        neighbours = Neighbours(recording, tmp_path, drops_are_read=True)
        monkeypatch.setattr(neighbours.stage._journal, "history", DropHistory(kept=3))
        found: dict[int, Drop] = {}

        def take(page: DropsResponse) -> None:
            found.update(enumerate(page.drops, start=page.first))

        reader = neighbours.buses["rpc"].connect("derivation.drops", take)
        async with running(neighbours):
            with pytest.raises(TimeoutError):
                await neighbours.until(lambda: bool(neighbours.derived), 1.5)
            await neighbours.state_when(Drops, lambda drops: drops.total > 0)
            async with asyncio.timeout(20):
                while len(neighbours.derived) < 5 or len(found) < neighbours.states[Drops].total:
                    reader.send(DropsRequest(1, len(found)))
                    await asyncio.sleep(0.01)
        assert sorted(found) == list(range(len(found))) and len(found) > 10
        assert {drop.rule for drop in found.values()} == {"BS2", "PX5"}
        assert found[0].effect == "discarded" and found[0].reason == "behind" and "channel" in found[0].values

    asyncio.run(play())


def test_messages_lost_cost_only_time(recording: Any, tmp_path: Path) -> None:
    seen: set[Any] = set()

    def first_time(message: Any) -> bool:
        key = (type(message), getattr(message, "sequence", None), getattr(message, "first", None))
        known = key in seen
        seen.add(key)
        return not known

    async def play() -> None:
        neighbours = Neighbours(recording, tmp_path)
        neighbours.loses = first_time
        async with running(neighbours):
            await neighbours.until(lambda: len(neighbours.derived) == 5, 30)
        _check(neighbours)

    asyncio.run(play())


def test_a_new_start_begins_anew(recording: Any, tmp_path: Path) -> None:
    async def play() -> None:
        neighbours = Neighbours(recording, tmp_path)
        async with running(neighbours):
            await neighbours.until(lambda: len(neighbours.derived) == 5)
            neighbours.derived.clear()
            neighbours.reset, neighbours.head = 7, FIRST
            neighbours.engine_status.set(EngineStatus(7, None, None, None, None, None, False, False))
            await neighbours.until(lambda: len(neighbours.derived) == 5)
            assert {derived.reset for derived in neighbours.derived} == {7}
        _check(neighbours)

    asyncio.run(play())


def test_a_reorged_block_asks_for_a_new_start(recording: Any, tmp_path: Path) -> None:
    async def play() -> None:
        neighbours = Neighbours(recording, tmp_path)
        stage = neighbours.stage
        async with running(neighbours):
            await neighbours.until(lambda: len(neighbours.derived) == 5)
            stage.reset(ValueError("made up"))
            await neighbours.until(lambda: any(getattr(each, "reason", None) == "made up" for each in neighbours.asked))
            await neighbours.state_when(Health, lambda health: any("made up" in each for each in health.problems))

    asyncio.run(play())
