"""The engine stage of `explain` with simulated l1 and derivation processes: what it writes, and how it ends."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.derivation.process.derivation_log import DropBuffer
from rollup_node.stages.derivation.reasons.batches import QueuedBatchPast
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.derivation import DerivationStatus, DropEffect, DropsRequest
from rollup_node.stages.messages.engine import PipelineStart, StartRequest
from rollup_node.stages.messages.l1 import L1BlocksRequest, L1RefsRequest, L1RefsResponse
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from rollup_node.tools.inspect import explain_stage
from rollup_node.tools.inspect.explain_stage import ExplainConfig, build
from rollup_node.tools.inspect.replay_stage import RESET, ReplayConfig
from rollup_node.tools.inspect.row_formats import RowFormat
from tests.support.chains.chain_fixture import GENESIS_L1, ChainFixture, block_entry
from tests.support.processes.stage_runner import run_to_exit

ROLES = ("l1", "derivation", "engine", "rpc")
FAR, LAST_L1 = 1 << 40, 103
SAFE = 1
"""The number of the safe head that derivation starts at."""


class Result(NamedTuple):
    """The exit code, and the lines on standard output and standard error."""

    code: int
    out: list[str]
    err: list[str]


class ExplainHarness:
    """The stage, with derivation and l1 as the test drives them.

    The L2 source has the blocks up to 3. Requests for drops are answered from `buffer` while `answers_drops`."""

    def __init__(self, chain: ChainFixture, folder: Path, form: RowFormat = RowFormat.TEXT) -> None:
        self.chain, self.refs = chain, chain.build(3)
        self.buffer = DropBuffer()
        self.answers_drops = True
        self.result: Result
        self._from_engine: list[object] = []
        self._paths = [folder / "out", folder / "err"]
        self._fds = out, err = [os.open(path, os.O_CREAT | os.O_WRONLY) for path in self._paths]
        payloads = [chain.payloads[ref.hash] for ref in self.refs[1:]]
        (folder / "blocks.json").write_text(json.dumps(list(map(block_entry, payloads))))
        blocks = str(folder / "blocks.json")
        replay = ReplayConfig(chain.rollup, SAFE, FAR, None, blocks, GENESIS_L1, form, out, err)
        self.buses = in_process_buses(CHANNELS, folder, dict.fromkeys(ROLES, 1))
        self.stage = build(ExplainConfig(replay, LAST_L1), self.buses["engine"], Meter("engine"))
        derivation = self.buses["derivation"]
        self._drops = derivation.serve("derivation.drops", self._answer_drops)
        self._status = derivation.publish("status.derivation")
        self._engine = derivation.connect("engine.blocks", self._from_engine.append)
        self._origins = self.buses["l1"].serve("l1.origins", self._answer_refs)

    def _answer_drops(self, peer: ProcessId, request: DropsRequest) -> None:
        if self.answers_drops:
            self._drops.send(peer, self.buffer.answer(request))

    def _answer_refs(self, peer: ProcessId, request: L1RefsRequest | L1BlocksRequest) -> None:
        assert isinstance(request, L1RefsRequest)
        self._origins.send(peer, L1RefsResponse(request.last, (self.chain.l1_ref(request.last),), None))

    def drop(self, text: str, l1_number: int | None) -> None:
        """Derivation drops a batch at this L1 block."""
        origin = None if l1_number is None else self.chain.l1_ref(l1_number)
        self.buffer.add(Dropped(DropEffect.DROPPED, QueuedBatchPast(text), origin))

    def read_l1(self, number: int, idle: bool = False) -> None:
        """Derivation has read up to this L1 block; `idle`: all of it."""
        self._status.set(DerivationStatus(RESET, self.chain.l1_ref(number), idle))

    async def start(self) -> PipelineStart:
        """Derivation requests where to start until it is answered."""
        async with asyncio.timeout(10):
            while not self._from_engine:
                self._engine.send(StartRequest(0, None))
                await asyncio.sleep(0.01)
        (start,) = [message for message in self._from_engine[:1] if isinstance(message, PipelineStart)]
        return start

    @asynccontextmanager
    async def running(self) -> AsyncIterator[PipelineStart]:
        """Run the stage beside the block, and to its end; then `result` is known."""
        async with running_buses(self.buses), asyncio.timeout(30):
            async with asyncio.TaskGroup() as group:
                stage = group.create_task(run_to_exit(self.stage))
                yield await self.start()
            await self.stage.close()
        for fd in self._fds:
            os.close(fd)
        out, err = (path.read_text().splitlines() for path in self._paths)
        self.result = Result(stage.result(), out, err)


def _text(cause: str) -> str:
    """How a drop reads."""
    return f"batch dropped: past in the batch queue: {cause} [BQ7]"


async def test_drops_are_written_in_order_up_to_the_last_l1_block(chain: ChainFixture, tmp_path: Path) -> None:
    """Those at later L1 blocks are left out; the last block ends the run when it is exhausted."""
    harness = ExplainHarness(chain, tmp_path)
    async with harness.running() as start:
        assert (start.safe_head, start.base) == (harness.refs[SAFE], chain.l1_ref(GENESIS_L1).id)
        for number in range(300):
            harness.drop(f"drop {number}", 101 + number // 100)
        harness.drop("without a block", None)
        harness.drop("too late", 104)
        harness.read_l1(LAST_L1, idle=True)
    code, out, (warning,) = harness.result
    assert code == 0 and "reading begins at L1 block 100" in warning
    assert out[:-1] == [f"L1 {101 + number // 100}  {_text(f'drop {number}')}" for number in range(300)]
    assert out[-1] == f"L1 unknown  {_text('without a block')}"


async def test_lost_drops_are_counted_in_a_warning(chain: ChainFixture, tmp_path: Path) -> None:
    harness = ExplainHarness(chain, tmp_path)
    harness.buffer = DropBuffer(kept=2)
    for number in range(5):
        harness.drop(f"drop {number}", 101)
    async with harness.running():
        harness.read_l1(LAST_L1, idle=True)
    code, out, err = harness.result
    assert (code, out) == (0, [f"L1 101  {_text('drop 3')}", f"L1 101  {_text('drop 4')}"])
    assert err[-1] == "rollup-node: warning: 3 drops were discarded before they were read"


async def test_derivation_that_does_not_answer_ends_in_a_warning(
    chain: ChainFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain_stage, "LAST_DROPS_TIMEOUT", 0.5)
    harness = ExplainHarness(chain, tmp_path)
    harness.answers_drops = False
    harness.drop("a", 101)
    async with harness.running():
        harness.read_l1(104)
    code, out, err = harness.result
    assert (code, out) == (0, [])
    assert err[-1] == "rollup-node: warning: derivation does not answer, later drops may be missing"
