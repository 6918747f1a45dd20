"""What is wrong with the status of the whole node is a line with a code and the remedy, and one at the end."""

import math
import shutil
from pathlib import Path
from typing import cast

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.metrics.tables import STATES
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import Drops
from rollup_node.stages.messages.p2p import PeerStatus
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.process import status_watch
from rollup_node.stages.rpc.process.status_source import StatusSource
from rollup_node.stages.rpc.process.status_watch import (
    DISK_SECONDS,
    PEERLESS_SECONDS,
    DiskMetrics,
    ProgressLog,
    StatusMetrics,
    StatusWatch,
)
from rollup_node.stages.rpc.status import node_status
from rollup_node.stages.rpc.status.readiness import UnreadyReason
from rollup_node.stages.rpc.status.status_builder import Snapshot, StatusBuilder
from tests.support.rpc.harness import ROLLUP, RunWithRpc
from tests.support.rpc.node_statuses import UNKNOWN

CHAIN = node_status.ChainStatus(None, 1, 10, 2, "jovian", None)
OLD = UnreadyReason(
    "engine", Problem(Code.HEAD_OLD, "", "the unsafe head 7 is 30.0 s old; the limit is 20 s"), "unsafe"
)
LAG = "231 L1 blocks behind, at 54 of 285 (46m12s); the limit is 12"
BEHIND = UnreadyReason("derivation", Problem(Code.BEHIND, "", LAG))
SILENT = UnreadyReason("p2p", Problem(Code.PROCESS_SILENT, "", "no status for 5.0 s"))
AWAY = UnreadyReason("blobs", Problem(None, "", "away"))


def status(
    state: node_status.State, speed: float | None = None, limited_by: str | None = None, peers: int | None = None
) -> node_status.NodeStatus:
    return msgspec.structs.replace(
        UNKNOWN,
        chain=CHAIN,
        state=state,
        ready=True,
        progress=node_status.DerivationProgress(None, speed, None, limited_by, None),
        peers=None if peers is None else node_status.Peers(peers, 0),
    )


class Watched:
    """A watch with a clock that the statuses move on by a second each."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        log.set_level(log.Level.INFO)
        self._capsys, self.now = capsys, 0.0
        self._watch = self.new()

    def new(self, finds_peers: bool = True) -> StatusWatch:
        return StatusWatch(Logger("progress"), lambda: self.now, finds_peers=finds_peers)

    def lines(
        self, shown: node_status.NodeStatus, *reasons: UnreadyReason, seconds: int = 1, is_slow: bool = False
    ) -> list[str]:
        for _ in range(seconds):
            self._watch.step(msgspec.structs.replace(shown, time=self.now), reasons, is_slow)
            self.now += 1
        return self._capsys.readouterr().err.splitlines()


def test_a_warning_is_repeated_each_day(watched: "Watched") -> None:
    """[UPG22] The start has said it already."""
    warned = msgspec.structs.replace(
        status(node_status.State.SYNCED),
        warnings=[node_status.StatusWarning("BUNDLE-UNCONFIRMED", "lagoon comes", "it may be wrong", "see")],
    )
    assert watched.lines(warned, seconds=5) == []
    far = msgspec.structs.replace(warned, warnings=[msgspec.structs.replace(warned.warnings[0], due=40 * 86_400)])
    for left in (39, 38):
        watched.now += 86_400
        assert watched.lines(far, seconds=5) == [], f"{left} days are left"
    for _ in range(2):
        watched.now += 86_400
        (line,) = watched.lines(warned, seconds=5)
        assert line == "warn progress: lagoon comes code=BUNDLE-UNCONFIRMED do=see"
    watched.now += 86_400
    other = msgspec.structs.replace(warned.warnings[0], text="another fork", due=int(watched.now) + 5)
    both = msgspec.structs.replace(warned, warnings=[*warned.warnings, other])
    assert len(watched.lines(both)) == 1
    watched.now += 86_400
    assert [line.partition(" code")[0] for line in watched.lines(both)] == [
        "warn progress: lagoon comes",
        "warn progress: another fork",
    ]
    watched.now += 86_400
    assert watched.lines(status(node_status.State.SYNCED), seconds=5) == []


@pytest.fixture
def watched(capsys: pytest.CaptureFixture[str]) -> Watched:
    return Watched(capsys)


@pytest.mark.sign("HEAD-OLD", "PROCESS-SILENT", line=True)
@pytest.mark.parametrize(
    "reason, code", [(OLD, Code.HEAD_OLD), (BEHIND, Code.BEHIND), (SILENT, Code.PROCESS_SILENT)], ids=lambda item: ""
)
def test_a_reason_of_readyz_is_a_line_a_minute(watched: Watched, reason: UnreadyReason, code: Code) -> None:
    lines = watched.lines(status(node_status.State.SYNCED), AWAY, reason, seconds=61)
    assert len(lines) == 2 and "waited=1m0s" in lines[1]
    words = f"{reason.process}: {reason.problem.text}"
    assert lines[0] == f"warn progress: the node is not ready code={code.text} reason={words} do={code.remedy}"
    (end,) = watched.lines(status(node_status.State.SYNCED))
    assert end.startswith("info progress: ") and f"code={code.text} waited=1m1s" in end


def test_each_silent_process_and_each_old_head_has_lines_of_its_own(watched: Watched) -> None:
    """The second begins within the minute after the first line of the first."""
    safe = Problem(Code.HEAD_OLD, "", OLD.problem.text.replace("unsafe", "safe"))
    others = {SILENT: SILENT._replace(process="blobs"), OLD: UnreadyReason("engine", safe, "safe")}
    for first, second in others.items():
        assert first != second
        assert len(watched.lines(status(node_status.State.SYNCED), first, seconds=10)) == 1
        (line,) = watched.lines(status(node_status.State.SYNCED), first, second, seconds=10)
        assert f"{second.process}: {second.problem.text}" in line
        assert "waited=20s" in watched.lines(status(node_status.State.SYNCED), second)[0]
        assert "waited=11s" in watched.lines(status(node_status.State.SYNCED))[0]


@pytest.mark.sign("SYNC-SLOW", line=True)
def test_a_sync_that_is_slower_than_the_chain(watched: Watched) -> None:
    assert watched.lines(status(node_status.State.SYNCING, speed=100.0), BEHIND, OLD, seconds=100) == [], "no news"
    slow = status(node_status.State.SYNCING, speed=0.4, limited_by="blobs")
    (line,) = watched.lines(slow, BEHIND, is_slow=True)
    assert line == (
        "warn progress: the sync is slower than the chain grows code=SYNC-SLOW speed=0.4 blocks/s chain=0.5 blocks/s"
        f" limited_by=blobs do={Code.SYNC_SLOW.remedy}"
    )
    (end,) = watched.lines(status(node_status.State.SYNCING, speed=40.0), BEHIND)
    assert end.startswith("info progress: the sync gets on code=SYNC-SLOW")


@pytest.mark.sign("PEERS-NONE", line=True)
def test_a_node_without_peers(watched: Watched) -> None:
    """[LOG19] One that looks for none, without discovery and static peers, says it once, and again after it had one."""
    assert watched.lines(status(node_status.State.SYNCED), seconds=100) == [], "P2P is disabled"
    assert watched.lines(status(node_status.State.SYNCED, peers=0), seconds=int(PEERLESS_SECONDS)) == []
    (line,) = watched.lines(status(node_status.State.SYNCED, peers=0))
    assert line == f"warn progress: no peer is connected code=PEERS-NONE do={Code.PEERS_NONE.remedy}"
    (end,) = watched.lines(status(node_status.State.SYNCED, peers=1))
    assert end.startswith("info progress: a peer is connected code=PEERS-NONE")
    watched._watch = watched.new(finds_peers=False)
    for _ in range(2):
        (line,) = watched.lines(status(node_status.State.SYNCED, peers=0), seconds=3600)
        assert line.startswith("warn progress: no peer is connected code=PEERS-NONE do=")
        assert len(watched.lines(status(node_status.State.SYNCED, peers=1))) == 1


async def test_statuses_become_lines(running_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    """[LOG7] From the processes' own messages; a line every 12 s of the clock."""
    records: list[log.Record] = []
    log.configure("rpc", log.Level.INFO, records.append)
    async with running_rpc(p2p=True) as rpc:
        now = 0.0
        told: list[str] = []
        monkeypatch.setattr(status_watch, "tell_service_manager", told.append)
        progress = ProgressLog(StatusSource(rpc.stage.node, lambda: now, lambda: 203.0))
        assert await progress.step() == 1.0
        await rpc.until_ready()
        rpc.status["derivation"].set(Drops(3, ()))
        rpc.status["p2p"].set(PeerStatus(22, 8))
        await rpc.until(lambda: (rpc.stage.node.seen.drops, rpc.stage.node.seen.peers is None) == (3, False))
        for second in range(5, 30):
            now = float(second)
            await progress.step()
        lines = [record for record in records if record.component == "progress"]
        assert [line.message for line in lines] == ["starting", "synced", "synced", "synced"]
        assert [line.partition(":")[0] for line in told] == ["STATUS=starting", *["STATUS=synced"] * 3], "[LIF36]"
        assert {line.level for line in lines} == {log.Level.INFO}
        assert lines[-1].fields == {
            "unsafe": "20 (3.0 s)",
            "safe": "20 (3.0 s)",
            "finalized": "20",
            "l1": "10 (1m43s)",
            "peers": 22,
            "drops_1h": 0,
        }


def shown(meter: Meter) -> dict[str, float]:
    """Return the values by name, and the value of the only label."""
    families = text_string_to_metric_families(meter.text().decode())
    samples = [sample for family in families for sample in family.samples]
    names = [" ".join((sample.name.removeprefix("op_node_default_"), *sample.labels.values())) for sample in samples]
    return dict(zip(names, (sample.value for sample in samples), strict=True))


def test_a_syncing_node_and_one_of_which_nothing_is_known() -> None:
    meter = Meter("rpc")
    meter.expose("rpc")
    metrics = StatusMetrics(cast(StatusSource, None), meter)
    nothing = StatusBuilder(RpcConfig("v1", ROLLUP)).build(Snapshot(), 0.0, 1000.0)
    assert {state.value for state in node_status.State} == set(STATES)
    metrics.show(nothing)
    result = shown(meter)
    unknown = {name for name, value in result.items() if math.isnan(value)}
    times = {"sync_eta_seconds", "sync_head_age_seconds safe", "sync_l1_lag_seconds"}
    assert {*times, "l1_proof_age_seconds", "sync_blocks_per_second"} < unknown
    assert result["sync_state starting"] == 1 and result["sync_state syncing"] == 0

    change = msgspec.structs.replace
    block = node_status.BlockStatus(7, "0x", 990, 10.5)
    syncing = change(
        nothing,
        state=node_status.State.SYNCING,
        ready=True,
        heads=node_status.HeadsStatus(block, change(block, age_s=20.0), None),
        l1=change(
            nothing.l1,
            lag_blocks=55,
            lag_s=660,
            proof=node_status.ProofStatus(1200, 14.5, 1120, 974.5, 3, 0.98, linked=False, finality_late=True),
        ),
        progress=change(nothing.progress, blocks_per_s=2.5, eta_s=12, limited_by="blobs"),
        sequencing_window=node_status.SequencingWindow(100, 40, 60),
        chain=change(CHAIN, next_fork=node_status.ForkTime("lagoon", 2_000, 1_000)),
        warnings=[node_status.StatusWarning(Code.FORK_MISMATCH.text, "x", "y", "z", 2_000)],
        l1_req_per_block=3.1,
    )
    metrics.show(syncing)
    result = shown(meter)
    expected = {
        "ready": 1,
        "sync_state syncing": 1,
        "sync_state starting": 0,
        "sync_limited_by blobs": 1,
        "sync_limited_by engine": 0,
        "sync_head_age_seconds unsafe": 10.5,
        "sync_head_age_seconds safe": 20,
        "sync_l1_lag_blocks": 55,
        "sync_l1_lag_seconds": 660,
        "l1_proof_age_seconds": 14.5,
        "l1_proof_finalized_age_seconds": 974.5,
        "l1_proof_participation": 0.98,
        "l1_proof_period": 3,
        "l1_proof_linked": 0,
        "l1_proof_finality_late": 1,
        "sync_blocks_per_second": 2.5,
        "sync_eta_seconds": 12,
        "l1_requests_per_block": 3.1,
        "sequencing_window_left_blocks": 60,
        "sequencing_window_blocks": 100,
        "next_fork_seconds": 1_000,
        "warnings FORK-MISMATCH": 1,
        "warnings BUNDLE-UNCONFIRMED": 0,
    }
    assert {name: result[name] for name in expected} == expected


async def test_the_space_left_is_that_of_the_databases_file_systems(tmp_path: Path) -> None:
    """[MET29]"""
    meter = Meter("rpc")
    paths = {"safedb": str(tmp_path / "heads"), "peerstore": str(tmp_path / "away" / "peers")}
    assert await DiskMetrics(paths, meter).step() == DISK_SECONDS
    result = shown(meter)
    assert result["disk_size_bytes safedb"] == shutil.disk_usage(tmp_path).total
    assert 0 < result["disk_free_bytes safedb"] <= result["disk_size_bytes safedb"]
    assert math.isnan(result["disk_free_bytes peerstore"])
