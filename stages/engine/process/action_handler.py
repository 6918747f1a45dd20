"""Performs the actions of the engine core: sends messages, publishes, counts, writes the log and upgrade bundles."""

import re
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rollup_node.ipc.bus.bus import Server
from rollup_node.stages.engine.attributes.activation_hold import OtherUpgrade
from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core.attributes_row import UpgradeDiffers
from rollup_node.stages.engine.core.follow_rows import FollowSourceRead
from rollup_node.stages.engine.core.sequencer_rows import CONDITION as SEQUENCER_WAITS
from rollup_node.stages.engine.heads.follow_source import FollowResult
from rollup_node.stages.engine.process.bus_clients import L1Client, P2PClient
from rollup_node.stages.engine.process.control_server import ControlServer
from rollup_node.stages.engine.process.status_publisher import StatusPublisher
from rollup_node.stages.engine.sequencer.sequencer import BuildDropped, SequencedBlock
from rollup_node.stages.io import tracing
from rollup_node.stages.io.files.private_files import replace_private_file
from rollup_node.stages.io.log.lasting_conditions import LastingCondition, LastingConditions, shortened
from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter, show_payload
from rollup_node.stages.messages.base import Problem, QueueLength
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import FieldValue
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.errors import RestartError
from rollup_node.stages.protocol.forks.bundles import CHOSEN_FILE, DRAFTS
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import L2BlockRef

log = Logger("engine")

LOGGED_BY_L1 = frozenset({Code.L1_UNREACHABLE, Code.L1_THROTTLED, Code.L1_CHAIN, Code.L1_CONTRADICTS, Code.L1_UNPROVEN})
"""What the l1 process logs for its heads; here it is a health problem alone."""


class ActionHandler:
    """The ends of the channels that actions concern; `p2p` and `payloads` are None without a p2p process."""

    def __init__(
        self,
        config: EngineConfig,
        meter: Meter,
        status: StatusPublisher,
        l1: L1Client,
        blocks: Server,
        control: ControlServer,
        p2p: P2PClient | None,
        payloads: Server | None,
    ) -> None:
        self._config, self._meter, self._status = config, meter, status
        self._l1, self._blocks, self._control, self._p2p, self._payloads = l1, blocks, control, p2p, payloads
        self._failures, self._fetches = LastingConditions(log), LastingConditions(log)
        self._lasting: defaultdict[str, LastingCondition] = defaultdict(lambda: LastingCondition(log))
        self._upgrades = UpgradeFiles(config.bundle_dir, log)
        self._resets = ResetWatch(log, lambda problem: status.set_problem("resets", problem))
        self._sequenced = SequencedBlocks(log)
        if config.follow_url is not None:
            for result in FollowResult:
                meter.count("follow_source_requests_total", 0, result=result.value)
        self._handlers = self._handler_table()

    def perform(self, actions: list[act.Action]) -> None:
        for action in actions:
            self._handlers[type(action)](action)

    def tick(self) -> None:
        """End what only time ends; called every second."""
        self._resets.tick()
        self._sequenced.tick()

    def _handler_table(self) -> dict[type[act.Action], Callable[[Any], None]]:
        """Return what performs an action, by its type."""
        return {
            act.Send: self._send,
            act.PublishBlock: self._publish_block,
            act.RequestGap: self._request_gap,
            act.RequestLatestBlocks: self._request_latest_blocks,
            act.RequestL1Blocks: lambda action: self._l1.request(action.first, action.count),
            act.PublishStatus: lambda action: self._status.publish(action.status),
            act.LogLine: self._log,
            act.Observe: lambda action: self._meter.observe(action.metric, action.value),
            act.Lasts: lambda action: self._lasting[action.name].report(action.code, action.text, **action.fields),
            act.Ends: lambda action: self._lasting[action.name].end(action.text, **action.fields),
            act.FetchLasts: self._fetch_lasts,
            act.FetchEnded: self._fetch_ended,
            act.ShowProblem: lambda action: self._status.set_problem(action.name, action.problem),
            act.WorkFailed: self._work_failed,
            act.WorkRecovered: self._work_recovered,
            act.ResetStarted: self._reset_started,
            act.AttributesProcessed: self._attributes_processed,
            UpgradeDiffers: self._upgrade_differs,
            act.UnsafeBlockReceived: self._unsafe_block_received,
            act.UnsafeQueueChanged: self._unsafe_queue_changed,
            SequencedBlock: self._block_sequenced,
            BuildDropped: lambda _: self._meter.count("sequencing_errors"),
            FollowSourceRead: self._follow_source_read,
        }

    def _send(self, action: act.Send) -> None:
        if isinstance(action.message, act.RpcResponse):
            self._control.respond(action.peer, action.message)
        elif isinstance(action.message, act.BlocksMessage):
            self._blocks.send(action.peer, action.message)
        elif self._payloads is not None:
            self._payloads.send(action.peer, action.message)

    def _publish_block(self, action: act.PublishBlock) -> None:
        """Publish a block; without a p2p process blocks are not published."""
        if self._p2p is not None:
            self._p2p.publish(action.payload, action.parent, action.derived)

    def _request_gap(self, action: act.RequestGap) -> None:
        log.debug("requesting missing blocks", head=action.head, below=action.gap_end.block_number)
        if self._p2p is not None:
            self._p2p.request(action.head.number, action.gap_end)

    def _request_latest_blocks(self, action: act.RequestLatestBlocks) -> None:
        if self._p2p is not None:
            self._p2p.request_latest(action.head)

    def _log(self, action: act.LogLine) -> None:
        code = {} if action.code is None else {"code": action.code.text}
        getattr(log, action.level)(action.text, **code, **action.fields)

    def _fetch_lasts(self, action: act.FetchLasts) -> None:
        code, text = Code.EL_SYNC_STALLED, "the execution engine does not get a block from its peers"
        self._status.set_problem(action.name, Problem(code, "", action.problem))
        self._fetches.report(action.name, code, text, reason=action.name, problem=action.problem, ahead=action.ahead)

    def _fetch_ended(self, action: act.FetchEnded) -> None:
        self._status.set_problem(action.name, None)
        self._fetches.end(action.name, "no block is waited for any more", reason=action.name)

    def _work_failed(self, action: act.WorkFailed) -> None:
        self._meter.count("activity_errors_total", activity=action.task, severity=action.severity.value)
        code = action.code or (Code.RESET if action.severity is act.Severity.RESET else Code.RETRYING)
        self._status.set_failure(action, code)
        if action.severity is act.Severity.TEMPORARY:
            if code in LOGGED_BY_L1:
                return
            text, retry_in_s = shortened(action.error), round(action.seconds, 1)
            self._failures.report(
                action.task, code, text, reason=action.reason, task=action.task, retry_in_s=retry_in_s
            )

    def _work_recovered(self, action: act.WorkRecovered) -> None:
        self._status.clear_failure(action.task)
        self._failures.end(action.task, "recovered", task=action.task)

    def _reset_started(self, action: act.ResetStarted) -> None:
        if action.by_origin:
            self._meter.count("sequencer_inconsistent_l1_origin")
        self._meter.count("pipeline_resets")
        if self._config.sequencer_enabled:
            self._meter.count("sequencer_resets")
        self._resets.reset(action.reason)

    def _attributes_processed(self, action: act.AttributesProcessed) -> None:
        result = action.result
        tracing.assign(result.derived_from.hash)
        if result.reason is not None:
            code, reason = result.reason.code or Code.BLOCK_REPLACED, shortened(result.reason.text)
            log.warn(f"derived block {result.outcome}", code=code.text, safe=result.safe_head, reason=reason)
        else:
            self._resets.processed(result.safe_head.number)
            log.debug("derived block is safe", safe=result.safe_head, origin=result.derived_from)
        if result.built is not None:
            self._count_transactions(result.built)

    def _upgrade_differs(self, action: UpgradeDiffers) -> None:
        self._upgrades.differs(action.other, action.confirmed)
        if action.is_chosen:
            self._upgrades.choose(action.other)

    def _unsafe_block_received(self, action: act.UnsafeBlockReceived) -> None:
        payload = action.payload
        self._meter.count("unsafe_payloads")
        show_payload(self._meter, "received_payload", payload)
        if action.queued:
            log.debug("received unsafe block", number=payload.block_number, hash=to_hex(payload.block_hash))

    def _unsafe_queue_changed(self, action: act.UnsafeQueueChanged) -> None:
        self._status.set(QueueLength(action.length, 0))
        self._meter.set("unsafe_payloads_buffer_len", action.length)
        self._meter.set("unsafe_payloads_buffer_mem_size", action.bytes)
        if action.lowest is not None:
            show_payload(self._meter, "l2_buffer_unsafe", action.lowest)

    def _block_sequenced(self, block: SequencedBlock) -> None:
        ref, payload = block.block.ref, block.payload
        self._lasting[SEQUENCER_WAITS].end("the sequencer builds blocks again")
        self._count_transactions(payload)
        self._meter.count("sequencer_building_diff_total")
        self._meter.observe("sequencer_building_diff_seconds", block.seconds - self._config.rollup.block_time)
        self._meter.count("sequencer_sealing_total")
        self._sequenced.add(ref, payload)

    def _follow_source_read(self, action: FollowSourceRead) -> None:
        self._meter.count("follow_source_requests_total", result=action.result.value)
        self._resets.processed(action.safe)

    def _count_transactions(self, payload: ExecutionPayload) -> None:
        deposits = sum(map(is_deposit, payload.transactions))
        self._meter.count("transactions_sequenced_total", deposits, type="deposits")
        self._meter.count("transactions_sequenced_total", len(payload.transactions) - deposits, type="txns")


LINE_SECONDS = 12.0
SAME_RESETS = 3
QUIET_SECONDS = 120.0
_VALUES = re.compile("0x[0-9a-f]+|[0-9]+")


class ResetWatch:
    """Logs the resets; those that repeat for one reason, numbers aside, as one condition. `show` takes it."""

    def __init__(
        self, log: Logger, show: Callable[[Problem | None], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._show, self._clock = log, show, clock
        self._condition = LastingCondition(log, clock)
        self._reason = ""
        self._times = self._highest = 0
        self._last_at = float("-inf")

    def reset(self, reason: str) -> None:
        """There was a reset."""
        kind = _VALUES.sub("", reason)
        self._times = self._times + 1 if kind == self._reason else 1
        self._reason, self._last_at = kind, self._clock()
        if self._times < SAME_RESETS:
            self._end()
            self._log.warn("resetting", code=Code.RESET.text, reason=reason)
            return
        self._condition.report(
            Code.RESET_LOOP, "resetting again for the same reason", resets=self._times, reason=reason
        )
        text = f"{self._times} resets for the same reason: {reason}"
        self._show(Problem(Code.RESET_LOOP, "", text))

    def processed(self, safe: int) -> None:
        """Note that a derived block was processed; a safe head not reached before ends a loop."""
        if safe > self._highest:
            self._highest = safe
            self._clear()

    def tick(self) -> None:
        """End a loop when there has been no reset for long."""
        if self._times and self._clock() - self._last_at > QUIET_SECONDS:
            self._clear()

    def _clear(self) -> None:
        if self._times:
            self._times, self._reason = 0, ""
            self._end()

    def _end(self) -> None:
        self._condition.end("resets do not repeat any more")
        self._show(None)


class SequencedBlocks:
    """Sums up the sequenced blocks in one line at info every LINE_SECONDS; each is one at debug [LOG21]."""

    def __init__(self, log: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._due = float("-inf")
        self._last: L2BlockRef | None = None
        self._count = self._transactions = self._gas = 0

    def add(self, block: L2BlockRef, payload: ExecutionPayload) -> None:
        """Count a block."""
        transactions, gas = len(payload.transactions), payload.gas_used
        self._log.debug("sequenced block", block=block, origin=block.l1_origin, transactions=transactions, gas=gas)
        self._last, self._count = block, self._count + 1
        self._transactions, self._gas = self._transactions + transactions, self._gas + gas

    def tick(self) -> None:
        """Write the line if one is due."""
        now = self._clock()
        if self._last is None or now < self._due:
            return
        figures = {"count": self._count, "transactions": self._transactions, "gas": self._gas}
        self._log.info("sequenced blocks", block=self._last, origin=self._last.l1_origin, **figures)
        self._due, self._last = now + LINE_SECONDS, None
        self._count = self._transactions = self._gas = 0


class UpgradeFiles:
    """Writes to `folder`, which is `rollup.bundle-dir`."""

    def __init__(self, folder: str, log: Logger) -> None:
        self._folder, self._log = Path(folder).absolute(), log

    def differs(self, other: OtherUpgrade, confirmed: bool) -> None:
        """Say that derivation waits before a block with another bundle, and write that bundle."""
        fields: dict[str, FieldValue] = {"fork": other.fork, "block": other.number, "hash": to_hex(other.hash)}
        fields |= {"difference": other.difference, "used": other.used, "confirmed_by_l1": confirmed}
        if not other.same_bundle:
            path = self._folder / other.file_name
            fields |= {"seen": other.sha256, "known": _known(other), "file": self._written(path, other.file)}
        text = "the chain has other upgrade transactions than this node"
        self._log.error(text, code=Code.BUNDLE_DIFFERS.text, **fields, do=Code.BUNDLE_DIFFERS.remedy)

    def choose(self, other: OtherUpgrade) -> None:
        """Keep the chain's bundle for this and the next starts. Raises RestartError once it is written."""
        path = self._folder / CHOSEN_FILE.format(fork=other.fork)
        written = self._written(path, other.file)
        if written == str(path):
            text = "taking the upgrade bundle of the chain, which this package has and L1 confirms"
            self._log.warn(text, code=Code.BUNDLE_CHOSEN.text, fork=other.fork, sha256=other.sha256, file=written)
            raise RestartError(f"the bundle {other.sha256[:8]} takes the place of {other.used[:8]}")

    def _written(self, path: Path, content: bytes) -> str:
        """Return the path from the root on, or why nothing could be written to it."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_private_file(path, content, 0o644, durable=True)
        except OSError as error:
            return f"not written to {path}: {error.strerror or error}"
        return str(path)


def _known(other: OtherUpgrade) -> str:
    if other.carried is not None:
        return f"this package has it ({other.carried.origin})"
    return DRAFTS.get(other.sha256, "not known to this version")
