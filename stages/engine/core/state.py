"""The state of the engine core: the machines, what passes between them, and the transitions that concern several."""

import msgspec

from rollup_node.stages.engine.api.heads import Heads
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core import actions as act
from rollup_node.stages.engine.core.backoff import TaskBackoff
from rollup_node.stages.engine.core.calls import CoreAnswer, Instant, PendingCall, Work
from rollup_node.stages.engine.core.derivation_session import DerivationSession
from rollup_node.stages.engine.core.interop import Interop, OrdinarySearch
from rollup_node.stages.engine.core.requests import AdminRequests
from rollup_node.stages.engine.core.stimulus_log import StimulusLog
from rollup_node.stages.engine.machines.activation_hold import OtherUpgrade
from rollup_node.stages.engine.machines.attributes_handler import AttributesHandler, ProcessedAttributes
from rollup_node.stages.engine.machines.base_search import MissingBlockError
from rollup_node.stages.engine.machines.block_production import BlockProduction
from rollup_node.stages.engine.machines.el_sync import ELSync, ELSyncOptions
from rollup_node.stages.engine.machines.engine_controller import EngineController
from rollup_node.stages.engine.machines.finality import Finality, Finalize
from rollup_node.stages.engine.machines.follow_source import FollowSource
from rollup_node.stages.engine.machines.lost_blocks import LostBlocks
from rollup_node.stages.engine.machines.origin_selector import InconsistentOriginError
from rollup_node.stages.engine.machines.pipeline_start import FoundStart, PipelineStartSearch
from rollup_node.stages.engine.machines.unsafe_chain import UnsafeChain
from rollup_node.stages.engine.machines.unsafe_queue import DroppedUnsafeBlock
from rollup_node.stages.engine.safedb.recorder import SafeHeadRecorder
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.control import ControlResponse
from rollup_node.stages.messages.engine import AttributesOutcome, AttributesResult, EngineStatus, PipelineStart
from rollup_node.stages.protocol.errors import ResetError, StageError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, Hash, L1BlockRef, L2BlockRef

FORKCHOICE_DELAY = 0.1
"""Seconds after a derived block before an update makes it safe in the engine: blocks that are consolidated one after
the other share an update [ENG37]."""

SEARCHING = "searching for the L2 heads to start with"
AWAITING_SUPERVISOR = "waiting for the supervisor to call interop_reset on the listener of interop.rpc.addr"


class CoreState:
    """`first_reset` numbers the starts of this life of the process. Times are monotonic seconds.

    `unconfirmed` is a start whose heads the engine has not accepted yet; `search` a start search on its way, at the
    earliest at `search_at`; `restart` a start at the safe head that waits until no head-moving call is open.
    `forkchoice_at` is when a pending forkchoice update is due; `finishing` the work whose block was inserted and is to
    become the head now; `held` a call whose answer is processed after a forkchoice update; `doubted` the tip that the
    engine may have lost, with the work whose update showed that. `epoch` counts resets.
    `l1_genesis` is L1 block 0 if the unconfirmed start is the L2 genesis and safe heads are recorded."""

    def __init__(self, config: EngineConfig, first_reset: int, stopped: bool, backoff: TaskBackoff) -> None:
        self.config, self.backoff = config, backoff
        self.controller = EngineController()
        self.unsafe = UnsafeChain(config.rollup)
        self.attributes = AttributesHandler(config.rollup, self.controller)
        self.production = BlockProduction(config, stopped)
        records = config.safedb_path is not None and config.follow_url is None
        self.safe_heads = SafeHeadRecorder(records, supervised=config.interop)
        self.finality = Finality(config.rollup, config.finality_lookback, config.finality_delay)
        self.lost = LostBlocks(config.rollup, config.p2p and not config.interop)
        self.follow = FollowSource(config.rollup, config.follow_url is not None)
        self.el_sync = ELSync(
            config.rollup,
            ELSyncOptions(
                config.el_sync,
                config.engine_kind,
                config.offset_el_safe,
                config.sequencer_enabled,
                self.safe_heads.enabled,
                config.engine_kind_given,
            ),
        )
        self.sdm_opt_in = config.sdm_opt_in
        self.session = DerivationSession()
        self.admin = AdminRequests()
        self.interop = Interop(config.rollup, config.interop, first_reset)
        self.log = StimulusLog()
        self.actions: list[act.Action] = []
        self.epoch = 0
        self.unconfirmed: PipelineStart | None = None
        self.l1_genesis: BlockId | None = None
        self.search: PipelineStartSearch | None = None
        self.restart: PipelineStart | None = None
        self.finishing: Work | None = None
        self.held: tuple[PendingCall, CoreAnswer] | None = None
        self.doubted: tuple[Work, L2BlockRef] | None = None
        self.search_at = self.forkchoice_at = self.finality_at = 0.0
        self._first_reset, self._starts = first_reset, 0
        self._logged_heads: Heads | None = None
        self._last_announced: Heads | None = None
        self._last_sequenced: Hash | None = None
        self._sequencer_problem: tuple[Problem | None, int] = (None, 0)
        self._shown_hold: tuple[OtherUpgrade, bool] | None = None
        self._shown_queue: tuple[int, int] = (0, 0)
        self.do(act.ShowProblem("start", Problem(None, "", self._start_problem)))

    @property
    def confirmed_heads(self) -> Heads | None:
        """The heads in force, which the engine has accepted once; None before that."""
        return None if self.unconfirmed is not None else self.controller.heads

    def status(self) -> EngineStatus:
        """Heads and sequencer as other processes see them."""
        heads, sequencer = self.controller.announced, self.production.sequencer
        flags = sequencer.enabled, sequencer.active
        if heads is None:
            reset = self.attributes.reset
            return EngineStatus(reset, None, None, None, None, None, *flags, sdm_opt_in=self.sdm_opt_in)
        self._last_announced = heads
        return EngineStatus(
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
        )

    @property
    def fetched(self) -> L2BlockRef | None:
        """The block that the engine was pointed at and does not have yet; None if it fetches nothing for us."""
        return self.unsafe.fetch.target if self.follow.syncing is None else self.follow.syncing.local_safe

    def do(self, action: act.Action) -> None:
        """Adds an action for the process."""
        self.actions.append(action)

    def publish_block(self, payload: ExecutionPayload) -> None:
        """Has the block that the sequencer sealed on the unsafe head signed and gossiped."""
        heads = self.production.sequencer.heads
        if heads is not None and heads.unsafe.hash == payload.parent_hash:
            derived = self.follow.proven if self.follow.enabled else heads.pending_safe.number
            self.do(act.PublishBlock(payload, heads.unsafe, derived))

    def publish(self, now: Instant) -> None:
        """Publishes heads that may have moved."""
        if self.controller.heads != self._logged_heads:
            self._logged_heads = self.controller.heads
            self.log.add(now.unix, "heads", self._logged_heads)
        self._show_unsafe(now)
        self.do(act.PublishStatus(self.status()))
        self.unsafe.on_heads(self.controller.heads, now.monotonic)

    def _show_unsafe(self, now: Instant) -> None:
        """The supervisor gets a new unsafe head; before interop it is verified by itself."""
        heads = self.controller.heads
        if heads is None or not self.interop.enabled:
            return
        self.interop.on_unsafe(heads.unsafe, now.monotonic)
        if not self.interop.is_active(heads.unsafe.timestamp):
            self.controller.promote_cross(None, heads.unsafe)

    # --- starts ----------------------------------------------------------------------------------------------------

    @property
    def _start_problem(self) -> str:
        return SEARCHING if self.interop.may_start else AWAITING_SUPERVISOR

    def reset(self, error: ResetError, now: Instant) -> None:
        """Clears what was built on the heads and searches for a new start, or has the supervisor choose it. Answers to
        open calls are ignored."""
        self.interop.reset(str(error), now.monotonic)
        self._clear(error, now)

    def force_start(self, start: Heads | OrdinarySearch, now: Instant) -> None:
        """The supervisor has chosen another start [IOP20]."""
        self.interop.choose_start(start)
        self.search_at = 0.0
        self._clear(ResetError("the supervisor has chosen a start"), now)

    def _clear(self, error: ResetError, now: Instant) -> None:
        self.epoch += 1
        self.log.add(now.unix, "reset", str(error))
        self.do(act.ResetStarted(str(error), isinstance(error, InconsistentOriginError)))
        self.controller.clear()
        self.attributes.clear()
        self.production.on_reset()
        self.show_sequencer_problem()
        self.safe_heads.clear()
        self.finality.reset()
        self.session.clear()
        self.lost.clear()
        self.el_sync.restart()
        self.follow.on_reset(error)
        self.unconfirmed = self.search = self.restart = self.finishing = self.held = self.doubted = None
        self.do(act.ShowProblem("start", Problem(None, self._start_problem, str(error))))
        self.publish(now)

    def request_reset(self, reason: str, now: Instant) -> None:
        """Resets, unless a start is being searched for; a supervisor that has not chosen one yet is asked again."""
        if self.controller.heads is not None:
            self.reset(ResetError(reason), now)
        elif not self.interop.may_start:
            self.interop.reset(reason, now.monotonic)

    def start_found(self, found: FoundStart) -> None:
        """The end of a start search: heads are in force and to be confirmed, or derivation can restart."""
        self._starts += 1
        base = found.base
        start = PipelineStart(self._first_reset | self._starts, found.safe, found.safe_config, base.base, base.config)
        if found.heads is None:
            self.restart = start
            return
        heads = found.heads
        if self.interop.enabled and heads.cross_safe is None:
            heads = msgspec.structs.replace(heads, cross_safe=heads.safe, cross_unsafe=heads.unsafe)
        self.controller.start(heads)
        self.attributes.start(start.reset, start.safe_config)
        self.attributes.was_safe = found.was_safe
        self.unconfirmed, self.l1_genesis = start, found.l1_genesis
        self.do(act.StartFound(found.heads, start.base))

    def apply_restart(self, start: PipelineStart, now: Instant) -> None:
        """Derivation starts over at the safe head; another safe head than that of the start needs another search."""
        self.restart = None
        if self.confirmed_heads is None or self.confirmed_heads.safe != start.safe_head:
            return
        self.controller.restart()
        self.attributes.start(start.reset, start.safe_config)
        self.finality.reset()
        self._begin(start)
        self.production.sequencer.on_heads(self.confirmed_heads, now.unix)
        self.do(act.DerivationRestarted(start))
        self.publish(now)
        self.recover_drive()

    def _begin(self, start: PipelineStart) -> None:
        self.interop.on_derivation_start()
        self.session.begin(start)
        self.send_start()

    def send_start(self) -> None:
        """Sends the present start to the life of derivation that owns it, if there is one."""
        if self.safe_heads.pending:
            return
        if self.session.owner is not None and self.session.start is not None:
            self.do(act.SendToDerivation(self.session.owner, self.session.start))

    # --- heads -----------------------------------------------------------------------------------------------------

    def confirm(self, now: Instant) -> None:
        """The engine has accepted the heads in force."""
        heads, start = self.controller.heads, self.unconfirmed
        if heads is None:
            return
        sequencer = self.production.sequencer
        if start is None:
            sequencer.on_heads(heads, now.unix)
        else:
            self.unconfirmed = None
            self.safe_heads.note_reset(heads.verified_safe, self.l1_genesis)
            self.lost.begin(heads.unsafe.id, now.monotonic)
            sequencer.on_start(heads, now.unix)
            self._begin(start)
            self._finish_el_sync(heads, now)
            for peer, number in self.admin.take_resets():
                self.do(act.SendToRpc(peer, ControlResponse(number, None, None)))
            self.do(act.ShowProblem("start", None))
        self.recover_drive()

    def _finish_el_sync(self, heads: Heads, now: Instant) -> None:
        if self.el_sync.in_progress:
            began = self.el_sync.started_at
            self.el_sync.finish()
            self.recover(Work.EL_SYNC.task)
            self.do(act.ELSyncFinished(heads, 0.0 if began is None else now.monotonic - began))

    def report(self, processed: ProcessedAttributes | None, now: Instant) -> None:
        """Derived attributes are processed: derivation, finality and the sequencer take the result."""
        heads = self.controller.heads
        if processed is None or heads is None:
            return
        self.forkchoice_at = now.monotonic + FORKCHOICE_DELAY
        if processed.safe_head == heads.safe and processed.outcome is not AttributesOutcome.REFUSED:
            self._note_safe(heads.safe, processed.derived_from, now)
        if self.attributes.result_due:
            self.send_result(processed)
        self.do(act.AttributesProcessed(processed))
        self.production.sequencer.on_heads(heads, now.unix)
        self.recover_drive(processed=True)

    def _note_safe(self, ref: L2BlockRef, source: L1BlockRef, now: Instant) -> None:
        """A block became safe on this chain; safe across chains it becomes by itself only without a supervisor, or
        before interop."""
        if self.interop.is_active(ref.timestamp):
            self.interop.on_local_safe(ref, source, now.monotonic)
            return
        self.finality.note_safe(ref, source)
        self.safe_heads.note_safe(ref, source)
        if self.interop.enabled:
            self.controller.promote_cross(ref, None)

    def send_result(self, processed: ProcessedAttributes) -> None:
        """Sends derivation what became of its attributes, once the safe head that results is recorded [SDB13]."""
        if self.session.owner is not None and not self.safe_heads.pending:
            message = AttributesResult(
                self.attributes.reset,
                processed.sequence,
                processed.outcome,
                processed.safe_head,
                processed.safe_config,
                self.attributes.run.take_accepted(processed.sequence),
                len(self.attributes.run.ahead) + (self.attributes.job is not None),
            )
            self.do(act.SendToDerivation(self.session.owner, message))

    def safe_head_written(self) -> None:
        """A change of the safe head database is on disk: derivation gets what it waits for."""
        self.safe_heads.done()
        self.recover(Work.SAFE_HEAD_WRITE.task)
        if self.attributes.last is not None:
            self.send_result(self.attributes.last)
        else:
            self.send_start()

    def finalize_due(self, now: Instant) -> None:
        """Moves the finalized head if that is due; the next forkchoice update carries it."""
        heads = self.confirmed_heads
        if self.safe_heads.pending:
            return
        if heads is not None and isinstance(due := self.finality.next(heads.finalized), Finalize):
            self.controller.finalize(due.block)
            self.finality.done()
            self.do(act.BlockFinalized(due.block))
            self.publish(now)

    # --- unsafe blocks, sequencer ----------------------------------------------------------------------------------

    def add_unsafe(self, payload: ExecutionPayload) -> None:
        """Queues a block from gossip, a peer or an operator, unless its rules are not known here [LFT5]."""
        foreign = self.config.rollup.is_foreign(payload.timestamp)
        self.do(act.UnsafeBlockReceived(payload, not foreign and self.unsafe.queue.add(payload)))
        if foreign:
            return
        self.attributes.note_signed(payload)
        self.el_sync.offer(payload)
        self.show_queue()

    def drop_unsafe(self, dropped: DroppedUnsafeBlock) -> None:
        """An unsafe block has left the queue because it is invalid."""
        self.lost.refused(dropped.hash, dropped.reason)
        self.attributes.forget_signed(dropped.hash)
        self.do(act.UnsafeBlockDropped(dropped))

    def show_queue(self) -> None:
        """Reports the unsafe queue if it has changed."""
        queue = self.unsafe.queue
        if (shown := (len(queue), queue.bytes)) != self._shown_queue:
            self._shown_queue = shown
            self.do(act.UnsafeQueueChanged(*shown, queue.lowest))

    def show_hold(self) -> None:
        """Reports that derivation waits before the activation block of a fork, if that has changed [UPG24]."""
        hold = self.attributes.hold
        shown = None if hold is None else (hold.other, hold.confirmed)
        if shown == self._shown_hold:
            return
        self._shown_hold = shown
        self.do(act.ShowProblem("upgrade", None if hold is None else hold.problem))
        if hold is None:
            return
        self.do(act.UpgradeDiffers(hold.other, hold.confirmed))
        if hold.confirmed and hold.other.carried is not None and self.config.bundle_auto:
            self.do(act.BundleChosen(hold.other))

    def show_sequencer_problem(self) -> None:
        """Reports why the sequencer cannot build: each failed attempt, and when that ends."""
        sequencer, (last, failures) = self.production.sequencer, self._sequencer_problem
        problem = sequencer.problem
        if (problem, sequencer.failures) == (last, failures):
            return
        self._sequencer_problem = problem, sequencer.failures
        if problem is not None and sequencer.failures != failures:
            self.do(act.SequencerWaits(str(msgspec.structs.replace(problem, subject=""))))
        if problem != last:
            self.do(act.ShowProblem("sequencer", problem))

    def finish_stops(self, now: Instant) -> None:
        """Answers admin_stopSequencer once the sequencer has stopped and the engine has its last block as its head,
        also where the engine had lost it. A stop without heads does not wait for them [SEQ27, SEQ42]."""
        waits = self.production.sequencer.active or self.last_block_waits() or self.lost.pending
        if not self.admin.stops or waits:
            return
        self.answer_stops()
        self.publish(now)

    def last_block_waits(self) -> bool:
        """Whether the block that was sequenced last is the tip, and not the engine's head yet."""
        heads, accepted = self.controller.heads, self.controller.accepted
        if heads is None or heads.unsafe.hash != self._last_sequenced:
            return False
        return accepted is None or accepted.head != heads.unsafe.hash

    def note_sequenced(self, block: L2BlockRef) -> None:
        """The engine has validated a block of this sequencer."""
        self._last_sequenced = block.hash

    def answer_stops(self) -> None:
        """Answers admin_stopSequencer with the head at which the sequencer has stopped, if a stop is waiting: the last
        one that was known, the zero hash where none ever was."""
        heads = self.production.sequencer.heads or self._last_announced
        head = None if heads is None else heads.unsafe
        stops = self.admin.take_stops()
        if stops:
            self.do(act.SequencerStopped(head))
        for peer, number in stops:
            self.do(act.SendToRpc(peer, ControlResponse(number, None, ZERO_HASH if head is None else head.hash)))

    # --- failures --------------------------------------------------------------------------------------------------

    def fail(
        self, work: Work, error: StageError, now: Instant, *, reason: str = "", pause: float | None = None
    ) -> float:
        """Work failed temporarily; the seconds until it is tried again, `pause` if that is given. `reason` tells apart
        what one task fails by."""
        seconds = self.backoff.fail(work.task, now.monotonic, pause)
        if work is Work.EL_SYNC:
            self.el_sync.failed()
        problem = Problem.of(error)
        self.log.add(now.unix, "failed", work, str(problem))
        self.do(act.WorkFailed(work.task, act.Severity.TEMPORARY, problem.text, seconds, reason, problem.code))
        return seconds

    def fail_by_reset(self, work: Work, error: ResetError, now: Instant) -> None:
        """Work needs a new start."""
        if isinstance(error, MissingBlockError) and self.el_sync.in_progress:
            self.search = None
            self.el_sync.lacks_block()
            self.fail(work, error, now)
            return
        self.reset(error, now)
        seconds = self.backoff.reset(work.task, now.monotonic)
        self.do(act.WorkFailed(work.task, act.Severity.RESET, str(error), seconds, code=Problem.of(error).code))

    def recover(self, task: str) -> None:
        """Work of a task succeeded."""
        if failures := self.backoff.recover(task):
            self.do(act.WorkRecovered(task, failures))

    def recover_drive(self, processed: bool = False) -> None:
        """Starts, forkchoice updates and attributes share a back-off: it ends when none of them is under way, and with
        each block that is processed."""
        if (processed or self.attributes.job is None) and not self.session.restart_wanted:
            self.recover(Work.FORKCHOICE.task)
