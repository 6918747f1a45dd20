"""The derivation process with simulated l1, blobs and engine processes, on recorded blocks: lost messages and resets
cost only time."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.node.runtime.task_runner import Problems, TaskRunner
from rollup_node.stages.derivation import tasks
from rollup_node.stages.derivation.codec.frames import Frame, parse_frames
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.derivation.pipeline import block_frames
from rollup_node.stages.derivation.process import batch_watch
from rollup_node.stages.derivation.process import stage as stages
from rollup_node.stages.derivation.process.derivation_log import DropBuffer
from rollup_node.stages.derivation.process.requests import WaitClock
from rollup_node.stages.derivation.process.stage import DerivationStage, build
from rollup_node.stages.derivation.reasons.reason import Reason
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Record
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import Health, Message
from rollup_node.stages.messages.blobs import BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.messages.derivation import (
    DerivationStatus,
    DerivationWaits,
    Drop,
    DropEffect,
    Drops,
    DropsRequest,
    DropsResponse,
)
from rollup_node.stages.messages.engine import (
    STARTS_A_LIFE,
    AttributesAhead,
    AttributesOutcome,
    AttributesReady,
    AttributesResult,
    EngineStatus,
    PipelineStart,
    StartRequest,
)
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.types import BlockId, L1Block, L1BlockRef
from rollup_node.stages.rpc.status.progress import longest_wait
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.support.chains.op_sepolia import FIRST_L1, FIRST_L2, LAST_DERIVED_L1, SepoliaRecording
from tests.support.timing.conditions import until

ROLES = ("l1", "blobs", "engine", "derivation", "rpc", "compute")
State = TypeVar("State", bound=Message)


class Neighbours:
    """The stage between simulated l1, blobs and engine processes; `requests` are what it sent to them.

    A request for which `is_lost` holds is not answered."""

    def __init__(self, config: DerivationConfig, directory: Path) -> None:
        self.is_lost: Callable[[Message], bool] = lambda message: False
        self.reset = 1
        self.requests: list[Message] = []
        self.meter = Meter("derivation")
        self.task: asyncio.Task[None] | None = None
        self.buses = in_process_buses(CHANNELS, directory, dict.fromkeys(ROLES, 1))
        self._l1_client = ProcessId(0, 0)
        self._states: dict[type[Message], Message] = {}
        self._l1 = self.buses["l1"].serve("l1.blocks", self._on_l1)
        self._blobs = self.buses["blobs"].serve("blobs.contents", self._on_blobs)
        self._engine = self.buses["engine"].serve("engine.blocks", self._on_engine)
        self.buses["rpc"].subscribe("status.derivation", self._on_status)
        self.buses["compute"].work({"work.derivation": tasks.run})
        self.stage: DerivationStage = build(config, self.buses["derivation"], self.meter)

    def _on_status(self, state: Message) -> None:
        self._states[type(state)] = state

    def _on_l1(self, peer: ProcessId, request: L1BlocksRequest) -> None:
        self.requests.append(request)
        if self.is_lost(request):
            return
        self._l1_client = peer
        for number in range(request.first, request.first + request.count):
            block = self.l1_block(number)
            if block is None:
                self._l1.send(peer, L1BlockUnavailable(number, number - 1, None))
                return
            self._l1.send(peer, L1BlockResponse(block))

    def l1_block(self, number: int) -> L1Block | None:
        """Return the L1 block of this number, if there is one yet."""
        raise NotImplementedError

    def _on_blobs(self, peer: ProcessId, request: Any) -> None:
        raise NotImplementedError

    def _on_engine(self, peer: ProcessId, message: Message) -> None:
        raise NotImplementedError

    def state(self, kind: type[State]) -> State | None:
        """Return the last state of a kind that was published."""
        result = self._states.get(kind)
        return result if isinstance(result, kind) else None

    until = staticmethod(until)

    async def until_state(self, kind: type[State], condition: Callable[[State], bool]) -> State:
        """Return the state of a kind, once there is one for which the condition holds."""
        async with asyncio.timeout(30):
            while (state := self.state(kind)) is None or not condition(state):
                await asyncio.sleep(0.01)
        return state

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Repeat the stage's steps as the runtime does."""
        driver = TaskRunner(self.stage, self.meter, Problems(self.stage, self.meter), "derivation")
        async with running_buses(self.buses):
            await self.stage.start()
            self.task = task = asyncio.create_task(driver.run(self.stage.periodic_tasks[0]))
            try:
                yield
            finally:
                driver.stop()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await self.stage.close()


class StageHarness(Neighbours):
    """The stage on recorded blocks; blobs without `has_blobs` are not found."""

    def __init__(
        self, recording: SepoliaRecording, directory: Path, drops_are_read: bool = False, managed: bool = False
    ) -> None:
        config = DerivationConfig(
            recording.config, L1_CHAINS[11155111], window=64, drops_are_read=drops_are_read, managed=managed
        )
        super().__init__(config, directory)
        self.recording = recording
        self.has_blobs: Callable[[BlobsRequest], bool] = lambda request: True
        self.derived: list[AttributesReady] = []
        self.head = FIRST_L2
        self.ahead = 0
        self.replaced: dict[int, L1Block] = {}
        self.engine_status = self.buses["engine"].publish("status.engine")

    def l1_block(self, number: int) -> L1Block | None:
        return self.replaced.get(number) or self.recording.l1_blocks.get(number)

    def push(self, number: int) -> None:
        """L1 has another block of this number, which its process sends unasked."""
        self._l1.send(self._l1_client, L1BlockResponse(self.replaced[number]))

    def _on_blobs(self, peer: ProcessId, request: BlobsRequest) -> None:
        self.requests.append(request)
        if not self.has_blobs(request):
            self._blobs.send(peer, BlobsUnavailable(request.block.hash, True, "none"))
        elif not self.is_lost(request):
            self._blobs.send(peer, BlobsResponse(request.block.hash, self.recording.contents(request.blobs)))

    def _on_engine(self, peer: ProcessId, message: Message) -> None:
        self.requests.append(message)
        if self.is_lost(message):
            return
        if isinstance(message, StartRequest) and message.reset < self.reset:
            self.head = FIRST_L2
            self._engine.send(peer, self._start())
        elif isinstance(message, AttributesReady) and message.reset == self.reset:
            self._on_attributes(peer, message)
        elif isinstance(message, AttributesAhead):
            self.ahead += len(message.blocks)
            for block in message.blocks:
                if block.reset == self.reset:
                    self._on_attributes(peer, block)

    def _start(self) -> PipelineStart:
        block = self.recording.l2_blocks[FIRST_L2]
        config = self.recording.config.genesis.system_config
        base = BlockId(FIRST_L1, self.recording.l1_blocks[FIRST_L1].header.hash)
        return PipelineStart(self.reset, block.ref, self.recording.config_of(FIRST_L2), base, config)

    def _on_attributes(self, peer: ProcessId, message: AttributesReady) -> None:
        if message.parent.number == self.head:
            self.derived.append(message)
            self.head += 1
        block = self.recording.l2_blocks.get(message.parent.number + 1)
        if block is not None:
            config = self.recording.config_of(block.ref.number)
            result = AttributesResult(
                self.reset, message.sequence, AttributesOutcome.ACCEPTED, block.ref, config, message.derived_from
            )
            self._engine.send(peer, result)

    def starts(self) -> list[StartRequest]:
        """Return the requests for a start; those with a reason are resets."""
        return [request for request in self.requests if isinstance(request, StartRequest)]

    def check_derived(self) -> None:
        """The derived blocks are the recorded ones."""
        for derived in self.derived[:4]:
            block = self.recording.l2_blocks[derived.parent.number + 1]
            assert derived.attributes.transactions == block.content.transactions


@pytest.mark.parametrize("missing", [True, False])
async def test_blobs_that_stay_missing_are_a_reset_also_while_those_of_later_blocks_are_missing(
    recording: SepoliaRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    """[T8]"""
    monkeypatch.setattr(stages, "BLOBS_NOT_FOUND_SECONDS", 1.2)

    harness = StageHarness(recording, tmp_path)
    harness.has_blobs = lambda request: not missing and request.urgent
    async with harness.running():
        if missing:
            await harness.until(lambda: any(start.reason for start in harness.starts()))
            assert "no source has the blobs of L1 block" in str(harness.starts()[-1].reason)
            assert any(map(_is_ahead, harness.requests))
        else:
            await harness.until(lambda: len(harness.derived) == 5)
            assert not any(start.reason for start in harness.starts())


def test_resets_for_the_same_missing_blobs_come_at_growing_intervals(
    recording: SepoliaRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[T8]"""
    monkeypatch.setattr(stages, "BLOBS_NOT_FOUND_SECONDS", 0.2)
    resets: list[float] = []

    async def play() -> None:
        harness = StageHarness(recording, tmp_path)
        harness.has_blobs = lambda _: False

        def count() -> bool:
            if any(start.reason and start.reset == harness.reset for start in harness.starts()):
                resets.append(time.monotonic())
                harness.reset += 1
            return len(resets) == 4

        async with harness.running():
            await harness.until(count)

    asyncio.run(play())
    assert resets[3] - resets[0] > 0.2 * (2 + 4 + 8)


async def test_blobs_that_were_found_before_are_waited_for_again(
    recording: SepoliaRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[T8] The engine starts derivation again, and the sources of blobs do not have them for a moment."""
    harness = StageHarness(recording, tmp_path)
    late: list[BlobsRequest] = []
    begin = time.monotonic()

    def has_blobs(request: BlobsRequest) -> bool:
        is_late = not late or (request.block == late[0].block and len(late) < 3)
        late.extend([request] * is_late)
        return not is_late

    harness.has_blobs = has_blobs
    async with harness.running():
        await harness.until(lambda: len(harness.derived) == 5)
        await asyncio.sleep(1.5)
        monkeypatch.setattr(stages, "BLOBS_NOT_FOUND_SECONDS", time.monotonic() - begin)
        late[:], harness.reset = [], harness.reset + 1
        harness.engine_status.set(EngineStatus(harness.reset, None, None, None, None, None, False, False))
        await harness.until(lambda: len(harness.derived) == 10)
    assert not any(start.reason for start in harness.starts())


def _is_ahead(message: Message) -> bool:
    return isinstance(message, BlobsRequest) and not message.urgent


def is_at(number: int) -> Callable[[DerivationStatus], bool]:
    """Whether an L1 block is the one being read."""
    return lambda status: status.current_l1 is not None and status.current_l1.number == number


async def test_derives_the_recorded_blocks(
    recording: SepoliaRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blobs of later blocks are requested while those of the block being read are waited for. Every data item is
    parsed once: the prefetcher parses ahead, and the pipeline takes over the frames."""
    parsed: Counter[bytes] = Counter()

    def counting(data: bytes) -> list[Frame] | Reason:
        parsed[data] += 1
        return parse_frames(data)

    monkeypatch.setattr(block_frames, "parse_frames", counting)
    harness = StageHarness(recording, tmp_path)
    harness.is_lost = lambda message: (
        isinstance(message, BlobsRequest) and message.urgent and not any(map(_is_ahead, harness.requests))
    )
    async with harness.running():
        await harness.until(lambda: len(harness.derived) == 5)
        await harness.until_state(DerivationStatus, is_at(LAST_DERIVED_L1))
        await harness.until_state(Health, lambda health: health.problems == ())
    harness.check_derived()
    assert len(parsed) >= 6 and set(parsed.values()) == {1}


@pytest.mark.parametrize(
    ("lost", "process"), [(L1BlocksRequest, "l1"), (BlobsRequest, "blobs"), (AttributesReady, "engine")]
)
async def test_the_process_that_is_waited_for_is_named(
    recording: SepoliaRecording, tmp_path: Path, lost: type[Message], process: str
) -> None:
    """[LOG17]"""
    harness = StageHarness(recording, tmp_path)
    harness.stage._waits = WaitClock(lambda: time.monotonic() * 20)
    harness.is_lost = lambda message: isinstance(message, lost)
    async with harness.running():
        await harness.until_state(
            DerivationStatus, lambda status: longest_wait(DerivationWaits(), status.waits) == process
        )
        first = harness.state(DerivationStatus)
        assert first is not None
        await harness.until_state(DerivationStatus, lambda status: longest_wait(first.waits, status.waits) == process)


async def test_an_inbox_that_another_batcher_uses_is_a_problem(
    recording: SepoliaRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[LOG16]"""
    monkeypatch.setattr(batch_watch, "LEAST_BLOCKS", 5)
    monkeypatch.setattr(batch_watch, "UNREADY_PART", 1000)
    genesis = recording.config.genesis.system_config
    stranger = msgspec.structs.replace(genesis, batcher=b"\7" * 20)

    harness = StageHarness(recording, tmp_path)
    start = harness._start()
    monkeypatch.setattr(harness, "_start", lambda: msgspec.structs.replace(start, base_config=stranger))
    async with harness.running():
        await harness.until_state(Health, lambda health: "NO-BATCHES: no batch" in "".join(map(str, health.problems)))
    assert set(harness.stage._batches._senders) == {to_hex(genesis.batcher)}


async def test_derivation_waits_for_the_reader_of_its_drops(
    recording: SepoliaRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for three drops derivation continues only as they are read, and none is missed."""
    harness = StageHarness(recording, tmp_path, drops_are_read=True)
    buffer = DropBuffer(kept=3)
    monkeypatch.setattr(harness.stage.derivation_log, "buffer", buffer)
    result: dict[int, Drop] = {}

    def take(page: DropsResponse) -> None:
        result.update(enumerate(page.drops, start=page.first))

    reader = harness.buses["rpc"].connect("derivation.drops", take)
    async with harness.running():
        await harness.until(lambda: buffer.is_full)
        for _ in range(20):
            await harness.stage.periodic_tasks[0].step()
        assert (buffer.total, harness.derived) == (3, [])
        async with asyncio.timeout(30):
            while len(harness.derived) < 5 or len(result) < buffer.total:
                reader.send(DropsRequest(1, len(result)))
                await asyncio.sleep(0.01)
        drops = await harness.until_state(Drops, lambda drops: drops.total == buffer.total)
    assert sorted(result) == list(range(len(result))) and len(result) > 10
    assert drops.latest[-1] == result[len(result) - 1]
    assert {drop.rule for drop in result.values()} == {"BS2", "PX5"}
    assert (result[0].effect, result[0].reason) == (DropEffect.DISCARDED, "channel_behind_safe_head")
    assert "channel" in result[0].values


async def test_a_supervisor_decides_which_l1_block_is_read(recording: SepoliaRecording, tmp_path: Path) -> None:
    """[IOP4, IOP14]: derivation is idle at each L1 block until the next one is provided."""
    harness = StageHarness(recording, tmp_path, managed=True)

    def provide(ref: L1BlockRef) -> None:
        harness.engine_status.set(EngineStatus(harness.reset, None, None, None, None, None, False, False, None, ref))

    async with harness.running():
        for number in range(FIRST_L1, LAST_DERIVED_L1):
            await harness.until_state(DerivationStatus, is_at(number))
            await harness.until_state(DerivationStatus, lambda status: status.idle)
            provide(recording.l1_blocks[number + 1].ref)
        await harness.until(lambda: len(harness.derived) == 5)
        harness.check_derived()
        await harness.until_state(DerivationStatus, is_at(LAST_DERIVED_L1))


async def test_at_the_tip_the_next_l1_block_is_asked_for_rarely_and_of_a_new_l1_process_soon(
    recording: SepoliaRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "IDLE_SECONDS", 3.0)
    harness = StageHarness(recording, tmp_path, managed=True)
    async with harness.running():
        await harness.until_state(DerivationStatus, lambda status: status.idle)
        times = list[float]()

        def received(message: Message) -> bool:
            times.append(time.monotonic())
            if len(times) == 2:
                monkeypatch.setattr(stages, "IDLE_SECONDS", 1e6)
            return False

        harness.is_lost = received
        await harness.until(lambda: len(times) >= 2)
        assert times[1] // 3 > times[0] // 3
        l1 = harness.buses["l1"].transport
        l1.process_id = l1.process_id._replace(incarnation=2)
        l1.liveness.start(*l1.process_id)
        await harness.until(lambda: len(times) >= 3)


async def test_an_l1_block_that_does_not_follow_is_a_reason_for_another_start(
    recording: SepoliaRecording, tmp_path: Path
) -> None:
    """[IOP14]"""
    harness = StageHarness(recording, tmp_path, managed=True)
    async with harness.running():
        await harness.until_state(DerivationStatus, lambda status: status.idle)
        wrong = L1BlockRef(b"\x01" * 32, FIRST_L1 + 1, b"\x02" * 32, 0)
        harness.engine_status.set(EngineStatus(harness.reset, None, None, None, None, None, False, False, None, wrong))

        def reasons() -> list[str]:
            requests = (request for request in harness.requests if isinstance(request, StartRequest))
            return [request.reason for request in requests if request.reason is not None]

        await harness.until(lambda: bool(reasons()))
        assert reasons()[0].startswith("provided next L1 block ")
        assert " does not build on last processed L1 block " in reasons()[0]


@pytest.mark.fault("F56")
async def test_lost_messages_cost_only_time(recording: SepoliaRecording, tmp_path: Path) -> None:
    seen: set[tuple[Any, ...]] = set()

    def is_first(message: Message) -> bool:
        key = (type(message), getattr(message, "sequence", None), getattr(message, "first", None))
        known = key in seen
        seen.add(key)
        return not known

    harness = StageHarness(recording, tmp_path)
    harness.is_lost = is_first
    async with harness.running():
        await harness.until(lambda: len(harness.derived) == 5)
    harness.check_derived()


async def test_a_new_start_derives_again(recording: SepoliaRecording, tmp_path: Path) -> None:
    """The log numbers the starts in this life of the engine process."""
    records: list[Record] = []
    log.configure("", log.Level.INFO, records.append)
    again = 3 * STARTS_A_LIFE + 7
    harness = StageHarness(recording, tmp_path)
    async with harness.running():
        await harness.until(lambda: len(harness.derived) == 5)
        harness.derived.clear()
        harness.reset, harness.head = again, FIRST_L2
        harness.engine_status.set(EngineStatus(again, None, None, None, None, None, False, False))
        await harness.until(lambda: len(harness.derived) == 5)
        assert {derived.reset for derived in harness.derived} == {again}
    assert [record.fields["reset"] for record in records if record.message == "starting derivation"] == [1, 7]
    harness.check_derived()


async def test_a_reset_error_requests_a_start(recording: SepoliaRecording, tmp_path: Path) -> None:
    harness = StageHarness(recording, tmp_path)
    async with harness.running():
        await harness.until(lambda: len(harness.derived) == 5)
        harness.stage.reset(ValueError("made up"))
        await harness.until(lambda: StartRequest(1, "made up") in harness.requests)
        await harness.until_state(Health, lambda health: any("made up" in problem.text for problem in health.problems))
