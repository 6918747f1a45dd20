"""The engine process keeps on disk whether an operator started or stopped the sequencer, before it does so."""

from pathlib import Path

import pytest

from rollup_node.stages.engine.process.sequencer_store import (
    AdminState,
    AdminStateFile,
    SequencerState,
    SequencerStateFile,
)
from rollup_node.stages.messages.control import StartSequencerRequest, StopSequencerRequest
from tests.stages.engine.conftest import RunOn
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.engine_node import EngineNode
from tests.support.engine.fake_engine import FakeExecutionEngine


@pytest.mark.option("rpc.admin-state")
def test_starts_and_stops_are_stored_and_fail_with_the_file(run_on: RunOn, tmp_path: Path) -> None:
    """[ADM5]"""
    chain = chain_with(block_time=1)
    engine = FakeExecutionEngine(chain)
    engine.head = chain.genesis.hash
    folder = tmp_path / "state"
    file = AdminStateFile(str(folder / "admin.json"))

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: node.unsafe == 0)
        refused = await node.admin(StartSequencerRequest(1, bytes(32)))
        assert refused.error is not None and file.load() == AdminState(), "only what succeeds is stored"
        assert (await node.admin(StartSequencerRequest(2, chain.genesis.hash))).error is None
        assert file.load() == AdminState(True)
        await node.until(lambda: node.status is not None and node.status.sequencer_active)
        (folder / "admin.json").unlink()
        folder.rmdir()
        folder.write_text("no folder")
        failed = await node.admin(StopSequencerRequest(3))
        assert failed.error is not None
        assert failed.error.startswith("failed to notify sequencer-state listener of stop: ")
        assert node.status is not None and node.status.sequencer_active, "a call that fails changes nothing"
        folder.unlink()
        assert (await node.admin(StopSequencerRequest(4))).error is None
        assert file.load() == AdminState(False)

    run_on(engine)(
        scene,
        sequencer_enabled=True,
        sequencer_stopped=True,
        sequencer_l1_confs=0,
        admin_state_file=str(folder / "admin.json"),
    )


def test_the_stored_state_counts_when_the_process_starts_again(run_on: RunOn, tmp_path: Path) -> None:
    """[ADM7]: it was killed after the stop was stored, and before that was noted beside it."""
    chain = chain_with(block_time=1)
    engine = FakeExecutionEngine(chain)
    engine.head = chain.genesis.hash
    admin, state = str(tmp_path / "admin.json"), str(tmp_path / "sequencer.state")
    SequencerStateFile(state).store(SequencerState(active=True))
    AdminStateFile(admin).store(started=False)

    async def scene(node: EngineNode) -> None:
        await node.until(lambda: node.status is not None and node.unsafe >= 0)
        assert node.status is not None and not node.status.sequencer_active

    run_on(engine)(scene, sequencer_enabled=True, sequencer_state_file=state, admin_state_file=admin)
