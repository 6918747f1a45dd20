"""Performs the actions of the engine core: sends messages, publishes, writes the log, counts."""

from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.bus import Server
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core import actions as act
from rollup_node.stages.engine.core.calls import Work
from rollup_node.stages.engine.machines.follow_source import FollowResult
from rollup_node.stages.engine.process.control_server import ControlServer
from rollup_node.stages.engine.process.l1_client import L1Client
from rollup_node.stages.engine.process.p2p_client import P2PClient
from rollup_node.stages.engine.process.reset_watch import ResetWatch
from rollup_node.stages.engine.process.status_publisher import StatusPublisher
from rollup_node.stages.engine.process.upgrade_files import UpgradeFiles
from rollup_node.stages.io.log.lasting_conditions import LastingCondition, LastingConditions, shortened
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.metrics.ref_metrics import show_payload
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload

log = get_logger("engine")

LOGGED_BY_L1 = frozenset({Code.L1_UNREACHABLE, Code.L1_THROTTLED, Code.L1_CHAIN, Code.L1_CONTRADICTS})
"""What the l1 process logs for its heads; here it is a health problem alone."""


Handlers = dict[type[act.Action], Callable[[Any], None]]
"""What performs an action, by its type."""


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
        self._failures, self._el_sync = LastingConditions(log), LastingCondition(log)
        self._fetches = LastingConditions(log)
        self._sequencer_waits = LastingCondition(log)
        self._upgrades = UpgradeFiles(config.bundle_dir, log)
        self._resets = ResetWatch(log, lambda problem: status.set_problem("resets", problem))
        if config.follow_url is not None:
            for result in FollowResult:
                meter.count("follow_source_requests_total", 0, result=result.value)
        self._handlers: Handlers = {
            **self._message_handlers(),
            **self._work_handlers(),
            **self._block_handlers(),
            **self._sequencer_handlers(),
            **self._sync_handlers(),
        }

    def perform(self, actions: list[act.Action]) -> None:
        """Performs actions in their order."""
        for action in actions:
            self._handlers[type(action)](action)

    def tick(self) -> None:
        """Ends what only time ends; called every second."""
        self._resets.tick()

    # --- messages --------------------------------------------------------------------------------------------------

    def _message_handlers(self) -> Handlers:
        return {
            act.SendToDerivation: lambda action: self._send(self._blocks, action),
            act.SendToRpc: lambda action: self._control.respond(action.peer, action.message),
            act.SendToP2P: lambda action: self._send(self._payloads, action),
            act.PublishBlock: self._publish_block,
            act.RequestGap: self._request_gap,
            act.RequestLatestBlocks: self._request_latest_blocks,
            act.RequestL1Blocks: lambda action: self._l1.request(action.blocks.first, action.blocks.count),
            act.PublishStatus: lambda action: self._status.publish(action.status),
        }

    def _send(self, server: Server | None, action: act.SendToDerivation | act.SendToP2P) -> None:
        if server is not None:
            server.send(action.peer, action.message)

    def _publish_block(self, action: act.PublishBlock) -> None:
        """Without a p2p process blocks are not published."""
        if self._p2p is not None:
            self._p2p.publish(action.payload, action.parent, action.derived)

    def _request_gap(self, action: act.RequestGap) -> None:
        log.debug("requesting missing blocks", head=action.head, below=action.gap_end.block_number)
        if self._p2p is not None:
            self._p2p.request(action.head.number, action.gap_end)

    def _request_latest_blocks(self, action: act.RequestLatestBlocks) -> None:
        if self._p2p is not None:
            self._p2p.request_latest(action.head)

    # --- work and starts -------------------------------------------------------------------------------------------

    def _work_handlers(self) -> Handlers:
        return {
            act.ShowProblem: lambda action: self._status.set_problem(action.name, action.problem),
            act.WorkFailed: self._work_failed,
            act.WorkRecovered: self._work_recovered,
            act.ResetStarted: self._reset_started,
            act.ResetRequested: lambda action: log.info("derivation requests a reset", reason=action.reason),
            act.StartFound: self._start_found,
            act.DerivationRestarted: self._derivation_restarted,
            act.L1FinalityRegressed: self._l1_finality_regressed,
        }

    def _work_failed(self, action: act.WorkFailed) -> None:
        self._meter.count("activity_errors_total", activity=action.task, severity=action.severity.value)
        code = action.code or _code_of(action)
        self._status.set_failure(action, code)
        if action.severity is act.Severity.TEMPORARY:
            if code in LOGGED_BY_L1:
                return
            error, retry_in = shortened(action.error), round(action.seconds, 1)
            self._failures.report(
                action.task,
                code,
                "step failed, retrying",
                reason=action.reason,
                task=action.task,
                error=error,
                retry_in=retry_in,
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

    def _start_found(self, action: act.StartFound) -> None:
        heads = action.heads
        log.info(
            "found L2 heads to start with",
            unsafe=heads.unsafe,
            safe=heads.safe,
            finalized=heads.finalized,
            base=action.base,
        )

    def _derivation_restarted(self, action: act.DerivationRestarted) -> None:
        log.info("derivation restarted", safe=action.start.safe_head, base=action.start.base)

    def _l1_finality_regressed(self, action: act.L1FinalityRegressed) -> None:
        text = "ignoring a finalized L1 block below the last one"
        log.error(text, code=Code.L1_CONTRADICTS.text, number=action.block.number)

    # --- blocks ----------------------------------------------------------------------------------------------------

    def _block_handlers(self) -> Handlers:
        return {
            act.AttributesProcessed: self._attributes_processed,
            act.UpgradeDiffers: lambda action: self._upgrades.differs(action.other, action.confirmed),
            act.BundleChosen: lambda action: self._upgrades.choose(action.other),
            act.UnsafeBlockReceived: self._unsafe_block_received,
            act.UnsafeQueueChanged: self._unsafe_queue_changed,
            act.UnsafeBlockInserted: self._unsafe_block_inserted,
            act.UnsafeBlockDropped: self._unsafe_block_dropped,
            act.LostBlocksFound: self._lost_blocks_found,
            act.LostBlocksEnded: self._lost_blocks_ended,
            act.BlockFinalized: lambda action: log.debug("finalized L2 block", block=action.block),
        }

    def _attributes_processed(self, action: act.AttributesProcessed) -> None:
        found = action.processed
        if found.reason is not None:
            code, reason = found.reason.code or Code.BLOCK_REPLACED, shortened(found.reason.text)
            log.warn(f"derived block {found.outcome}", code=code.text, safe=found.safe_head, reason=reason)
        else:
            self._resets.processed(found.safe_head.number)
            log.debug("derived block is safe", safe=found.safe_head, origin=found.derived_from)
        if found.built is not None:
            self._count_transactions(found.built)

    def _unsafe_block_received(self, action: act.UnsafeBlockReceived) -> None:
        payload = action.payload
        self._meter.count("unsafe_payloads")
        show_payload(self._meter, "received_payload", payload)
        if action.queued:
            log.debug("received unsafe block", number=payload.block_number, hash=to_hex(payload.block_hash))

    def _unsafe_queue_changed(self, action: act.UnsafeQueueChanged) -> None:
        self._status.set_queue_length(action.length)
        self._meter.set("unsafe_payloads_buffer_len", action.length)
        self._meter.set("unsafe_payloads_buffer_mem_size", action.bytes)
        if action.lowest is not None:
            show_payload(self._meter, "l2_buffer_unsafe", action.lowest)

    def _unsafe_block_inserted(self, action: act.UnsafeBlockInserted) -> None:
        log.trace("inserted unsafe block", block=action.block, origin=action.block.l1_origin, queued=action.queued)

    def _unsafe_block_dropped(self, action: act.UnsafeBlockDropped) -> None:
        found = action.dropped
        fields = {"number": found.number, "hash": to_hex(found.hash), "reason": found.reason}
        log.warn("dropping invalid unsafe block", code=Code.UNSAFE_BLOCK.text, **fields)

    def _lost_blocks_found(self, action: act.LostBlocksFound) -> None:
        text, code = "the execution engine lacks the latest blocks, putting them back", Code.BLOCKS_LOST
        log.warn(text, code=code.text, first=action.first, last=action.last, do=code.remedy)

    def _lost_blocks_ended(self, action: act.LostBlocksEnded) -> None:
        code = Code.BLOCKS_LOST.text
        if action.reason is None:
            text = "the latest blocks are back in the execution engine"
            log.info(text, code=code, head=action.head, blocks=action.count)
        else:
            text = "going on without the latest blocks"
            log.warn(text, code=code, head=action.head, put_back=action.count, reason=action.reason)

    # --- sequencing ------------------------------------------------------------------------------------------------

    def _sequencer_handlers(self) -> Handlers:
        return {
            act.PayloadFetched: lambda action: self._meter.observe("sequencer_sealing_seconds", action.seconds),
            act.BuildFailed: lambda action: self._meter.count("sequencing_errors"),
            act.BlockSequenced: self._block_sequenced,
            act.SequencerStarted: lambda action: log.info("sequencer started", head=action.head),
            act.SequencerStopped: self._sequencer_stopped,
            act.StopWaitSkipped: self._stop_wait_skipped,
            act.LeaderOverridden: self._leader_overridden,
            act.SequencerWaits: self._sequencer_waiting,
        }

    def _block_sequenced(self, action: act.BlockSequenced) -> None:
        found = action.sequenced
        ref = found.block.ref
        self._sequencer_waits.end("the sequencer builds blocks again")
        self._count_transactions(found.payload)
        self._meter.count("sequencer_building_diff_total")
        self._meter.observe("sequencer_building_diff_seconds", found.seconds - self._config.rollup.block_time)
        self._meter.count("sequencer_sealing_total")
        log.info("sequenced block", block=ref, origin=ref.l1_origin, transactions=len(found.payload.transactions))

    def _sequencer_stopped(self, action: act.SequencerStopped) -> None:
        self._sequencer_waits.end("the sequencer is to build no blocks any more")
        log.info("sequencer stopped", head=action.head)

    def _stop_wait_skipped(self, action: act.StopWaitSkipped) -> None:
        log.warn("stopping without the last block", code=Code.SEQUENCER_ADMIN.text, reason=action.reason)

    def _leader_overridden(self, _: act.LeaderOverridden) -> None:
        text = "leader overridden, blocks are not committed to the conductor"
        log.warn(text, code=Code.SEQUENCER_ADMIN.text)

    def _sequencer_waiting(self, action: act.SequencerWaits) -> None:
        text = "sequencer cannot build a block"
        self._sequencer_waits.report(Code.SEQUENCER_WAITS, text, reason=action.reason)

    def _count_transactions(self, payload: ExecutionPayload) -> None:
        deposits = sum(map(is_deposit, payload.transactions))
        self._meter.count("transactions_sequenced_total", deposits, type="deposits")
        self._meter.count("transactions_sequenced_total", len(payload.transactions) - deposits, type="txns")

    # --- EL sync and follow source ---------------------------------------------------------------------------------

    def _sync_handlers(self) -> Handlers:
        return {
            act.ELSyncStarted: self._el_sync_started,
            act.ELSyncSkipped: lambda action: log.info("skipping EL sync", reason=action.reason),
            act.ELSyncFinished: self._el_sync_finished,
            act.ELSyncProgressed: self._el_sync_progressed,
            act.FollowSourceRead: self._follow_source_read,
            act.FollowSourceBehind: self._follow_source_behind,
            act.FetchLasts: self._fetch_lasts,
            act.FetchEnded: self._fetch_ended,
            act.FollowTargetDropped: self._follow_target_dropped,
            act.FollowMoved: self._follow_moved,
        }

    def _el_sync_started(self, action: act.ELSyncStarted) -> None:
        log.info("starting EL sync", number=action.number, hash=to_hex(action.hash))

    def _el_sync_finished(self, action: act.ELSyncFinished) -> None:
        heads = action.heads
        self._el_sync.end("the execution engine gets blocks again")
        log.info(
            "Finished EL sync",
            unsafe=heads.unsafe,
            safe=heads.safe,
            finalized=heads.finalized,
            seconds=round(action.seconds, 1),
        )

    def _el_sync_progressed(self, action: act.ELSyncProgressed) -> None:
        found = action.estimate
        eta = None if found.eta is None else round(found.eta)
        log.info("EL sync", block=found.current, to_go=found.to_go, rate=round(found.rate, 1), eta_seconds=eta)
        if found.is_stalled:
            text, minutes = "the execution engine gets no new block", round(found.stalled / 60)
            self._el_sync.report(Code.EL_SYNC_STALLED, text, block=found.current, to_go=found.to_go, minutes=minutes)
        else:
            self._el_sync.end("the execution engine gets blocks again", block=found.current)

    def _follow_source_read(self, action: act.FollowSourceRead) -> None:
        self._meter.count("follow_source_requests_total", result=action.result.value)
        self._resets.processed(action.safe)

    def _follow_source_behind(self, action: act.FollowSourceBehind) -> None:
        text, code = "the follow source's safe head went back", Code.FOLLOW_SOURCE.text
        log.warn(text, code=code, source=action.block, safe=action.safe)

    def _fetch_lasts(self, action: act.FetchLasts) -> None:
        code, text = Code.EL_SYNC_STALLED, "the execution engine does not get a block from its peers"
        self._status.set_problem(action.name, Problem(code, "", action.problem))
        self._fetches.report(action.name, code, text, reason=action.name, problem=action.problem, ahead=action.ahead)

    def _fetch_ended(self, action: act.FetchEnded) -> None:
        self._status.set_problem(action.name, None)
        self._fetches.end(action.name, "no block is waited for any more", reason=action.name)

    def _follow_target_dropped(self, action: act.FollowTargetDropped) -> None:
        text, code = "going on without the block of the follow source", Code.FOLLOW_SOURCE.text
        log.warn(text, code=code, block=action.block, reason=action.reason)

    def _follow_moved(self, action: act.FollowMoved) -> None:
        """Blocks on top of ours are everyday without gossip."""
        reorged = action.new.number <= action.old.number
        write, code = (log.warn if reorged else log.debug), Code.FOLLOW_SOURCE.text
        write("moved to the follow source's chain", code=code, old=action.old, new=action.new)


def _code_of(failed: act.WorkFailed) -> Code:
    """The code of a failure whose error names none: that of an answer, or of a machine of the core."""
    if failed.severity is act.Severity.RESET:
        return Code.RESET
    if failed.task == Work.FOLLOW.task:
        return Code.FOLLOW_SOURCE
    return Code.ENGINE_ANSWER if "engine" in failed.error else Code.RETRYING
