"""The task that logs progress, with a clock of the test."""

import pytest

from rollup_node.stages.io import log
from rollup_node.stages.messages.derivation import Drops
from rollup_node.stages.messages.p2p import PeerStatus
from rollup_node.stages.rpc.process.progress_log import ProgressLog
from rollup_node.stages.rpc.process.status_source import StatusSource
from tests.support.rpc_harness import RpcHarness, RunWithRpc


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> list[log.Record]:
    found: list[log.Record] = []
    monkeypatch.setattr(log, "_configuration", log.Configuration("rpc", log.Level.INFO, found.append))
    return found


def test_statuses_become_lines(with_rpc: RunWithRpc, records: list[log.Record]) -> None:
    """[LOG7] From the processes' own messages; a line every 12 s of the clock."""

    async def scenario(rpc: RpcHarness) -> None:
        now = 0.0
        progress = ProgressLog(StatusSource(rpc.stage.node, lambda: now, lambda: 203.0))
        assert await progress.step() == 1.0
        await rpc.until_ready()
        rpc.status["derivation"].set(Drops(3, ()))
        rpc.status["p2p"].set(PeerStatus(22, 8))
        await rpc.until(lambda: (rpc.stage.node.drops_total, rpc.stage.node.peer_status is None) == (3, False))
        for second in range(5, 30):
            now = float(second)
            await progress.step()
        lines = [record for record in records if record.component == "progress"]
        assert [line.message for line in lines] == ["starting", "synced", "synced", "synced"]
        assert {line.level for line in lines} == {log.Level.INFO}
        assert lines[-1].fields == {
            "unsafe": "20 (3.0 s)",
            "safe": "20 (3.0 s)",
            "finalized": 20,
            "l1": "10 (1m43s)",
            "peers": 22,
            "drops_1h": 0,
        }

    with_rpc(scenario, p2p=True)
