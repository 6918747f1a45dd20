"""The engine stage of `explain` at what derivation answers: what it writes, and how it ends."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.derivation.process.derivation_log import DropBuffer
from rollup_node.stages.derivation.reasons.batches import QueuedBatchPast
from rollup_node.stages.derivation.reasons.reason import Dropped
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.stages.messages.derivation import DerivationStatus, DropEffect
from rollup_node.tools.inspect import explain_stage
from rollup_node.tools.inspect.explain_stage import ExplainConfig, ExplainStage
from rollup_node.tools.inspect.replay_stage import RESET, ReplayConfig
from rollup_node.tools.inspect.row_formats import RowFormat
from tests.support.chains.chain_fixture import ChainFixture
from tests.tools.conftest import NewBuses

LAST_L1 = 103
NewStage = Callable[[DropBuffer | None], ExplainStage]


@pytest.fixture
def new_stage(
    chain: ChainFixture, new_buses: NewBuses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NewStage]:
    """Make a stage whose derivation runs, answers from these drops, without any never, and writes to files."""
    with open(tmp_path / "out", "wb") as out, open(tmp_path / "err", "wb") as errors:
        files = (out.fileno(), errors.fileno())
        replay = ReplayConfig(chain.rollup, 0, 5, None, "blocks.json", None, RowFormat.TEXT, *files)

        def make(drops: DropBuffer | None) -> ExplainStage:
            async def request(new_request: Callable[..., Any], first: int) -> Any:
                if drops is None:
                    await asyncio.sleep(60)
                    raise AssertionError("it waits for ever")
                return drops.answer(new_request(1, first))

            stage = ExplainStage(ExplainConfig(replay, LAST_L1), new_buses(tmp_path)["engine"], Meter("engine"))
            monkeypatch.setattr(stage, "_pipeline_start", object())
            monkeypatch.setattr(stage._drops, "request", request)
            return stage

        yield make


async def _end(chain: ChainFixture, stage: ExplainStage, number: int, idle: bool) -> int:
    """Has derivation read up to an L1 block, all of it with `idle`; the exit code."""
    stage._on_derivation(DerivationStatus(RESET, chain.l1_ref(number), idle))
    return await _code(stage)


async def _code(stage: ExplainStage) -> int:
    """Return the exit code of a stage that ends."""
    with pytest.raises(ExitRequested) as end:
        await stage._step()
    return end.value.code


def _dropped(chain: ChainFixture, text: str, number: int | None) -> Dropped:
    """Return a batch that is dropped at this L1 block."""
    return Dropped(DropEffect.DROPPED, QueuedBatchPast(text), None if number is None else chain.l1_ref(number))


def _text(cause: str) -> str:
    """How a drop reads."""
    return f"batch dropped: past in the batch queue: {cause} [BQ7]"


async def test_drops_are_written_in_order_up_to_the_last_l1_block(
    chain: ChainFixture, new_stage: NewStage, tmp_path: Path
) -> None:
    """Those at later L1 blocks are left out; the last block ends the run when it is exhausted."""
    drops = DropBuffer()
    stage = new_stage(drops)
    for number in range(500):
        drops.add(_dropped(chain, f"drop {number}", 101 + number // 200))
    drops.add(_dropped(chain, "without a block", None))
    drops.add(_dropped(chain, "too late", 104))
    assert await _end(chain, stage, LAST_L1, True) == 0
    lines = [f"L1 {101 + number // 200}  {_text(f'drop {number}')}" for number in range(500)]
    lines.append(f"L1 unknown  {_text('without a block')}")
    assert (tmp_path / "out").read_text().splitlines() == lines and (tmp_path / "err").read_text() == ""


async def test_lost_drops_are_counted_in_a_warning(chain: ChainFixture, new_stage: NewStage, tmp_path: Path) -> None:
    drops = DropBuffer(kept=2)
    for number in range(5):
        drops.add(_dropped(chain, f"drop {number}", 101))
    assert await _end(chain, new_stage(drops), LAST_L1, True) == 0
    assert (tmp_path / "out").read_text().splitlines() == [f"L1 101  {_text(f'drop {number}')}" for number in (3, 4)]
    assert (tmp_path / "err").read_text() == "rollup-node: warning: 3 drops were discarded before they were read\n"


async def test_derivation_that_does_not_answer_ends_in_a_warning(
    chain: ChainFixture, new_stage: NewStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain_stage, "LAST_DROPS_TIMEOUT", 0.05)
    assert await _end(chain, new_stage(None), 104, False) == 0
    text = "rollup-node: warning: derivation does not answer, later drops may be missing\n"
    assert (tmp_path / "err").read_text() == text


async def test_what_was_dropped_before_a_failure_is_written(
    chain: ChainFixture, new_stage: NewStage, tmp_path: Path
) -> None:
    drops = DropBuffer()
    drops.add(_dropped(chain, "a", 101))
    stage = new_stage(drops)
    stage.reset(ValueError("the blocks contradict each other"))
    assert await _code(stage) == EXIT_REPORTED
    assert (tmp_path / "out").read_text() == f"L1 101  {_text('a')}\n"
    assert (tmp_path / "err").read_text() == "rollup-node: the blocks contradict each other\n"
