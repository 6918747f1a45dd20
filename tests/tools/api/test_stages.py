"""The stages of the library: which drops belong to which block, and what a failure is."""

import asyncio
from pathlib import Path

import pytest

from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.derivation.pipeline.outputs import NeedReset
from rollup_node.stages.derivation.reasons.batches import TimestampPast
from rollup_node.stages.derivation.reasons.l1 import BlobsNotFound
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.blobs import BlobsResponse, BlobsUnavailable
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.tools.api import stages
from rollup_node.tools.api.blocks import Block
from rollup_node.tools.api.stages import LibraryDerivationStage, LibraryEngineStage, Outcome
from rollup_node.tools.history.start_stage import RangeStartConfig
from rollup_node.tools.inspect.batch_summary import Batch
from rollup_node.tools.inspect.replay import compare_block
from rollup_node.tools.inspect.replay_stage import NoProgress, ReplayConfig, ReplayFailed
from rollup_node.tools.inspect.row_formats import RowFormat
from tests.support.chains.chain_fixture import L1_CHAIN, ChainFixture
from tests.tools.conftest import NewBuses

SOURCE = Batch("singular", 12, 1, b"\xc1" * 16, 99, ())
DROPPED = Dropped(DropEffect.PAST, TimestampPast(1, 2), None)


def test_drops_are_taken_once_and_only_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MAX_DROPS", 2)
    outcome = Outcome()
    for number in range(5):
        outcome.drop(DROPPED._replace(reason=TimestampPast(number, 9)))
    drops, omitted = outcome.take_drops()
    assert ([drop.values for drop in drops], omitted) == ([{"timestamp": 3, "next": 9}, {"timestamp": 4, "next": 9}], 3)
    assert outcome.take_drops() == ((), 0)


def test_resets_and_unavailable_data_are_noted(chain: ChainFixture, new_buses: NewBuses, tmp_path: Path) -> None:
    outcome = Outcome()
    config = DerivationConfig(chain.rollup, L1_CHAIN, ahead=0)
    bus = new_buses(tmp_path)["derivation"]
    stage = LibraryDerivationStage(config, bus, Meter("derivation"), outcome, assume_parents=True)
    stage._handle(NeedReset(BlobsNotFound(5)))
    assert outcome.reset_rule == BlobsNotFound.rule
    for message, text in ((BlobsUnavailable(b"", False, "gone"), "gone"), (BlobsResponse(b"", ()), "")):
        stage._on_blobs(message)
        assert outcome.unavailable == text


async def test_blocks_wait_until_they_are_wanted(
    chain: ChainFixture, new_buses: NewBuses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That time does not count as one without progress."""
    monkeypatch.setattr(stages, "MAX_DROPS", 1)
    wanted, emitted = asyncio.Event(), []

    async def emit(block: Block) -> None:
        emitted.append(block)
        await wanted.wait()

    replay = ReplayConfig(chain.rollup, 0, 9, None, "x", None, RowFormat.JSON, -1, -1, timeout=30.0)
    outcome = Outcome()
    bus = new_buses(tmp_path)["engine"]
    stage = LibraryEngineStage(RangeStartConfig(replay, 0, 0, 0, 0), bus, Meter("engine"), outcome, emit)
    outcome.batch = SOURCE
    for _ in range(3):
        outcome.drop(DROPPED)
    attributes = chain.attributes(chain.genesis, 100)
    derived = AttributesReady(1, 1, chain.genesis, attributes, chain.l1_ref(100), True)
    stage._patience._since -= 60.0
    writing = asyncio.create_task(stage._write_block(compare_block(chain.rollup, derived, None)))
    while not emitted:
        await asyncio.sleep(0)
    assert not writing.done() and emitted[0].number == 1
    assert (len(emitted[0].drops), emitted[0].drops_omitted) == (1, 2)
    wanted.set()
    await writing
    await stage._wait()
    outcome.unavailable = "no blobs"
    stage._patience._since -= 60.0
    with pytest.raises(NoProgress, match="nothing is derived after block 0: no blobs"):
        await stage._wait()
    await stage._warn("a warning")
    await stage._write_failure(ReplayFailed("why"))
    assert (outcome.warnings, str(outcome.failure)) == (["a warning"], "why")
