"""What is wrong with the status of the whole node is a line with a code and the remedy, and one at the end."""

import msgspec
import pytest

from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.rpc.process.status_watch import PEERLESS_SECONDS, StatusWatch
from rollup_node.stages.rpc.status.node_state import SLOW_SECONDS
from rollup_node.stages.rpc.status.node_status import (
    ChainStatus,
    DerivationProgress,
    Heads,
    L1Status,
    NodeStatus,
    Peers,
    State,
    StatusWarning,
)
from rollup_node.stages.rpc.status.readiness import UnreadyReason

CHAIN = ChainStatus(None, 1, 10, 2, "jovian", None)
OLD = UnreadyReason(
    "engine", Problem(Code.HEAD_OLD, "", "the unsafe head 7 is 30.0 s old; the limit is 20 s"), "unsafe"
)
LAG = "231 L1 blocks behind, at 54 of 285 (46m12s); the limit is 12"
BEHIND = UnreadyReason("derivation", Problem(Code.BEHIND, "", LAG))
SILENT = UnreadyReason("p2p", Problem(Code.PROCESS_SILENT, "", "no status for 5.0 s"))
AWAY = UnreadyReason("blobs", Problem(None, "", "away"))


def status(
    state: State, speed: float | None = None, limited_by: str | None = None, peers: int | None = None
) -> NodeStatus:
    return NodeStatus(
        version="v1",
        time=0.0,
        uptime_s=None,
        chain=CHAIN,
        state=state,
        state_age_s=0.0,
        sentence="",
        ready=True,
        reasons=[],
        heads=Heads(None, None, None),
        l1=L1Status(None, None, None, None, None, None),
        progress=DerivationProgress(None, speed, None, limited_by, None),
        sequencing_window=None,
        sequencer=None,
        peers=None if peers is None else Peers(peers, 0),
        drops_1h=None,
        problems=[],
        processes=None,
    )


class Watched:
    """A watch with a clock that the statuses move on by a second each."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log, "_configuration", log.configuration()._replace(level=log.Level.INFO))
        self._capsys, self.now = capsys, 0.0
        self._watch = StatusWatch(get_logger("progress"), lambda: self.now)

    def lines(self, shown: NodeStatus, *reasons: UnreadyReason, seconds: int = 1) -> list[str]:
        for _ in range(seconds):
            self._watch.step(msgspec.structs.replace(shown, time=self.now), reasons)
            self.now += 1
        return self._capsys.readouterr().err.splitlines()


def test_a_warning_is_repeated_each_day(watched: "Watched") -> None:
    """[UPG22] The start has said it already."""
    warned = msgspec.structs.replace(
        status(State.SYNCED), warnings=[StatusWarning("BUNDLE-UNCONFIRMED", "lagoon comes", "it may be wrong", "see")]
    )
    assert watched.lines(warned, seconds=5) == []
    far = msgspec.structs.replace(warned, warnings=[msgspec.structs.replace(warned.warnings[0], due=40 * 86_400)])
    watched.now += 86_400
    assert watched.lines(far, seconds=5) == [], "39 days are left"
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
    assert watched.lines(status(State.SYNCED), seconds=5) == []


@pytest.fixture
def watched(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(capsys, monkeypatch)


@pytest.mark.sign("HEAD-OLD", "PROCESS-SILENT", line=True)
@pytest.mark.parametrize(
    "reason, code", [(OLD, Code.HEAD_OLD), (BEHIND, Code.BEHIND), (SILENT, Code.PROCESS_SILENT)], ids=lambda each: ""
)
def test_a_reason_of_readyz_is_a_line_a_minute(watched: Watched, reason: UnreadyReason, code: Code) -> None:
    lines = watched.lines(status(State.SYNCED), AWAY, reason, seconds=61)
    assert len(lines) == 2 and "waited=1m0s" in lines[1]
    words = f"{reason.process}: {reason.problem.text}"
    assert lines[0] == f"warn progress: the node is not ready code={code.text} reason={words} do={code.remedy}"
    (end,) = watched.lines(status(State.SYNCED))
    assert end.startswith("info progress: ") and f"code={code.text} waited=1m1s" in end


def test_each_silent_process_and_each_old_head_has_lines_of_its_own(watched: Watched) -> None:
    """The second begins within the minute after the first line of the first."""
    safe = Problem(Code.HEAD_OLD, "", OLD.problem.text.replace("unsafe", "safe"))
    others = {SILENT: SILENT._replace(process="blobs"), OLD: UnreadyReason("engine", safe, "safe")}
    for first, second in others.items():
        assert first != second
        assert len(watched.lines(status(State.SYNCED), first, seconds=10)) == 1
        (line,) = watched.lines(status(State.SYNCED), first, second, seconds=10)
        assert f"{second.process}: {second.problem.text}" in line
        assert "waited=20s" in watched.lines(status(State.SYNCED), second)[0]
        assert "waited=11s" in watched.lines(status(State.SYNCED))[0]


def test_the_lag_of_a_sync_is_no_news(watched: Watched) -> None:
    assert watched.lines(status(State.SYNCING, speed=100.0), BEHIND, OLD, seconds=100) == []


@pytest.mark.sign("SYNC-SLOW", line=True)
def test_a_sync_that_is_slower_than_the_chain(watched: Watched) -> None:
    slow = status(State.SYNCING, speed=0.4, limited_by="blobs")
    assert watched.lines(slow, BEHIND, seconds=int(SLOW_SECONDS)) == []
    (line,) = watched.lines(slow, BEHIND)
    assert line == (
        "warn progress: the sync is slower than the chain grows code=SYNC-SLOW speed=0.4 blocks/s chain=0.5 blocks/s"
        f" limited_by=blobs do={Code.SYNC_SLOW.remedy}"
    )
    (end,) = watched.lines(status(State.SYNCING, speed=40.0), BEHIND)
    assert end.startswith("info progress: the sync gets on code=SYNC-SLOW")


def test_bursts_are_not_slow(watched: Watched) -> None:
    for _ in range(5):
        assert watched.lines(status(State.SYNCING, speed=0.0), seconds=int(SLOW_SECONDS) - 1) == []
        assert watched.lines(status(State.SYNCING, speed=30.0)) == []


@pytest.mark.sign("PEERS-NONE", line=True)
def test_a_node_without_peers(watched: Watched) -> None:
    assert watched.lines(status(State.SYNCED), seconds=100) == [], "P2P is disabled"
    assert watched.lines(status(State.SYNCED, peers=0), seconds=int(PEERLESS_SECONDS)) == []
    (line,) = watched.lines(status(State.SYNCED, peers=0))
    assert line == f"warn progress: no peer is connected code=PEERS-NONE do={Code.PEERS_NONE.remedy}"
    (end,) = watched.lines(status(State.SYNCED, peers=1))
    assert end.startswith("info progress: a peer is connected code=PEERS-NONE")
