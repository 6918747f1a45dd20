"""The topics of the engine core side by side, and the transitions that concern several of them."""

import msgspec

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.attributes.attributes_handler import AttributesHandler
from rollup_node.stages.engine.calls import actions
from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.calls.engine_api import GetPayload, Unavailable
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.calls.safe_head_entries import SafeHeadRecorder
from rollup_node.stages.engine.calls.stimulus_log import StimulusLog
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core.attributes_row import AttributesRow, DerivationSession
from rollup_node.stages.engine.core.build_api_row import BuildApiRow
from rollup_node.stages.engine.core.follow_rows import FollowHeadRow
from rollup_node.stages.engine.core.forkchoice_rows import FinalityRow, ForkchoiceRow
from rollup_node.stages.engine.core.interop import Interop, InteropRow
from rollup_node.stages.engine.core.rows import HeadRow, ReadRow, TaskBackoff
from rollup_node.stages.engine.core.sequencer_rows import LeaderRow, SequencerRow
from rollup_node.stages.engine.core.start_rows import SEARCHING, ELSyncRow, StartRow
from rollup_node.stages.engine.core.unsafe_rows import GapRow, UnsafeBlockRow
from rollup_node.stages.engine.core.verification_rows import LabelRow
from rollup_node.stages.engine.heads.engine_controller import EngineController
from rollup_node.stages.engine.heads.finality import Finality
from rollup_node.stages.engine.heads.follow_source import FollowSource
from rollup_node.stages.engine.heads.verification import AWAITING_REPLACEMENT, AWAITING_VERDICTS, Verification
from rollup_node.stages.engine.sequencer.block_production import InconsistentOriginError
from rollup_node.stages.engine.starts.el_sync import ELSync
from rollup_node.stages.engine.starts.pipeline_start import FoundStart, PipelineStartSearch
from rollup_node.stages.engine.starts.start_search import MissingBlockError
from rollup_node.stages.messages import engine
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import ControlResponse
from rollup_node.stages.messages.interop import Verdicts
from rollup_node.stages.messages.log_fields import FieldValue
from rollup_node.stages.protocol.errors import ResetError, StageError, TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef, L2BlockRef

FORKCHOICE_DELAY = 0.1
"""Seconds after a derived block before an update makes it safe in the engine: blocks that are consolidated one after
the other share an update [ENG37]."""

MAX_OVERLAP_REQUESTS = 8
AWAITING_SUPERVISOR = "waiting for the interop supervisor to call interop_reset on the listener of interop.rpc.addr"


class CoreState:
    """The machines and the rows, and the changes of several topics that a row may ask for.

    `first_reset` numbers the starts of this process. `unconfirmed` is a start whose heads the engine has not accepted
    yet. `forkchoice_at` is when a pending forkchoice update is due; `finishing` the row whose block was inserted and is
    to become the head now; `held` an answer that is processed after a forkchoice update; `doubted` the tip that the
    engine may have lost, with the purpose of the update that showed it. Times are monotonic seconds."""

    def __init__(self, config: EngineConfig, *, first_reset: int = 0, backoff: TaskBackoff | None = None) -> None:
        self.config, self.backoff = config, backoff or TaskBackoff()
        self.log = StimulusLog()
        self.actions: list[actions.Action] = []
        self.reset_count = 0
        self.unconfirmed: engine.PipelineStart | None = None
        self.forkchoice_at = 0.0
        self.finishing: HeadRow | None = None
        self.held: tuple[HeadRow, PendingCall, CoreAnswer] | None = None
        self.doubted: tuple[CallPurpose, L2BlockRef] | None = None
        self.sdm_opt_in = config.sdm_opt_in
        self.l1_genesis: BlockId | None = None
        self._failed_fetch: CoreCall | None = None
        self._first_reset, self._starts = first_reset, 0
        self._logged_heads: Heads | None = None
        self._shows_replacement = False
        self._last_heads: Heads | None = None
        self._start_safe: L2BlockRef | None = None
        self._unsent: engine.AttributesResult | None = None
        self._add_machines(config)
        self._add_rows()
        self.do(actions.ShowProblem("start", Problem(None, "", self._start_problem)))

    def _add_machines(self, config: EngineConfig) -> None:
        self.controller = EngineController()
        self.verification = Verification(config.rollup.l2_chain_id, config.verified)
        self.attributes = AttributesHandler(config.rollup, self.controller, self.verification)
        self.session = DerivationSession()
        records = config.safedb_path is not None and config.follow_url is None
        self.safe_heads = SafeHeadRecorder(records, supervised=config.interop)
        self.finality = Finality(config.rollup, config.finality_lookback, config.finality_delay)
        self.follow = FollowSource(config.rollup, config.follow_url is not None)
        self.interop = Interop(config.rollup, config.interop, self._first_reset)
        self.el_sync = ELSync(config, records, self.verification)

    def _add_rows(self) -> None:
        self.unsafe = UnsafeBlockRow(self)
        self.sequencer = SequencerRow(self)
        self.forkchoice_row = ForkchoiceRow(self)
        self.attributes_row = AttributesRow(self)
        self.gap_row = GapRow(self)
        self.el_sync_row = ELSyncRow(self)
        self.follow_row = FollowHeadRow(self)
        self.interop_row = InteropRow(self)
        self.build_api_row = BuildApiRow(self)
        self.leader_row = LeaderRow(self)
        self.start_row = StartRow(self)
        self.finality_row = FinalityRow(self)
        self.label_row = LabelRow(self)
        self.overlap_row = ReadRow(self, CallPurpose.OVERLAP_BLOCKS, MAX_OVERLAP_REQUESTS)
        self.output_row = ReadRow(self, CallPurpose.OUTPUT)
        self.safe_head_row = ReadRow(self, CallPurpose.SAFE_HEAD)
        self.payload_row = ReadRow(self, CallPurpose.PEER_PAYLOAD)

    @property
    def confirmed_heads(self) -> Heads | None:
        """The heads in force, which the engine has accepted once; None before that."""
        return None if self.unconfirmed is not None else self.controller.heads

    @property
    def replaces(self) -> bool:
        """Whether a denied block may stand in the chain, or is not replaced yet: nothing unsafe is taken in [IV6]."""
        heads, verification = self.controller.heads, self.verification
        if not verification.enabled:
            return False
        return verification.goes_back or (heads is not None and verification.denies_above(heads.unsafe.number))

    @property
    def fetched(self) -> L2BlockRef | None:
        """The block that the engine was pointed at and does not have yet; None if it fetches nothing for us."""
        return self.unsafe.chain.fetch.target if self.follow.syncing is None else self.follow.syncing.local_safe

    def holds_for_sync(self, now: Instant) -> bool:
        """Return whether nothing is inserted or built.

        The engine is to get on with a follow source's block, or a denied block is to be replaced first [IV6]."""
        return self.follow.holds(now.monotonic) or self.replaces

    # --- actions, failures -----------------------------------------------------------------------------------------

    def do(self, action: actions.Action) -> None:
        """Add an action for the process."""
        self.actions.append(action)

    def respond(self, peer: ProcessId, number: int, error: str | None, head: Hash | None = None) -> None:
        """Answer an admin call of the rpc process."""
        self.do(actions.Send(peer, ControlResponse(number, error, head)))

    def write(self, level: actions.LogLevel, text: str, code: Code | None = None, /, **fields: FieldValue) -> None:
        """Have a line written to the log."""
        self.do(actions.LogLine(level, text, code, fields))

    def waits(self, purpose: CallPurpose, now: Instant) -> bool:
        """Return whether calls of this purpose pause after a failure."""
        return self.backoff.is_waiting(purpose.task, now.monotonic)

    def fail(
        self, purpose: CallPurpose, error: StageError, now: Instant, *, reason: str = "", pause: float | None = None
    ) -> float:
        """Note a temporary failure of a kind; return the seconds until the next attempt, or `pause` if it is set."""
        seconds = self.backoff.fail(purpose.task, now.monotonic, pause)
        problem = Problem.of(error)
        self.log.add(now.unix, "failed", purpose, str(problem))
        self.do(
            actions.WorkFailed(purpose.task, actions.Severity.TEMPORARY, problem.text, seconds, reason, problem.code)
        )
        return seconds

    def recover(self, purpose: CallPurpose) -> None:
        """Note that work of this purpose succeeded."""
        if self.backoff.recover(purpose.task):
            self.do(actions.WorkRecovered(purpose.task))

    def ends_build(self, call: CoreCall, answer: Unavailable) -> bool:
        """Return whether a block is not fetched again: it cannot be read, or was not there twice [ENG21, SEQ6]."""
        if not isinstance(call, GetPayload):
            return False
        again = call == self._failed_fetch
        self._failed_fetch = None if again else call
        return again or answer.unreadable

    def drop_moves(self) -> bool:
        """Forget the moves under way after a failed call; returns whether the engine was doubted."""
        doubted, self.held, self.finishing, self.doubted = self.doubted, None, None, None
        return doubted is not None

    # --- what is published -----------------------------------------------------------------------------------------

    def status(self) -> engine.EngineStatus:
        """Return heads and sequencer as other processes see them."""
        heads, sequencer = self.controller.announced, self.sequencer.sequencer
        flags = sequencer.enabled, sequencer.active
        if heads is None:
            reset, transition = self.attributes.reset, self.verification.transition
            return engine.EngineStatus(
                reset, None, None, None, None, None, *flags, sdm_opt_in=self.sdm_opt_in, transition=transition
            )
        self.sequencer.last_announced = heads
        return engine.EngineStatus(
            self.attributes.reset,
            heads.unsafe,
            heads.verified_safe,
            heads.pending_safe if self.follow.enabled else heads.safe,
            heads.pending_safe,
            heads.finalized,
            *flags,
            heads.cross_unsafe,
            self.interop.provided_l1,
            self.follow.current_l1,
            self.sdm_opt_in,
            self.verification.transition,
            self._start_safe,
        )

    def publish(self, now: Instant) -> None:
        """Publish heads that may have moved."""
        if self.controller.heads != self._logged_heads:
            self._logged_heads = self.controller.heads
            self._last_heads = self._logged_heads or self._last_heads
            self.log.add(now.unix, "heads", self._logged_heads)
        self._show_unsafe(now)
        self.do(actions.PublishStatus(self.status()))
        self.unsafe.chain.on_heads(self.controller.heads, now.monotonic)

    def _show_unsafe(self, now: Instant) -> None:
        """Send the interop supervisor a new unsafe head; before interop it is verified by itself."""
        heads = self.controller.heads
        if heads is None or not self.interop.enabled:
            return
        self.interop.on_unsafe(heads.unsafe, now.monotonic)
        if not self.interop.is_active(heads.unsafe.timestamp):
            self.controller.promote_cross(None, heads.unsafe)

    # --- resets and starts -----------------------------------------------------------------------------------------

    @property
    def _start_problem(self) -> str:
        if self.verification.is_awaited:
            return AWAITING_VERDICTS
        return SEARCHING if self.interop.may_start else AWAITING_SUPERVISOR

    def reset(self, error: ResetError, now: Instant) -> None:
        """Clear what was built on the heads, and search for a new start or have the interop supervisor choose it."""
        self.interop.reset(str(error), now.monotonic)
        self._clear(error, now)

    def force_start(self, heads: Heads | None, now: Instant) -> None:
        """Start over at heads that an interop supervisor chose, None: where the ordinary search finds them [IOP20]."""
        self.interop.choose_start(heads)
        self.start_row.search_at = 0.0
        self._clear(ResetError("the interop supervisor has chosen a start"), now)

    def _clear(self, error: ResetError, now: Instant) -> None:
        self.reset_count += 1
        self.log.add(now.unix, "reset", str(error))
        self.do(actions.ResetStarted(str(error), isinstance(error, InconsistentOriginError)))
        self.controller.clear()
        self.attributes.clear()
        self.sequencer.production.on_reset()
        self.sequencer.show_problem()
        self.safe_heads.clear()
        self.finality.reset()
        self.session.clear()
        self.unsafe.lost.clear()
        self.el_sync.restart()
        self.follow.on_reset(error)
        self.start_row.clear()
        self.interop_row.clear()
        self.build_api_row.begin()
        self.unconfirmed = None
        self.drop_moves()
        self.do(actions.ShowProblem("start", Problem(None, self._start_problem, str(error))))
        self.publish(now)

    def request_reset(self, reason: str, now: Instant) -> None:
        """Reset, unless a start is being searched for; ask an interop supervisor that has not chosen one again."""
        if self.controller.heads is not None:
            self.reset(ResetError(reason), now)
        elif not self.interop.may_start:
            self.interop.reset(reason, now.monotonic)

    def fail_by_reset(self, purpose: CallPurpose, error: ResetError, now: Instant) -> None:
        """Start over because work of this purpose needs it."""
        if isinstance(error, MissingBlockError) and self.el_sync.in_progress:
            self.start_row.search = None
            self.el_sync.lacks_block()
            self.fail(purpose, TemporaryError(str(error), Code.ENGINE_ANSWER), now)
            return
        self.reset(error, now)
        seconds = self.backoff.reset(purpose.task, now.monotonic)
        self.do(
            actions.WorkFailed(purpose.task, actions.Severity.RESET, str(error), seconds, code=Problem.of(error).code)
        )

    def begin_search(self) -> PipelineStartSearch | None:
        """Return a search for heads; None while EL sync or the interop supervisor comes first."""
        if not self.interop.may_start or self.verification.is_awaited or not self.el_sync.needs_start:
            return None
        return PipelineStartSearch(
            self.config.rollup,
            skip_check=self.config.skip_sync_start_check,
            find_l1_genesis=self.safe_heads.enabled,
            heads=self.interop.start_heads or self.follow.start_heads or self.el_sync.heads,
            offset=self.el_sync.offset,
            verification=self.verification,
        )

    def start_found(self, found_start: FoundStart) -> None:
        """End a start search: heads are in force and to be confirmed, or derivation can restart."""
        self._starts += 1
        base = found_start.base
        start = engine.PipelineStart(
            self._first_reset | self._starts, found_start.safe, found_start.safe_config, base.base, base.config
        )
        heads = found_start.heads
        if heads is None:
            self.start_row.restart = start
            return
        self._compare(heads)
        text, base_block = "found L2 heads to start with", start.base
        self._start_safe = heads.safe
        self.controller.start(self.verification.with_labels(self._with_cross_heads(heads)))
        self.attributes.start(start.reset, start.safe_config)
        self.attributes.was_safe = found_start.was_safe
        self.unconfirmed, self.l1_genesis = start, found_start.l1_genesis
        self.write("info", text, unsafe=heads.unsafe, safe=heads.safe, finalized=heads.finalized, base=base_block)

    def _compare(self, heads: Heads) -> None:
        """Warn of an engine that restarted with a head below its finalized block [ENG43]."""
        before = self._last_heads
        if before is not None and heads.unsafe.number < before.finalized.number:
            text = "the execution engine lost blocks that were final"
            back = {"unsafe": heads.unsafe.number, "unsafe_before": before.unsafe.number}
            self.write("warn", text, Code.ENGINE_LOST_BLOCKS, **back, finalized=before.finalized.number)

    def _with_cross_heads(self, heads: Heads) -> Heads:
        if not self.interop.enabled or heads.cross_safe is not None:
            return heads
        return msgspec.structs.replace(heads, cross_safe=heads.safe, cross_unsafe=heads.unsafe)

    def restart_due(self, now: Instant) -> None:
        """Restart derivation, if that is due and no job has its block inserted [SDB2, UPG24]."""
        waits = self.attributes.hold is not None or self.waits(CallPurpose.ATTRIBUTES, now)
        is_free = self.attributes.job is None or (waits and not self.attributes.inserted)
        if self.start_row.restart is not None and is_free:
            self.apply_restart(self.start_row.restart, now)

    def apply_restart(self, start: engine.PipelineStart, now: Instant) -> None:
        """Start derivation over at the safe head; another safe head than that of the start needs another search."""
        self.start_row.restart = None
        if self.confirmed_heads is None or self.confirmed_heads.safe != start.safe_head:
            return
        self.controller.restart()
        self.attributes.start(start.reset, start.safe_config)
        self.finality.reset()
        self._begin(start)
        self.sequencer.sequencer.on_heads(self.confirmed_heads, now.unix)
        self.write("info", "derivation restarted", safe=start.safe_head, base=start.base)
        self.publish(now)
        self.recover_drive()

    def _begin(self, start: engine.PipelineStart) -> None:
        self.interop.on_derivation_start()
        self.session.begin(start)
        self.send_start()

    def send_start(self) -> None:
        """Send the current start to the life of derivation that owns it, if there is one."""
        if self.safe_heads.pending:
            return
        if self.session.owner is not None and self.session.start is not None:
            self.do(actions.Send(self.session.owner, self.session.start))

    # --- heads -----------------------------------------------------------------------------------------------------

    def confirm(self, now: Instant) -> None:
        """Note that the engine has accepted the heads in force."""
        heads, start = self.controller.heads, self.unconfirmed
        if heads is None:
            return
        sequencer = self.sequencer.sequencer
        if start is None:
            sequencer.on_heads(heads, now.unix)
        else:
            self.unconfirmed = None
            self.verification.settle()
            self.safe_heads.note_reset(heads.verified_safe if self.interop.enabled else heads.safe, self.l1_genesis)
            self.unsafe.lost.begin(heads.unsafe.id, now.monotonic)
            sequencer.on_start(heads, now.unix)
            self._begin(start)
            self.el_sync_row.finish(heads, now)
            resets, self.sequencer.resets = self.sequencer.resets, []
            for peer, number in resets:
                self.respond(peer, number, None)
            self.do(actions.ShowProblem("start", None))
        self.recover_drive()

    def report(self, result: engine.AttributesResult | None, now: Instant) -> None:
        """Tell derivation, finality and the sequencer the result of derived attributes."""
        heads = self.controller.heads
        if result is None or heads is None:
            return
        self.forkchoice_at = now.monotonic + FORKCHOICE_DELAY
        if result.safe_head == heads.safe and result.outcome is not engine.AttributesOutcome.REFUSED:
            self._note_safe(heads.safe, result.derived_from, now)
        if self.attributes.result_due:
            self.send_result(result)
        self.do(actions.AttributesProcessed(result))
        self.sequencer.sequencer.on_heads(heads, now.unix)
        self.recover_drive(processed=True)

    def _note_safe(self, ref: L2BlockRef, source: L1BlockRef, now: Instant) -> None:
        """Note that a block became safe on this chain, and across chains unless that is decided elsewhere."""
        if self.interop.is_active(ref.timestamp):
            self.interop.on_local_safe(ref, source, now.monotonic)
            return
        self.safe_heads.note_safe(ref, source)
        if self.verification.is_active(ref.timestamp):
            return
        self.finality.note_safe(ref, source)
        if self.interop.enabled or self.verification.enabled:
            self.controller.promote_cross(ref, None)

    def send_result(self, result: engine.AttributesResult) -> None:
        """Send derivation the result of its attributes, once the safe head that results is recorded [SDB13]."""
        if self._unsent is None or self._unsent.reset != result.reset:
            self._unsent = result
        self._send_unsent()

    def _send_unsent(self) -> None:
        result, owner = self._unsent, self.session.owner
        while result is not None and self.safe_heads.has(result.safe_head.number):
            if owner is not None:
                self.do(actions.Send(owner, self.attributes.result_to_send(result)))
            last = self.attributes.last
            is_next = last is not None and last.sequence > result.sequence and self.attributes.result_due
            result = self._unsent = last if is_next else None

    def entry_wanted(self) -> bool:
        """Return whether the entry of a safe head is written now, and not with the next few [SDB13]."""
        return self._unsent is not None or self.interop.enabled or self.attributes.result_due

    def safe_head_written(self) -> None:
        """Send derivation what waited for a change of the safe head database."""
        if self.attributes.last is None:
            self.send_start()
        elif self._unsent is not None and self._unsent.reset == self.attributes.reset:
            self._send_unsent()

    def recover_drive(self, processed: bool = False) -> None:
        """End the back-off that starts, forkchoice updates and attributes share, unless one is under way."""
        if (processed or self.attributes.job is None) and not self.session.restart_wanted:
            self.recover(CallPurpose.FORKCHOICE)

    def take_verdicts(self, verdicts: Verdicts, now: Instant) -> None:
        """Take what the interop process says: where the chain may have to go back, a start is searched for [RW1]."""
        was_awaited, transition = self.verification.is_awaited, self.verification.transition
        if self.verification.take(verdicts):
            self.start_row.search = None
            limit = self.verification.limit
            if limit is not None:
                self.request_reset(f"the chain goes back to block {limit}: L1 has left what was verified above it", now)
            elif self.unconfirmed is not None:
                self.request_reset("blocks were denied while a start was being found", now)
        if was_awaited and not self.verification.is_awaited and self.controller.heads is None:
            self.do(actions.ShowProblem("start", Problem(None, "", self._start_problem)))
        if self.verification.transition != transition:
            self.publish(now)

    def show_replacement(self) -> None:
        """Show operators whether nothing unsafe is taken in until a denied block is replaced [IV6]."""
        waits = self.controller.heads is not None and self.replaces
        if waits != self._shows_replacement:
            self._shows_replacement = waits
            self.do(actions.ShowProblem("denied block", Problem(None, "", AWAITING_REPLACEMENT) if waits else None))

    def add_unsafe(self, payload: ExecutionPayload) -> None:
        """Queue a block from gossip, a peer or an operator, unless its rules are not known here [LFT5]."""
        foreign = self.config.rollup.is_foreign(payload.timestamp)
        self.do(actions.UnsafeBlockReceived(payload, not foreign and self.unsafe.chain.queue.add(payload)))
        if foreign:
            return
        self.attributes.note_signed(payload)
        self.el_sync.offer(payload)
        self.unsafe.show_queue()
