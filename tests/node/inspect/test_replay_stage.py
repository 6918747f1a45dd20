"""A replay fails after a time in which neither an L1 block was read nor an L2 block derived."""

import asyncio
from pathlib import Path

import pytest

from rollup_node.ipc.bus.in_process import in_process_buses
from rollup_node.node.inspect import replay_stage
from rollup_node.node.inspect.replay_stage import IDLE_SECONDS, PROGRESS_TIMEOUT, RESET, ReplayFailed, ReplayStage
from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.protocol.config import ForeignFork
from rollup_node.stages.topology import CHANNELS
from tests.support.chain_fixture import GENESIS_TIME, ChainFixture, make_rollup


class ManualClock:
    """Replaces the module `time`; the test moves it."""

    now = 1000.0

    @classmethod
    def monotonic(cls) -> float:
        return cls.now


def test_a_replay_continues_while_l1_is_read(
    chain: ChainFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_stage, "time", ManualClock)
    buses = in_process_buses(CHANNELS, tmp_path, dict.fromkeys(("l1", "derivation", "engine", "rpc"), 1))
    config = replay_stage.ReplayConfig(chain.rollup, 0, 5, None, "blocks.json", None, True, 1, 2)
    stage = ReplayStage(config, buses["engine"], Meter("engine"))
    monkeypatch.setattr(stage, "_pipeline_start", object())
    for number in (101, 102, 103):
        ManualClock.now += PROGRESS_TIMEOUT - 1
        stage._on_derivation(DerivationStatus(RESET, chain.l1_ref(number), False, 0))
        assert asyncio.run(stage._advance()) == IDLE_SECONDS
    ManualClock.now += PROGRESS_TIMEOUT + 1
    stage._on_derivation(DerivationStatus(RESET, chain.l1_ref(103), False, 1))
    with pytest.raises(ReplayFailed, match="nothing is derived after block 0"):
        asyncio.run(stage._advance())
    for bus in buses.values():
        bus.close()


@pytest.mark.parametrize("first", [2, 3])
def test_nothing_is_derived_after_the_last_block_before_a_foreign_fork(first: int, tmp_path: Path) -> None:
    """[LFT9]"""
    rollup = make_rollup(foreign_fork=ForeignFork("Somefork", GENESIS_TIME + 6))
    buses = in_process_buses(CHANNELS, tmp_path, dict.fromkeys(("l1", "derivation", "engine", "rpc"), 1))
    config = replay_stage.ReplayConfig(rollup, first, 5, None, "blocks.json", None, True, 1, 2)
    stage = ReplayStage(config, buses["engine"], Meter("engine"))
    with pytest.raises(ReplayFailed, match=rf"after block {first}: block 2 is the last .*\(NETWORK-LEFT\)"):
        asyncio.run(stage._advance())
    for bus in buses.values():
        bus.close()
