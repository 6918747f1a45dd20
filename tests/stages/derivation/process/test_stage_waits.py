"""The derivation process while the engine process waits before an activation block [UPG24]."""

from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.derivation.process.batch_watch import WAITING_WINDOW, BatchParents
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.messages.l1 import L1BlocksRequest
from rollup_node.stages.protocol.types import L1Block
from tests.stages.derivation.process.test_stage import StageHarness
from tests.support.chains.op_sepolia import FIRST_L1, SepoliaRecording


async def test_l1_is_read_further_ahead_while_the_engine_waits_before_an_activation_block(
    recording: SepoliaRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends the wait may come hours later [UPG24]."""

    def last_asked(harness: StageHarness) -> int:
        asked = (request for request in harness.requests if isinstance(request, L1BlocksRequest))
        return max((item.first + item.count for item in asked), default=0)

    harness = StageHarness(recording, tmp_path)
    harness.is_lost = lambda message: isinstance(message, AttributesReady)
    async with harness.running():
        await harness.until(lambda: any(isinstance(request, AttributesReady) for request in harness.requests))
        assert last_asked(harness) < FIRST_L1 + WAITING_WINDOW
        monkeypatch.setattr(BatchParents, "waits", lambda self, derived: derived is not None)
        await harness.until(lambda: last_asked(harness) >= FIRST_L1 + WAITING_WINDOW)


async def test_an_l1_reorg_is_noticed_while_the_engine_waits_before_an_activation_block(
    recording: SepoliaRecording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchParents, "waits", lambda self, derived: derived is not None)

    harness = StageHarness(recording, tmp_path)
    harness.is_lost = lambda message: isinstance(message, AttributesReady)
    async with harness.running():
        await harness.until(lambda: harness.stage._run.current is not None)
        origin = harness.stage.deriver.origin
        assert origin is not None
        block = harness.recording.l1_blocks[origin.number]
        changes = {"parent_hash": bytes(32), "hash": b"\1" * 32, "number": origin.number + 1}
        header = msgspec.structs.replace(block.header, **changes)
        harness.replaced[header.number] = L1Block(header, (), (), ())
        harness.push(header.number)
        await harness.until(lambda: any(start.reason is not None for start in harness.starts()))
        (reset, *_) = [start for start in harness.starts() if start.reason is not None]
        assert reset.reason is not None and f"L1 block {header.number} has parent" in reset.reason
