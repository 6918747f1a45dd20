"""The task that logs progress, with a clock of the test."""

import asyncio
from collections import Counter
from typing import cast

import pytest

from rollup_node.stages.io.log import logger as log
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationStatus, Drops
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.messages.p2p import PeerStatus
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.process.progress_log import ProgressLog
from rollup_node.stages.rpc.process.status_source import StatusSource
from rollup_node.stages.rpc.status.node_status import NodeStatus
from rollup_node.stages.rpc.status.readiness import ReadyLimits, UnreadyReason
from rollup_node.stages.rpc.status.status_builder import NodeFacts, Snapshot, StatusBuilder
from tests.support.rpc.harness import ROLLUP, RpcHarness, RunWithRpc


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


DAY, STEP = 86_400, 6
LINES_OF_A_DAY = 8000
PEERS_LOST = range(20_000, 20_300)
L1_AWAY = range(50_000, 51_200)
L1_STANDS = range(70_000, 70_090)


class DayAtTheTip:
    """The status of a verifier of a chain with blocks of 2 s through a day: a batch each two minutes, L1 away for 20
    minutes, seven slots without a block, and no peers for five minutes."""

    def __init__(self) -> None:
        facts = NodeFacts("v1", "test", ROLLUP, True, ReadyLimits(12))
        self._builder, self.now = StatusBuilder(facts), 0

    def clock(self) -> float:
        return float(self.now)

    def reasons(self) -> list[UnreadyReason]:
        return self._builder.reasons

    def status(self) -> NodeStatus:
        now = self.now
        seen = L1_AWAY.start if now in L1_AWAY else L1_STANDS.start if now in L1_STANDS else now
        head, unsafe, safe = seen // 12, now // 2, (seen - 60) // 120 * 60
        l1, current = _l1_ref(head), _l1_ref(head - (now % 12 < 1))
        engine = EngineStatus(1, _l2_ref(unsafe), _l2_ref(safe), None, None, _l2_ref(max(safe - 400, 0)), False, False)
        faults = (
            (UnreadyReason("l1", Problem(Code.L1_UNREACHABLE, "poll", "head: cannot connect")),)
            if now in L1_AWAY
            else ()
        )
        snapshot = Snapshot(
            L1Heads(l1, l1, l1),
            engine,
            DerivationStatus(1, current, True, 0),
            PeerStatus(0 if now in PEERS_LOST else 20 + now // 600 % 3, 8),
            0,
            faults,
        )
        return self._builder.build(snapshot, float(now), float(ROLLUP.genesis.l2_time + now))


def _l1_ref(number: int) -> L1BlockRef:
    return L1BlockRef(ZERO_HASH, max(number, 0), ZERO_HASH, ROLLUP.genesis.l2_time + 12 * max(number, 0))


def _l2_ref(number: int) -> L2BlockRef:
    time = ROLLUP.genesis.l2_time + 2 * max(number, 0)
    return L2BlockRef(ZERO_HASH, max(number, 0), ZERO_HASH, time, BlockId(max(number, 0) // 6, ZERO_HASH), 0)


def test_a_day_at_the_tip_is_below_8000_lines(records: list[log.Record]) -> None:
    day = DayAtTheTip()
    progress = ProgressLog(cast(StatusSource, day))

    async def steps() -> None:
        for day.now in range(0, DAY, STEP):
            await progress.step()

    asyncio.run(steps())
    messages = Counter(record.message for record in records)
    assert messages["synced"] > 6500 and messages["waiting"] > 90, messages
    assert len(records) < 0.92 * LINES_OF_A_DAY, "the rest is for other processes, which log changes alone"
    warnings = [record for record in records if record.level is log.Level.WARN]
    assert {record.fields["code"] for record in warnings} == {"PEERS-NONE"} and len(warnings) <= 6
