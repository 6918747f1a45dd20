"""Actions of the core: each kind is handled, sent, logged and counted as it should be."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.engine.attributes.activation_hold import OtherUpgrade
from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls.engine_api import ErrorAnswer, insert_result
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core.attributes_row import UpgradeDiffers
from rollup_node.stages.engine.core.follow_rows import FollowSourceRead
from rollup_node.stages.engine.heads.engine_controller import raise_unless_done
from rollup_node.stages.engine.heads.follow_source import FollowResult
from rollup_node.stages.engine.process.action_handler import (
    QUIET_SECONDS,
    ActionHandler,
    ResetWatch,
    SequencedBlocks,
    UpgradeFiles,
)
from rollup_node.stages.engine.process.bus_clients import L1Client, P2PClient
from rollup_node.stages.engine.process.control_server import ControlServer
from rollup_node.stages.engine.process.status_publisher import StatusPublisher
from rollup_node.stages.engine.sequencer.sequencer import BuildDropped, SequencedBlock
from rollup_node.stages.io.http.endpoint_record import EndpointRecord
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Logger, Record
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import ControlResponse
from rollup_node.stages.messages.engine import AttributesOutcome, AttributesResult, EngineStatus, PipelineStart
from rollup_node.stages.messages.log_fields import plain_text
from rollup_node.stages.messages.p2p import PayloadResponse
from rollup_node.stages.protocol.errors import RestartError, TemporaryError
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, DRAFTS
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses
from tests.stages.derivation.process.test_derivation_log import RecordingLogger
from tests.support.chains.chain_fixture import ChainFixture

PEER = ProcessId(0, 1)
CARRIED = BUNDLE_FORKS["lagoon"].carried[1]
OTHER_UPGRADE = OtherUpgrade("lagoon", 1, bytes(32), "gas", "00" * 32, b"{}", "11" * 32, CARRIED)


class Handled:
    """An action handler with what it writes: log records, metrics."""

    def __init__(self, chain: ChainFixture, directory: Path, p2p: bool) -> None:
        config = EngineConfig("", b"", 1.0, "geth", chain.rollup, chain.l1_chain, sequencer_enabled=True, p2p=p2p)
        config = msgspec.structs.replace(config, bundle_dir=str(directory / "bundles"))
        self.meter = Meter("engine")
        self.records: list[Record] = []
        self.buses = in_process_buses(CHANNELS, directory, {"engine": 1, "l1": 1, "p2p": 1, "rpc": 1, "derivation": 1})
        bus = self.buses["engine"]
        self.status = StatusPublisher(bus, self.meter, EndpointRecord("engine-api", "engine:1"))
        self.handler = ActionHandler(
            config,
            self.meter,
            self.status,
            L1Client(bus, lambda message: None),
            bus.serve("engine.blocks", lambda peer, message: None),
            ControlServer(bus, lambda peer, message: None),
            P2PClient(bus, self.meter, lambda message: None) if p2p else None,
            bus.serve("engine.payloads", lambda peer, message: None) if p2p else None,
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """The health problems, as they are printed."""
        return tuple(map(str, self.status.problems))

    def line(self, *actions: act.Action) -> str:
        """Return the last log line that actions lead to."""
        return self.lines(*actions)[-1]

    def lines(self, *actions: act.Action) -> list[str]:
        """Return the log lines that actions lead to."""
        before = len(self.records)
        self.handler.perform(list(actions))
        return [
            " ".join(
                (
                    record.level.name,
                    record.message,
                    *(f"{name}={plain_text(value)}" for name, value in record.fields.items()),
                )
            )
            for record in self.records[before:]
        ]

    def metric(self, line: str) -> float:
        """Return the value of a metric with its labels; 0 if it does not exist."""
        lines = self.meter.text().decode().splitlines()
        return next((float(item.split()[-1]) for item in lines if item.startswith(f"op_node_default_{line} ")), 0.0)


@pytest.fixture
def handled(chain: ChainFixture, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Handled]:
    result = Handled(chain, tmp_path, getattr(request, "param", True))
    log.configure("engine", Level.TRACE, result.records.append)
    yield result
    for bus in result.buses.values():
        bus.close()


def all_actions(chain: ChainFixture) -> list[act.Action]:
    """One of each kind."""
    ref = chain.build(1)[1]
    payload, info = chain.payloads[ref.hash], chain.known[ref.hash]
    start = PipelineStart(1, ref, info.config, ref.l1_origin, info.config)
    result = AttributesResult(1, 1, AttributesOutcome.ACCEPTED, ref, info.config, chain.l1_ref(101))
    return [
        act.LogLine("info", "a line", Code.RESET, {"block": ref}),
        BuildDropped("the engine lost it"),
        act.Observe("sequencer_sealing_seconds", 0.25),
        act.Lasts("EL sync", Code.EL_SYNC_STALLED, "no new block", {"block": 5}),
        act.Ends("EL sync", "blocks again", {"block": 6}),
        act.FetchLasts("follow source", "the execution engine does not get block 1", 1),
        act.FetchEnded("follow source"),
        act.ShowProblem("start", None),
        act.Send(PEER, start),
        act.Send(PEER, ControlResponse(1, None, None)),
        act.Send(PEER, PayloadResponse(1, payload, None)),
        act.PublishBlock(payload, chain.genesis, 0),
        act.RequestGap(ref, payload),
        act.RequestLatestBlocks(ref.id),
        act.RequestL1Blocks(100, 2),
        act.PublishStatus(EngineStatus(1, ref, ref, ref, ref, ref, True, True)),
        act.WorkFailed("drive", act.Severity.TEMPORARY, "away", 1.04),
        act.WorkRecovered("drive"),
        act.ResetStarted("L1 reorg", by_origin=False),
        act.AttributesProcessed(result),
        act.UnsafeBlockReceived(payload, queued=True),
        act.UnsafeQueueChanged(1, 1_000, payload),
        UpgradeDiffers(OTHER_UPGRADE, confirmed=False),
        UpgradeDiffers(OTHER_UPGRADE, confirmed=True, is_chosen=True),
        SequencedBlock(info, payload, 1.5),
        FollowSourceRead(FollowResult.SUCCESS),
    ]


def of_kind(actions: list[act.Action], kind: type[Any]) -> Any:
    return next(action for action in actions if isinstance(action, kind))


def test_a_line_has_its_level_code_and_fields(handled: Handled) -> None:
    assert handled.line(act.LogLine("info", "sequencer started", None, {"head": 7})) == "INFO sequencer started head=7"
    line = act.LogLine("warn", "stopping without the last block", Code.SEQUENCER_ADMIN, {"reason": "no leader"})
    assert handled.line(line) == "WARN stopping without the last block code=SEQUENCER-ADMIN reason=no leader"
    for level in get_args(act.LogLevel):
        assert handled.line(act.LogLine(level, "text")) == f"{level.upper()} text"


def test_following_another_node_is_counted(handled: Handled) -> None:
    """[FSR4]"""
    handled.handler.perform([FollowSourceRead(FollowResult.L1_MISMATCH)])
    assert handled.metric('follow_source_requests_total{result="error_l1_mismatch"}') == 1.0


@pytest.mark.parametrize("handled", [True, False], ids=["p2p", "no p2p"], indirect=True)
def test_every_kind_of_action_is_handled(handled: Handled, chain: ChainFixture) -> None:
    actions = all_actions(chain)
    assert {type(action) for action in actions} == set(act.Action.__subclasses__())
    for action in actions:
        is_restart = isinstance(action, UpgradeDiffers) and action.is_chosen
        with pytest.raises(RestartError) if is_restart else nullcontext():
            handled.handler.perform([action])


def test_failures_are_logged_and_counted(handled: Handled, chain: ChainFixture) -> None:
    actions = all_actions(chain)
    assert handled.line(of_kind(actions, act.WorkFailed)) == (
        f"WARN away code=RETRYING task=drive retry_in_s=1.0 do={Code.RETRYING.remedy}"
    )
    assert handled.metric('activity_errors_total{activity="drive",severity="temporary"}') == 1
    assert handled.metric("activity_problems") == 1
    lines = len(handled.records)
    handled.handler.perform([act.WorkFailed("drive", act.Severity.RESET, "L1 reorg", 0.0)])
    assert len(handled.records) == lines, "a reset has a line of its own"
    assert handled.metric('activity_errors_total{activity="drive",severity="reset"}') == 1
    line = handled.line(of_kind(actions, act.WorkRecovered))
    assert line == "INFO recovered code=RETRYING task=drive waited=0s tried=1"
    assert handled.metric("activity_problems") == 0


def test_resets_are_counted_by_cause(handled: Handled) -> None:
    assert handled.line(act.ResetStarted("L1 reorg", by_origin=False)) == "WARN resetting code=RESET reason=L1 reorg"
    assert handled.metric("pipeline_resets_total") == handled.metric("sequencer_resets_total") == 1
    assert handled.metric("sequencer_inconsistent_l1_origin_total") == 0
    handled.handler.perform([act.ResetStarted("another origin", by_origin=True)])
    assert handled.metric("sequencer_inconsistent_l1_origin_total") == 1


def test_blocks_are_logged_and_counted(handled: Handled, chain: ChainFixture) -> None:
    actions = all_actions(chain)
    ref = chain.build(1)[1]
    line = handled.line(of_kind(actions, SequencedBlock))
    assert line == f"DEBUG sequenced block block={ref} origin={ref.l1_origin} transactions=1 gas=21000"
    assert handled.metric('sequencer_building_diff_seconds_bucket{le="-0.5"}') == 1, "of a block time of 2 s"
    assert handled.metric('sequencer_building_diff_seconds_bucket{le="-1.0"}') == 0
    assert handled.metric("sequencer_sealing_total") == handled.metric("sequencer_building_diff_total") == 1
    assert handled.metric('transactions_sequenced_total{type="deposits"}') == 1
    handled.handler.perform([of_kind(actions, act.Observe), of_kind(actions, BuildDropped)])
    assert handled.metric("sequencer_sealing_seconds_sum") == 0.25
    assert handled.metric("sequencing_errors_total") == 1
    assert handled.line(of_kind(actions, act.AttributesProcessed)).startswith("DEBUG derived block is safe")
    handled.handler.perform([of_kind(actions, act.UnsafeBlockReceived), of_kind(actions, act.UnsafeQueueChanged)])
    assert handled.metric("unsafe_payloads_total") == handled.metric("unsafe_payloads_buffer_len") == 1
    assert handled.metric('refs_number{layer="l2",type="received_payload"}') == 1
    assert handled.metric("unsafe_payloads_buffer_mem_size") == 1_000
    assert handled.metric('refs_number{layer="l2",type="l2_buffer_unsafe"}') == 1


def test_derived_blocks_that_are_not_as_derived_are_warned_of(handled: Handled, chain: ChainFixture) -> None:
    ref = chain.build(1, users=[chain.user])[1]
    config = chain.known[ref.hash].config
    result = AttributesResult(1, 2, AttributesOutcome.REPLACED_BY_DEPOSITS, ref, config, chain.l1_ref(101))
    reason = Problem(None, "", "bad transaction")
    replaced = msgspec.structs.replace(result, reason=reason, built=chain.payloads[ref.hash])
    line = handled.line(act.AttributesProcessed(replaced))
    assert line == f"WARN derived block replaced by deposits code=BLOCK-REPLACED safe={ref} reason=bad transaction"
    assert handled.metric('transactions_sequenced_total{type="txns"}') == 1
    for code in (Code.TRANSACTION_LEFT_OUT, Code.TRANSACTION_INVALID):
        coded = msgspec.structs.replace(replaced, reason=Problem(code, "", "transaction 3"))
        line = handled.line(act.AttributesProcessed(coded))
        assert line == f"WARN derived block replaced by deposits code={code.text} safe={ref} reason=transaction 3"


def failed(task: str, error: str, code: Code, seconds: float = 1.0, reason: str = "") -> act.WorkFailed:
    return act.WorkFailed(task, act.Severity.TEMPORARY, error, seconds, reason, code)


@pytest.mark.sign("ENGINE-ANSWER", "ENGINE-AUTH", line=True, readyz=True)
@pytest.mark.sign("BUILD-LOST", "ENGINE-CONTRADICTS", line=True, readyz=True)
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Code.ENGINE_AUTH, "execution engine 127.0.0.1:8551: HTTP status 401: token is missing"),
        (Code.ENGINE_ANSWER, "the engine answers SYNCING to a new payload"),
        (Code.BUILD_LOST, "the engine began to build block 12 on 0xab..:11, and does not return it"),
        (Code.ENGINE_CONTRADICTS, "the engine sealed another block 12: gas limit"),
        (Code.ENGINE_SLOW, "no answer within 2 s"),
    ],
    ids=str,
)
def test_failures_have_the_code_of_their_cause(handled: Handled, code: Code, error: str) -> None:
    words = f"WARN {error} code={code.text} task=drive retry_in_s=1.0 do={code.remedy}"
    assert handled.line(failed("drive", error, code)) == words
    assert handled.problems == (f"{code.text}: drive: {error}",)
    assert handled.status.engine_fails is (code not in (Code.BUILD_LOST, Code.ENGINE_CONTRADICTS)), "it does answer"
    handled.handler.perform([act.WorkRecovered("drive")])
    assert not handled.status.problems


def test_what_an_engine_says_decides_no_code(handled: Handled) -> None:
    """MEMORY is a code of this node's own memory, not a word of an engine's error."""
    with pytest.raises(TemporaryError) as caught:
        raise_unless_done(insert_result(ErrorAnswer(-32000, "runtime: OUT OF MEMORY")))
    problem = Problem.of(caught.value)
    error = problem.text
    assert problem.code is not None
    line = handled.line(failed("unsafe blocks", error, problem.code))
    assert " code=ENGINE-ANSWER task=unsafe blocks " in line and "OUT OF MEMORY" in line
    assert handled.problems == (f"ENGINE-ANSWER: unsafe blocks: {error}",)
    assert handled.status.engine_fails


def test_a_block_that_the_engine_does_not_get_is_a_problem_until_it_ends(handled: Handled) -> None:
    lasts = act.FetchLasts("follow source", "the execution engine does not get block 7", 3)
    line = handled.line(lasts)
    assert line.startswith("WARN the execution engine does not get a block from its peers code=EL-SYNC-STALLED reason=")
    assert " problem=the execution engine does not get block 7 ahead=3 " in line
    handled.handler.perform([lasts] * 3)
    assert handled.problems == ("EL-SYNC-STALLED: the execution engine does not get block 7",)
    assert handled.line(act.FetchEnded("follow source")).startswith("INFO no block is waited for any more")
    assert not handled.status.problems


def test_what_the_l1_process_logs_is_no_second_line(handled: Handled) -> None:
    error = "L1 block 5 is unavailable: head: cannot connect"
    handled.handler.perform([failed("drive", error, Code.L1_UNREACHABLE)])
    assert handled.records == [] and not handled.status.engine_fails
    assert handled.problems == ("L1-UNREACHABLE: drive: L1 block 5 is unavailable: head: cannot connect",)


@pytest.mark.sign("EL-SYNC-STALLED", line=True)
def test_an_engine_that_syncs_no_further_is_a_condition(handled: Handled) -> None:
    text, fields = "the execution engine gets no new block", {"block": 5, "to_go": 10, "minutes": 5}
    stalls = act.Lasts("EL sync", Code.EL_SYNC_STALLED, text, fields)
    line = handled.line(stalls)
    assert line == f"WARN {text} code=EL-SYNC-STALLED block=5 to_go=10 minutes=5 do={Code.EL_SYNC_STALLED.remedy}"
    assert handled.lines(stalls, stalls, stalls) == []
    line = handled.line(act.Ends("EL sync", "the execution engine gets blocks again", {"block": 6}))
    assert line.startswith("INFO the execution engine gets blocks again code=EL-SYNC-STALLED block=6 waited=")


@pytest.mark.condition("C10")
def test_a_sequencer_that_cannot_build_is_a_condition(handled: Handled, chain: ChainFixture) -> None:
    waits = act.Lasts("sequencer", Code.SEQUENCER_WAITS, "sequencer cannot build a block", {"reason": "no L1 origin"})
    line = handled.line(waits, act.ShowProblem("sequencer", Problem(None, "sequencer", "no L1 origin")))
    assert line.startswith("WARN sequencer cannot build a block code=SEQUENCER-WAITS reason=no L1 origin do=")
    again = (act.ShowProblem("sequencer", None), waits, act.Ends("EL sync", "blocks again"))
    assert handled.lines(*again, *again) == [], "an attempt is no end, and another condition has its own"
    lines = handled.lines(of_kind(all_actions(chain), SequencedBlock))
    assert lines[0] == "INFO the sequencer builds blocks again code=SEQUENCER-WAITS waited=0s tried=3"


@pytest.mark.sign("RESET-LOOP", readyz=True)
def test_resets_for_the_same_reason_are_a_condition(handled: Handled, chain: ChainFixture) -> None:
    for number in range(5):
        handled.handler.perform([act.ResetStarted(f"the engine has lost block {number}", by_origin=False)])
    lines = [record for record in handled.records if record.level is Level.WARN]
    assert [record.fields["code"] for record in lines] == ["RESET", "RESET", "RESET-LOOP"]
    assert handled.problems == ("RESET-LOOP: 5 resets for the same reason: the engine has lost block 4",)
    handled.handler.perform([of_kind(all_actions(chain), act.AttributesProcessed)])
    assert not handled.status.problems
    assert any(record.message == "resets do not repeat any more" for record in handled.records)


def test_sequenced_blocks_are_one_line_in_twelve_seconds(engine_log: list[Record], chain: ChainFixture) -> None:
    """[LOG21]"""
    now, ref = 0.0, chain.build(1)[1]
    payload = of_kind(all_actions(chain), SequencedBlock).payload
    blocks = SequencedBlocks(Logger("engine"), lambda: now)
    for second in range(60):
        now = float(second)
        if second % 2 == 0 and second < 40:
            blocks.add(ref, payload)
        blocks.tick()
    assert [line.fields["count"] for line in engine_log] == [1, 6, 6, 6, 1]
    gas = 6 * payload.gas_used
    assert engine_log[1].fields == {"block": ref, "origin": ref.l1_origin, "count": 6, "transactions": 6, "gas": gas}


class Watched:
    """A watch with a clock that stands still, and the problem that it shows."""

    def __init__(self) -> None:
        self.now = 0.0
        self.problem: Problem | None = None
        self.watch = ResetWatch(Logger("engine"), self._show, lambda: self.now)

    def _show(self, problem: Problem | None) -> None:
        self.problem = problem

    def repeat(self, times: int, reason: str = "the unsafe head is below block {}") -> None:
        for number in range(times):
            self.watch.reset(reason.format(number))
            self.now += 10


@pytest.mark.sign("RESET-LOOP", line=True)
def test_an_hour_of_resets_is_a_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    watched = Watched()
    watched.repeat(360)
    lines = capsys.readouterr().err.splitlines()
    assert [line.count("code=RESET ") for line in lines[:3]] == [1, 1, 0]
    assert "code=RESET-LOOP resets=3 reason=the unsafe head is below block 2" in lines[2]
    assert 55 <= len(lines) <= 65 and all(line.endswith(Code.RESET_LOOP.remedy) for line in lines[2:])
    assert watched.problem is not None and str(watched.problem).startswith("RESET-LOOP: 360 resets for the same reason")


def test_a_new_safe_block_or_quiet_ends_it() -> None:
    """One that was safe before does not."""
    watched = Watched()
    watched.watch.processed(7)
    watched.repeat(3)
    watched.watch.processed(7)
    assert watched.problem is not None
    watched.watch.processed(8)
    assert watched.problem is None
    watched.repeat(3)
    watched.watch.tick()
    assert watched.problem is not None
    watched.now += QUIET_SECONDS
    watched.watch.tick()
    assert watched.problem is None


def test_other_reasons_are_no_loop(capsys: pytest.CaptureFixture[str]) -> None:
    watched = Watched()
    for reason in ("an L1 reorg", "the engine has lost its head", "an L1 reorg"):
        watched.repeat(1, reason)
    assert watched.problem is None
    assert capsys.readouterr().err.count("code=RESET ") == 3


OTHER = OtherUpgrade("lagoon", 7, b"\1" * 32, "transaction 4: its gas is 1", "ab" * 32, b"{}", "cd" * 32, CARRIED)


@pytest.fixture
def lines() -> RecordingLogger:
    return RecordingLogger()


def test_the_bundle_of_the_chain_is_written_and_named(
    tmp_path: Path, lines: RecordingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the root on: the working directory of a service is not that of who reads its log."""
    folder = tmp_path / "made" / "when needed"
    monkeypatch.chdir(tmp_path)
    UpgradeFiles(str(folder.relative_to(tmp_path)), lines).differs(OTHER, False)
    ((_, _, fields),) = lines.lines
    assert (folder / "lagoon_bundle_cdcdcdcd.json").read_bytes() == b"{}"
    assert fields["file"] == str(folder / "lagoon_bundle_cdcdcdcd.json")
    assert (fields["code"], fields["block"], fields["seen"]) == ("BUNDLE-DIFFERS", 7, "cd" * 32)
    assert CARRIED.origin in str(fields["known"]) and fields["confirmed_by_l1"] is False


def test_bundles_that_are_not_carried(tmp_path: Path) -> None:
    for sha256, known in (("ef" * 32, "not known"), (next(iter(DRAFTS)), "draft")):
        lines = RecordingLogger()
        other = msgspec.structs.replace(OTHER, sha256=sha256, carried=None)
        UpgradeFiles(str(tmp_path), lines).differs(other, True)
        assert known in str(lines.lines[0][2]["known"])


def test_no_file_is_written_where_the_dependency_set_differs(tmp_path: Path, lines: RecordingLogger) -> None:
    UpgradeFiles(str(tmp_path), lines).differs(msgspec.structs.replace(OTHER, same_bundle=True), False)
    assert list(tmp_path.iterdir()) == [] and "file" not in lines.lines[0][2]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, lines: RecordingLogger) -> None:
    (tmp_path / "file").write_text("")
    files = UpgradeFiles(str(tmp_path / "file"), lines)
    files.differs(OTHER, False)
    files.choose(OTHER)
    assert str(lines.lines[0][2]["file"]).startswith("not written to ")
    assert len(lines.lines) == 1, "without the file a new start would not have the bundle"


def test_the_choice_is_written_before_the_new_start(tmp_path: Path, lines: RecordingLogger) -> None:
    with pytest.raises(RestartError, match="cdcdcdcd takes the place of abababab"):
        UpgradeFiles(str(tmp_path), lines).choose(OTHER)
    assert (tmp_path / "lagoon_bundle_auto.json").read_bytes() == b"{}"
    assert lines.lines[0][2]["code"] == "BUNDLE-CHOSEN"
