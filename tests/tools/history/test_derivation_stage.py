"""The derivation process of a range: where it begins and ends, and a disk that refuses."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.stages.messages.engine import PipelineStart
from rollup_node.stages.messages.l1 import L1BlockResponse
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from rollup_node.tools.history.derivation_stage import RESULT, RangeConfig, RangeDerivationStage, build
from tests.conformance.kit.chain import L1Blocks
from tests.support.chains.chain_fixture import L1_CHAIN
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.tools.conftest import NewBuses

NewStage = Callable[..., RangeDerivationStage]
SYSTEM = PLAIN_ROLLUP.genesis.system_config


def _chain() -> L1Blocks:
    """Return seven empty L1 blocks."""
    chain = L1Blocks()
    for _ in range(6):
        chain.add()
    return chain


@pytest.fixture
def new_stage(new_buses: NewBuses) -> NewStage:
    """Make a stage over the third to the fifth block, which has been started at the first."""

    def make(folder: Path, assume_parents: bool = False) -> RangeDerivationStage:
        chain = _chain()
        base = chain.blocks[0]
        derivation = DerivationConfig(PLAIN_ROLLUP, L1_CHAIN)
        first, last = base.header.number + 2, base.header.number + 4
        config = RangeConfig(derivation, first, last, str(folder), assume_parents)
        stage = build(config, new_buses(folder)["derivation"], Meter("derivation"))
        safe = L2BlockRef(b"\x03" * 32, 9, b"\x04" * 32, base.header.timestamp, base.ref.id, 0)
        stage._on_engine(PipelineStart(1, safe, SYSTEM, base.ref.id, SYSTEM))
        for block in chain.blocks:
            stage._on_l1(L1BlockResponse(block))
        return stage

    return make


async def _steps(stage: RangeDerivationStage) -> int:
    """Step the stage until it ends; its exit code."""
    with pytest.raises(ExitRequested) as end:
        for _ in range(20):
            await stage._step()
    return end.value.code


def test_the_next_range_reads_from_a_channel_timeout_before_with_the_config_there(
    new_stage: NewStage, tmp_path: Path
) -> None:
    stage = new_stage(tmp_path, True)
    assert stage._safe is not None
    safe, system = stage._safe
    timeout = PLAIN_ROLLUP.schedule().l1(safe.timestamp).channel_timeout
    stage._safe = msgspec.structs.replace(safe, l1_origin=BlockId(2000, b"\x07" * 32)), system
    later, latest = (msgspec.structs.replace(system, batcher=bytes([number]) * 20) for number in (1, 2))
    stage._configs = [(1000, system), (2000 - timeout, later), (2001 - timeout, latest)]
    resume = stage._resume()
    assert (resume.base, resume.base_config, resume.config) == (2000 - timeout, later, system)


async def test_a_disk_that_refuses_ends_it_with_a_line(
    new_stage: NewStage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / RESULT).mkdir()
    assert await _steps(new_stage(tmp_path)) == EXIT_REPORTED
    assert "cannot write the rows of L1 blocks" in capsys.readouterr().err
