"""The engine machine: one synchronous state machine between the node's messages and the execution engine. Messages,
answers and the time go in; calls and actions come out. The process runs `next_calls`, hands each answer back, does the
actions, and sleeps until a message, an answer or `wait_until`.

Calls that can move heads are made one at a time. Of those that are due the first of this table is made; the reads below
them have lanes of their own, each with one call at a time, so that no slow read delays heads or derivation:

| priority | work           | due                                                      | call                          |
|----------|----------------|----------------------------------------------------------|-------------------------------|
| 0        | EL sync        | no heads, and the engine fetches the chain by itself     | see el_sync                   |
| 0a       | of the cause   | the engine may have lost the tip, or be busy [UNS7]      | the tip by its hash           |
| 1        | of the cause   | a block was inserted, or an answer is held [ENG38]       | forkchoice update             |
| 2        | forkchoice     | the heads differ from the accepted ones; 0.1 s after the | forkchoice update             |
|          |                | last block that was consolidated [ENG37]                 |                               |
| 2a       | follow source  | its local safe head is not in our chain [FSR3]           | forkchoice update             |
| 3        | attributes     | derivation has sent attributes                           | see attributes_handler        |
| 4        | unsafe block   | the block after the tip is queued, none is being built   | new payload                   |
| 4a       | unsafe gap     | the engine is to fetch what lies below a queued block    | see gap_fetch                 |
| 5        | replacement    | the supervisor has found a block invalid [IOP10]         | see supervisor_calls          |
| 6        | sequencer      | by its schedule; a forkchoice update first               | see block_production          |
| 7        | build API      | a call of the `opstack` namespace waits                  | see build_api_calls           |
| 8        | attributes     | more were derived ahead of the last block [ENG40]        | see attributes_handler        |
| lane     | commit         | a block is fetched that the conductor must store first   | see sequencer_admin           |
| lane     | leader         | the conductor decides about a start or stop              | see sequencer_admin           |
| lane     | start          | no heads, or derivation needs a new start                | see pipeline_start            |
| lane     | finality       | L1 finalized what blocks were derived from               | L1 blocks by number           |
| lane     | follow source  | every two blocks, with `l2.follow.source` [FSR1]         | see follow_source             |
| lane     | follow target  | the engine fetches a chain whose source is away [FSR10]  | see follow_target             |
| lane     | overlap blocks | derivation compares a span batch with the chain          | the request, by its response  |
| lane     | output         | optimism_outputAtBlock, superroot_atTimestamp            | the request, by its response  |
| lane     | safe head      | optimism_safeHeadAtL1Block, superroot_atTimestamp        | the request, by its response  |
| lane     | safe head      | a block became safe, or derivation has a new start; with | the write of the safe head    |
|          | write          | `safedb.path` [SDB3]                                     | database                      |
| lane     | peer payload   | a peer requests a block                                  | the request, by its response  |
| lane     | EL sync progr. | every 10 s while the engine syncs [ELS13]                | eth_syncing                   |
| lane     | lost blocks    | the engine lacks blocks that the p2p process has [SEQ40] | L1 blocks by number           |

| state      | fields             | event                       | next state                                         |
|------------|--------------------|-----------------------------|----------------------------------------------------|
| EL sync    | `el_sync`, no heads| see el_sync                 | searching, perhaps with heads to start with        |
| searching  | no heads           | start found                 | confirming                                         |
| confirming | `unconfirmed`      | forkchoice update accepted  | running; derivation gets its start                 |
| running    | heads              | an answer to rows 3 to 5    | running, perhaps with other heads                  |
| running    | heads, `finishing` | forkchoice update accepted  | running; the inserted block is the head            |
| running    | heads, `held`      | forkchoice update accepted  | running; the held answer is processed              |
| running    | heads, `restart`   | no head-moving call is open | running; derivation gets another start             |
| any        |                    | ResetError, reset request   | searching; EL sync before its end [ELS4]. Answers  |
|            |                    |                             | to open calls are ignored                          |
| any        | `backoff`          | TemporaryError              | the same; the work is tried again after a pause    |

Heads change only between head-moving calls, by their answers, and by resets. They are published once the engine has
accepted them, so that whoever reads a head finds it in the engine. Severities are caught here, where they name the
work that failed; CriticalError goes through."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.api.engine_api import ForkchoiceUpdate, GetPayload, Unavailable
from rollup_node.stages.engine.api.heads import Heads
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core import actions as act
from rollup_node.stages.engine.core.backoff import TaskBackoff
from rollup_node.stages.engine.core.calls import CoreAnswer, CoreCall, Instant, Lane, PendingCall, Read, Work
from rollup_node.stages.engine.core.head_calls import Due, HeadCalls
from rollup_node.stages.engine.core.inbox import Inbox, News, PeerRequest
from rollup_node.stages.engine.core.interop import Interop
from rollup_node.stages.engine.core.lost_block_calls import LostBlockCalls
from rollup_node.stages.engine.core.requests import ReadQueue
from rollup_node.stages.engine.core.sequencer_admin import SequencerAdmin
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.engine.core.stimulus_log import StimulusLog
from rollup_node.stages.engine.core.supervisor_calls import Decision
from rollup_node.stages.engine.machines.el_sync import ELSync
from rollup_node.stages.engine.machines.finality import NeedCanonicalL1
from rollup_node.stages.engine.machines.pipeline_start import GetL1BlockRef, PipelineStartSearch
from rollup_node.stages.engine.safedb.entries import RecordSafeHead, SafeHeadsWritten
from rollup_node.stages.messages.control import (
    OutputResponse,
    SafeHeadResponse,
    StartSequencerRequest,
    StopSequencerRequest,
)
from rollup_node.stages.messages.engine import EngineStatus, L2BlocksResponse
from rollup_node.stages.messages.p2p import PayloadResponse
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef, L2BlockRef

SEARCH_PAUSE = 1.0
POLL_SECONDS = 1.0
IDLE_SECONDS = 30.0

R = TypeVar("R", bound=Read)


class EngineCore:
    """`first_reset` is the number before that of the first start, `stopped` whether the sequencer begins stopped.
    Neither clock needs to be steady: all times come from the caller."""

    def __init__(
        self, config: EngineConfig, *, first_reset: int = 0, stopped: bool = False, backoff: TaskBackoff | None = None
    ) -> None:
        self._state = CoreState(config, first_reset, stopped, TaskBackoff() if backoff is None else backoff)
        self._failed_fetch: CoreCall | None = None
        self._sequencer_admin = SequencerAdmin(self._state)
        self._heads = HeadCalls(self._state)
        self._lost_blocks = LostBlockCalls(self._state)
        self._inbox = Inbox(self._state, self._sequencer_admin, self._heads.build_api)
        self._rows: tuple[tuple[Work, Callable[[Instant], Due]], ...] = (
            *self._heads.priorities,
            (Work.COMMIT, self._sequencer_admin.commit_due),
            (Work.LEADER, self._sequencer_admin.leader_due),
            (Work.START, self._start),
            (Work.FINALITY, self._finality),
            (Work.FOLLOW, self._heads.follow.read_due),
            (Work.FOLLOW_TARGET, self._heads.follow.target_due),
            (Work.OVERLAP_BLOCKS, lambda now: _oldest(Work.OVERLAP_BLOCKS, self._inbox.overlap_blocks)),
            (Work.SAFE_HEAD_WRITE, self._safe_head_write),
            (Work.OUTPUT, lambda now: _oldest(Work.OUTPUT, self._inbox.outputs)),
            (Work.SAFE_HEAD, lambda now: _oldest(Work.SAFE_HEAD, self._inbox.safe_heads)),
            (Work.PEER_PAYLOAD, lambda now: _oldest(Work.PEER_PAYLOAD, self._inbox.peer_payloads)),
            (Work.EL_SYNC_PROGRESS, self._heads.el_sync.progress_call),
            (Work.LOST_BLOCKS, self._lost_blocks.origin_due),
        )
        self._open: dict[Lane, PendingCall] = {}
        self._calls = 0
        self._state.do(act.PublishStatus(self.status()))

    # --- what can be seen ------------------------------------------------------------------------------------------

    @property
    def heads(self) -> Heads | None:
        """The heads in force; None while a start is searched for."""
        return self._state.controller.heads

    @property
    def el_sync(self) -> ELSync:
        """How far EL sync is."""
        return self._state.el_sync

    @property
    def log(self) -> StimulusLog:
        """The last stimuli, for a bug report."""
        return self._state.log

    @property
    def open_calls(self) -> tuple[PendingCall, ...]:
        """The calls that are not answered yet."""
        return tuple(self._open.values())

    def status(self) -> EngineStatus:
        """Heads and sequencer as other processes see them."""
        return self._state.status()

    @property
    def last_safe_head(self) -> L2BlockRef | None:
        """The safe head once no block after it can be derived, and the engine and the safe head database have it
        [LFT4]; None before."""
        heads = self._state.controller.announced
        if heads is None or not self._state.config.rollup.ends_at(heads.safe.number) or self._state.safe_heads.pending:
            return None
        return heads.safe

    # --- what comes in ---------------------------------------------------------------------------------------------

    def news(self, message: News, now: Instant) -> None:
        """Takes what l1, derivation or peers publish."""
        self._state.log.add(now.unix, "news", message)
        self._inbox.news(message, now)

    def begins_by(self, message: PeerRequest) -> bool | None:
        """Whether the sequencer is started or stopped by a request that succeeds now; None for any other [ADM5]."""
        sequencer = self._state.production.sequencer
        match message:
            case StartSequencerRequest(head=head) if sequencer.start_error(head) is None:
                return True
            case StopSequencerRequest() if sequencer.stop_error() is None and not sequencer.stopping:
                return False
        return None

    def decide(self, decision: Decision, now: Instant, epoch: int | None = None) -> None:
        """Takes a decision of the supervisor, for which blocks were read from `epoch` on; None: from now on."""
        self._state.log.add(now.unix, "supervisor", decision)
        self._heads.supervisor.decide(decision, now, self.epoch if epoch is None else epoch)

    @property
    def epoch(self) -> int:
        """How many resets there were."""
        return self._state.epoch

    @property
    def interop(self) -> Interop:
        """The events for the supervisor, and its decisions."""
        return self._state.interop

    def request(self, peer: ProcessId, message: PeerRequest, now: Instant) -> None:
        """Takes a request of another process."""
        self._state.log.add(now.unix, "request", message)
        self._inbox.request(peer, message, now)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to an open call; one to any other call is ignored, and of one from before a reset only that
        it has come counts. Raises CriticalError when the engine contradicts a rule that holds for every engine."""
        self._state.log.add(now.unix, f"answer {pending.number}", answer)
        if self._open.get(pending.work.lane) != pending:
            return
        del self._open[pending.work.lane]
        try:
            self._take(pending, answer, now)
        except TemporaryError as error:
            self._fail(pending.work, pending.call, error, now)
        except ResetError as error:
            if pending.work is Work.BUILD_API:
                self._heads.build_api.fail_commit(str(error))
            self._state.fail_by_reset(pending.work, error, now)

    def shut_down(self) -> None:
        """The process ends: nothing new is sequenced; a block that is sealed may still be committed and inserted
        [SEQ28]."""
        if self._state.production.sequencer.active:
            self._state.production.sequencer.stop()

    @property
    def last_block_waits(self) -> bool:
        """Whether a block of this sequencer is sealed, and not the engine's head yet."""
        return self._state.production.sequencer.stopping or self._state.last_block_waits()

    # --- what goes out ---------------------------------------------------------------------------------------------

    def next_calls(self, now: Instant) -> list[PendingCall]:
        """The calls to make now, at most one for each lane that has none open."""
        if Lane.HEADS not in self._open:
            self._heads.move_heads(now)
        self._lost_blocks.step(now)
        self._state.finish_stops(now)
        self._heads.gap.look(now)
        self._state.interop.repeat_due(now.monotonic)
        calls = []
        for work, due in self._rows:
            if work.lane in self._open:
                continue
            try:
                found = due(now)
            except TemporaryError as error:
                self._fail(work, None, error, now)
            except ResetError as error:
                self._state.fail_by_reset(work, error, now)
            else:
                if found is not None:
                    calls.append(self._make(*found, now))
        self._state.show_hold()
        return calls

    def take_actions(self) -> list[act.Action]:
        """The actions since the last call, to be done in this order."""
        actions, self._state.actions = self._state.actions, []
        return actions

    def wait_until(self, now: Instant) -> float:
        """The monotonic time at which `next_calls` is needed at the latest, if nothing comes in before."""
        times = (at for at in self._timers(now) if at is not None and at > now.monotonic)
        return min(times, default=now.monotonic + IDLE_SECONDS)

    def _make(self, work: Work, call: CoreCall, now: Instant) -> PendingCall:
        self._calls += 1
        pending = PendingCall(self._calls, work, call, self._state.epoch, now.monotonic)
        self._open[work.lane] = pending
        self._state.log.add(now.unix, f"call {pending.number}", work, call)
        return pending

    def _timers(self, now: Instant) -> Iterator[float | None]:
        """When something becomes due by time alone, in the past where only an answer can lead to it."""
        state = self._state
        yield state.backoff.next_retry(now.monotonic)
        yield state.search_at
        yield state.forkchoice_at
        yield state.finality_at
        yield state.unsafe.gap_at
        yield state.lost.wait_until()
        yield state.interop.repeat_at
        yield from self._heads.follow.timers()
        yield self._sequencer_admin.ask_at
        yield from self._heads.el_sync.timers()
        if state.production.sequencer.enabled:
            due = state.production.wait_until()
            yield now.monotonic + (POLL_SECONDS if due is None else min(POLL_SECONDS, max(0.0, due - now.unix)))

    # --- lanes beside the heads ------------------------------------------------------------------------------------

    def _start(self, now: Instant) -> Due:
        """The call of the start search; begins one when there are no heads or derivation needs another start."""
        state = self._state
        if state.backoff.is_waiting(Work.START.task, now.monotonic):
            return None
        if self._needs_heads() and now.monotonic >= state.search_at:
            state.search_at = now.monotonic + SEARCH_PAUSE
            state.search = PipelineStartSearch(
                state.config.rollup,
                skip_check=state.config.skip_sync_start_check,
                find_l1_genesis=state.safe_heads.enabled,
                heads=state.interop.start_heads or state.follow.start_heads or state.el_sync.heads,
                offset=state.el_sync.offset,
            )
        elif self._needs_restart() and state.confirmed_heads is not None:
            state.search = PipelineStartSearch(state.config.rollup, safe=state.confirmed_heads.safe)
        call = None if state.search is None else state.search.call
        return None if call is None else (Work.START, call)

    def _needs_heads(self) -> bool:
        state = self._state
        free = state.search is None and state.controller.heads is None
        return free and state.interop.may_start and state.el_sync.needs_start

    def _needs_restart(self) -> bool:
        state = self._state
        return state.search is None and state.restart is None and state.session.restart_wanted

    def _finality(self, now: Instant) -> Due:
        state = self._state
        waits = state.backoff.is_waiting(Work.FINALITY.task, now.monotonic) or now.monotonic < state.finality_at
        if state.confirmed_heads is None or waits:
            return None
        need = state.finality.next(state.confirmed_heads.finalized)
        if isinstance(need, NeedCanonicalL1):
            return Work.FINALITY, GetL1BlockRef(need.number, fresh=not state.finality.checked)
        state.recover(Work.FINALITY.task)
        return None

    def _safe_head_write(self, now: Instant) -> Due:
        state = self._state
        if state.backoff.is_waiting(Work.SAFE_HEAD_WRITE.task, now.monotonic):
            return None
        write = state.safe_heads.next()
        return None if write is None else (Work.SAFE_HEAD_WRITE, write)

    # --- answers ---------------------------------------------------------------------------------------------------

    def _take(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        state, work = self._state, pending.work
        if work is Work.OVERLAP_BLOCKS:
            peer = self._inbox.overlap_blocks.answered()
            if isinstance(answer, L2BlocksResponse):
                state.do(act.SendToDerivation(peer, answer))
        elif work is Work.OUTPUT:
            peer = self._inbox.outputs.answered()
            if isinstance(answer, OutputResponse):
                state.do(act.SendToRpc(peer, answer))
        elif work is Work.SAFE_HEAD:
            peer = self._inbox.safe_heads.answered()
            if isinstance(answer, SafeHeadResponse):
                state.do(act.SendToRpc(peer, answer))
        elif work is Work.PEER_PAYLOAD:
            peer = self._inbox.peer_payloads.answered()
            if isinstance(answer, PayloadResponse):
                state.do(act.SendToP2P(peer, answer))
        elif work is Work.LEADER:
            self._sequencer_admin.take_leader(answer, now)
        elif work is Work.COMMIT and pending.epoch == state.epoch:
            self._sequencer_admin.take_commit(pending, answer, now)
        elif pending.epoch == state.epoch:
            self._take_own(pending, answer, now)

    def _take_own(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Answers of the engine and of L1 to calls on behalf of this process."""
        state = self._state
        if pending.work is Work.EL_SYNC_PROGRESS:
            self._heads.el_sync.answer_progress(answer, now)
            return
        if pending.work is Work.BUILD_API and not _moves_heads(pending.call):
            self._heads.answer(pending, answer, now)
            return
        if pending.work is Work.FOLLOW:
            self._heads.follow.answer(pending, answer, now)
            return
        if isinstance(answer, Unavailable) and not self._ends_build(pending.call, answer):
            if answer.unreadable and (state.el_sync.take_unreadable(pending.call) or self._starts_without(pending)):
                return
            # Derivation starts over, so that an entry that could not be written is derived again [SDB3].
            raise (ResetError if isinstance(pending.call, RecordSafeHead) else TemporaryError)(
                answer.reason, answer.code
            )
        if pending.work is Work.START:
            self._take_start(answer)
        elif pending.work is Work.FINALITY:
            self._take_finality(pending, answer, now)
        elif pending.work is Work.FOLLOW_TARGET:
            self._heads.follow.answer_target(pending, answer, now)
        elif pending.work is Work.LOST_BLOCKS:
            self._lost_blocks.answer(pending, answer)
        elif pending.work is Work.SAFE_HEAD_WRITE:
            if isinstance(answer, SafeHeadsWritten):
                state.safe_head_written()
        else:
            self._heads.answer(pending, answer, now)

    def _ends_build(self, call: CoreCall, answer: Unavailable) -> bool:
        """Whether a block is not fetched again: the engine's answer cannot be read, or it gave none twice in a row
        [ENG21, SEQ6]."""
        if not isinstance(call, GetPayload):
            return False
        again = call == self._failed_fetch
        self._failed_fetch = None if again else call
        return again or answer.unreadable

    def _starts_without(self, pending: PendingCall) -> bool:
        """Whether the start search goes on without a block that the engine has not whole."""
        search = self._state.search
        if pending.work is not Work.START or search is None or not search.lacks_block():
            return False
        self._end_search()
        return True

    def _take_start(self, answer: CoreAnswer) -> None:
        if self._state.search is None:
            return
        self._state.search.answer(answer)
        self._end_search()

    def _end_search(self) -> None:
        state = self._state
        if state.search is not None and state.search.found is not None:
            found, state.search = state.search.found, None
            state.start_found(found)

    def _take_finality(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        state, call = self._state, pending.call
        found = answer if isinstance(answer, L1BlockRef) else None
        if isinstance(call, GetL1BlockRef):
            state.finality.add_canonical(NeedCanonicalL1(call.number), found)
        if found is None:
            state.finality_at = now.monotonic + POLL_SECONDS
        state.recover(Work.FINALITY.task)

    def _fail(self, work: Work, call: CoreCall | None, error: TemporaryError, now: Instant) -> None:
        if work.lane is Lane.HEADS:
            self._heads.fail(work, call, error, now)
            return
        if work is Work.FOLLOW:
            self._heads.follow.fail(work, error, now)
            return
        if work is Work.START:
            self._state.search = None
        self._state.fail(work, error, now)


def _moves_heads(call: CoreCall) -> bool:
    """Whether it is a forkchoice update for this node's heads."""
    return isinstance(call, ForkchoiceUpdate) and call.attributes is None


def _oldest(work: Work, queue: ReadQueue[R]) -> Due:
    """The oldest request of a queue, which is a call itself."""
    request = queue.next()
    return None if request is None else (work, request)
