"""The engine machine: one synchronous state machine between the node's messages and the execution engine.

Messages, answers and the time go in; calls and actions come out. The process runs `next_calls`, hands each answer back,
does the actions, and sleeps until a message, an answer or `wait_until`.

Calls that can move heads are made one at a time. Of those that are due the first of this table is made; the reads below
them have lanes of their own, each with one call at a time, so that no slow read delays heads or derivation:

| priority | work           | due                                                      | call                          |
|----------|----------------|----------------------------------------------------------|-------------------------------|
| 0        | EL sync        | no heads, and the engine fetches the chain by itself     | see el_sync                   |
| 0a       | of the cause   | the engine may have lost the tip, or be busy [UNS7]      | the tip by its hash           |
| 1        | of the cause   | a block was inserted, or an answer is held [ENG38]       | forkchoice update             |
| 1a       | denied block   | a denied block may stand in the chain [IV6]              | the chain's block by number   |
| 2        | forkchoice     | the heads differ from the accepted ones; 0.1 s after the | forkchoice update             |
|          |                | last block that was consolidated [ENG37]                 |                               |
| 2a       | follow source  | its local safe head is not in our chain [FSR3]           | forkchoice update             |
| 3        | attributes     | derivation has sent attributes                           | see attributes_handler        |
| 4        | unsafe block   | the block after the tip is queued, none is being built   | new payload                   |
| 4a       | unsafe gap     | the engine is to fetch what lies below a queued block    | see unsafe_chain              |
| 5        | replacement    | an interop supervisor found a block invalid [IOP10]      | see heads.interop             |
| 6        | sequencer      | by its schedule; a forkchoice update first               | see block_production          |
| 7        | build API      | a call of the `opstack` namespace waits                  | see build_api_row             |
| 8        | attributes     | more were derived ahead of the last block [ENG40]        | see attributes_handler        |
| lane     | commit         | a block is fetched that the conductor must store first   | see sequencer_rows            |
| lane     | leader         | the conductor decides about a start or stop              | see sequencer_rows            |
| lane     | start          | no heads, or derivation needs a new start                | see pipeline_start            |
| lane     | finality       | L1 finalized what blocks were derived from               | L1 blocks by number           |
| lane     | verified block | a block is verified or final across chains [LB3, LB4]    | the chain's block by number   |
| lane     | follow source  | every two blocks, with `l2.follow.source` [FSR1]         | see follow_source             |
| lane     | follow target  | the engine fetches a chain whose source is away [FSR10]  | see follow_source             |
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

from collections.abc import Iterator
from itertools import takewhile

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.calls.actions import Action, PublishStatus
from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.calls.engine_api import Unavailable
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.core.build_api_row import BuildRequest
from rollup_node.stages.engine.core.follow_rows import FollowReadRow, FollowTargetRow
from rollup_node.stages.engine.core.forkchoice_rows import DoubtRow, FinishRow, SafeHeadsRow
from rollup_node.stages.engine.core.interop import Decision
from rollup_node.stages.engine.core.rows import Row, TaskBackoff, moves_heads
from rollup_node.stages.engine.core.sequencer_rows import CommitRow, SequencerRequest
from rollup_node.stages.engine.core.start_rows import SyncProgressRow
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.engine.core.unsafe_rows import LostBlocksRow
from rollup_node.stages.engine.core.verification_rows import DeniedRow
from rollup_node.stages.engine.sequencer.sequencer import NOT_ENABLED
from rollup_node.stages.messages import control
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import AttributesAhead, AttributesReady, L2BlocksRequest, StartRequest
from rollup_node.stages.messages.interop import Verdicts
from rollup_node.stages.messages.l1 import L1BlockResponse, L1Heads
from rollup_node.stages.messages.p2p import LatestBlocksResponse, PayloadRequest, UnsafeBlock
from rollup_node.stages.protocol.config import end_text
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import L2BlockRef

MAX_OVERLAP_BLOCKS = 4096

DerivationRequest = StartRequest | AttributesReady | AttributesAhead | L2BlocksRequest
AdminRequest = (
    SequencerRequest
    | control.ResetDerivationRequest
    | control.PostUnsafePayloadRequest
    | control.SetRecoverModeRequest
    | control.SetSdmOptInRequest
)
RpcRequest = AdminRequest | BuildRequest | control.OutputRequest | control.SafeHeadRequest | control.L1AtSafeHeadRequest
PeerRequest = DerivationRequest | RpcRequest | PayloadRequest
Notification = L1Heads | L1BlockResponse | DerivationStatus | Verdicts | UnsafeBlock | LatestBlocksResponse

POLL_SECONDS = 1.0
IDLE_SECONDS = 30.0


class EngineCore(CoreState):
    """`first_reset` is the number before that of the first start.

    Neither clock needs to be steady: all times come from the caller. `_rows` is the table above; `_owners` are the rows
    that take the failures of a purpose. `log` are
    the last stimuli, for a bug report."""

    def __init__(self, config: EngineConfig, *, first_reset: int = 0, backoff: TaskBackoff | None = None) -> None:
        super().__init__(config, first_reset=first_reset, backoff=backoff)
        self._lost_blocks = LostBlocksRow(self)
        head_rows = [(row, row.due) for row in self._head_rows()]
        # Two rows have another place in the table as well.
        head_rows.insert(2, (self.gap_row, self.gap_row.due_at_once))
        head_rows.append((self.attributes_row, self.attributes_row.due_ahead))
        self._rows = [*head_rows, *((row, row.due) for row in self._other_rows())]
        self._owners: dict[CallPurpose, Row] = {self.forkchoice_row.purpose: self.forkchoice_row}
        for row, _ in self._rows:
            self._owners.setdefault(row.purpose, row)
        self._open: dict[CallPurpose | None, tuple[PendingCall, Row]] = {}
        self._calls = 0
        self.do(PublishStatus(self.status()))

    def _head_rows(self) -> tuple[Row, ...]:
        return (
            self.el_sync_row,
            DoubtRow(self),
            FinishRow(self),
            *((DeniedRow(self),) if self.verification.enabled else ()),
            self.forkchoice_row,
            self.follow_row,
            self.attributes_row,
            self.unsafe,
            self.gap_row,
            self.interop_row,
            self.sequencer,
            self.build_api_row,
        )

    def _other_rows(self) -> tuple[Row, ...]:
        return (
            CommitRow(self),
            self.leader_row,
            self.start_row,
            self.finality_row,
            *((self.label_row,) if self.verification.enabled else ()),
            FollowReadRow(self),
            FollowTargetRow(self),
            self.overlap_row,
            SafeHeadsRow(self),
            self.output_row,
            self.safe_head_row,
            self.payload_row,
            SyncProgressRow(self),
            self._lost_blocks,
        )

    @property
    def heads(self) -> Heads | None:
        """The heads in force; None while a start is searched for."""
        return self.controller.heads

    @property
    def last_block_waits(self) -> bool:
        """Whether a block of this sequencer is sealed, and not the engine's head yet."""
        return self.sequencer.sequencer.stopping or self.sequencer.last_block_waits

    @property
    def last_safe_head(self) -> L2BlockRef | None:
        """The safe head, if the engine and the record have it and no block after it can be derived [LFT4]."""
        heads = self.controller.announced
        if heads is None or not self.config.rollup.ends_at(heads.safe.number) or self.safe_heads.pending:
            return None
        return heads.safe

    def sequencer_change(self, message: PeerRequest) -> bool | None:
        """Return whether a request that succeeds now starts or stops the sequencer; None for others [ADM5]."""
        sequencer = self.sequencer.sequencer
        match message:
            case control.StartSequencerRequest(head=head) if sequencer.start_error(head) is None:
                return True
            case control.StopSequencerRequest() if sequencer.stop_error() is None and not sequencer.stopping:
                return False
        return None

    def decide(self, decision: Decision, now: Instant, reset_count: int | None = None) -> None:
        """Take a decision of the interop supervisor, for which blocks were read after so many resets; None: now."""
        self.log.add(now.unix, "supervisor", decision)
        self.interop_row.decide(decision, now, self.reset_count if reset_count is None else reset_count)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Take the answer to an open call. Raises CriticalError where the engine contradicts every engine's rules."""
        self.log.add(now.unix, f"answer {pending.number}", answer)
        opened = self._open.get(pending.purpose.lane)
        if opened is None or opened[0] != pending:
            return
        del self._open[pending.purpose.lane]
        row = opened[1]
        if pending.reset_count != self.reset_count and not row.outlives_resets:
            return
        try:
            if isinstance(answer, Unavailable):
                row.unavailable(pending, answer, now)
            else:
                row.answer(pending, answer, now)
        except TemporaryError as error:
            self._fail(pending.purpose, pending.call, error, now)
        except ResetError as error:
            if pending.purpose is CallPurpose.BUILD_API:
                self.build_api_row.fail_commit(str(error))
            self.fail_by_reset(pending.purpose, error, now)

    def prepare(self) -> PayloadAttributes | None:
        """Compute ahead while the engine works on a call; return the attributes that will be sent next, if known."""
        return self.attributes.prepare()

    def shut_down(self) -> None:
        """End: nothing new is sequenced; a block that is sealed may still be committed and inserted [SEQ28]."""
        if self.sequencer.sequencer.active:
            self.sequencer.sequencer.stop()

    def next_calls(self, now: Instant) -> list[PendingCall]:
        """Return the calls to make now, at most one for each lane that has none open."""
        if None not in self._open:
            self._move_heads(now)
        self._lost_blocks.step(now)
        self.sequencer.finish_stops(now)
        self.gap_row.look(now)
        self.interop.repeat_due(now.monotonic)
        calls: list[PendingCall] = []
        for row, due in self._rows:
            purpose = row.purpose
            if purpose.lane in self._open:
                continue
            try:
                call = due(now)
            except TemporaryError as error:
                self._fail(purpose, None, error, now)
            except ResetError as error:
                self.fail_by_reset(purpose, error, now)
            else:
                if call is None:
                    continue
                pending = self._make(row, call, now)
                if (denied := self.verification.answer_for(call)) is not None:
                    self.answer(pending, denied, now)
                    return calls + self.next_calls(now)
                calls.append(pending)
        self.attributes_row.show_hold()
        if self.verification.enabled:
            self.show_replacement()
        return calls

    @property
    def acts_first(self) -> bool:
        """Whether an action waits that is to be performed before the next calls."""
        return any(action.precedes_calls for action in self.actions)

    def take_actions(self) -> list[Action]:
        """Return the actions since the last call, to be done in this order."""
        actions, self.actions = self.actions, []
        return actions

    def wait_until(self, now: Instant) -> float:
        """Return the monotonic time at which `next_calls` is needed at the latest, if nothing comes in before."""
        times = (at for at in self._timers(now) if at is not None and at > now.monotonic)
        return min(times, default=now.monotonic + IDLE_SECONDS)

    def _move_heads(self, now: Instant) -> None:
        self.restart_due(now)
        self.finality_row.finalize_due(now)
        self.interop_row.promote_due(now)
        self.interop_row.finalize_due(now)
        self.follow_row.import_heads(now)
        self.follow_row.watch_sync(now)

    def _make(self, row: Row, call: CoreCall, now: Instant) -> PendingCall:
        self._calls += 1
        pending = PendingCall(self._calls, row.purpose, call, self.reset_count, now.monotonic)
        self._open[pending.purpose.lane] = pending, row
        self.log.add(now.unix, f"call {pending.number}", pending.purpose, call)
        return pending

    def _timers(self, now: Instant) -> Iterator[float | None]:
        """Yield when something becomes due by time alone, in the past where only an answer can lead to it."""
        yield self.backoff.next_retry(now.monotonic)
        yield self.start_row.search_at
        yield self.forkchoice_at
        yield self.finality_row.asks_at
        yield self.label_row.read_at
        yield self.unsafe.chain.gap_at
        yield self.unsafe.lost.wait_until()
        yield self.interop.repeat_at
        yield from self.follow_row.timers()
        yield self.leader_row.ask_at
        yield from self.el_sync_row.timers()
        if self.sequencer.sequencer.enabled:
            due = self.sequencer.production.wait_until()
            yield now.monotonic + (POLL_SECONDS if due is None else min(POLL_SECONDS, max(0.0, due - now.unix)))

    def _fail(self, purpose: CallPurpose, call: CoreCall | None, error: TemporaryError, now: Instant) -> None:
        """Note a failed call; a failed forkchoice update is not repeated before its cause is."""
        doubted = purpose.lane is None and self.drop_moves()
        seconds = self._owners[purpose].failed(call, error, now)
        if seconds is not None and (doubted or moves_heads(call)):
            self.forkchoice_at = now.monotonic + seconds

    # --- messages --------------------------------------------------------------------------------------------------

    def on_message(self, message: Notification, now: Instant) -> None:
        """Take what l1, derivation or peers publish."""
        self.log.add(now.unix, "message", message)
        match message:
            case L1Heads():
                self._l1_heads(message, now)
            case L1BlockResponse(block=block):
                self.sequencer.production.window.note_block(block)
            case DerivationStatus(reset=reset, current_l1=current) if reset == self.attributes.reset:
                self.finality.note_settled_l1(message.settled_l1)
                if message.idle and current is not None:
                    self.finality.note_idle(current)
                if current is not None and self.controller.heads is not None:
                    last = self.controller.heads.pending_safe
                    self.interop.on_derivation(current, message.idle, last, now.monotonic)
            case Verdicts():
                self.take_verdicts(message, now)
            case UnsafeBlock(payload=payload):
                self.add_unsafe(payload)
            case LatestBlocksResponse(head=head, blocks=blocks):
                # What a denied block and its descendants are is not what the engine has lost [IV5].
                kept = takewhile(lambda payload: not self.verification.denies(payload.block_hash), blocks)
                self.unsafe.lost.answer(head, tuple(kept))

    def _l1_heads(self, message: L1Heads, now: Instant) -> None:
        if message.head is not None:
            self.sequencer.production.window.note_head(message.head)
            self.interop.on_l1_head(message.head, now.monotonic)
        finalized = message.finalized
        if not self.finality.note_finalized_l1(finalized) and finalized is not None:
            text = "ignoring a finalized L1 block below the last one"
            self.write("error", text, Code.L1_CONTRADICTS, number=finalized.number)

    def request(self, peer: ProcessId, message: PeerRequest, now: Instant) -> None:
        """Take what another process asks for; reads wait for their lanes."""
        self.log.add(now.unix, "request", message)
        match message:
            case StartRequest() | AttributesReady() | AttributesAhead() | L2BlocksRequest():
                if self.session.see(peer):
                    self._derivation(peer, message, now)
            case control.OutputRequest():
                self.output_row.add(peer, message)
            case control.SafeHeadRequest() | control.L1AtSafeHeadRequest():
                self.safe_head_row.add(peer, message)
            case PayloadRequest():
                self.payload_row.add(peer, message)
            case control.OpenBlockRequest() | control.SealBlockRequest() | control.CommitBlockRequest():
                self.build_api_row.request(peer, message)
            case _:
                self._admin(peer, message, now)

    def _derivation(self, peer: ProcessId, message: DerivationRequest, now: Instant) -> None:
        match message:
            case StartRequest():
                self._request_start(peer, message, now)
            case AttributesReady():
                self._add_attributes(peer, message)
            case AttributesAhead(blocks=blocks):
                for derived in blocks:
                    self._add_attributes(peer, derived)
            case L2BlocksRequest() if 0 <= message.last - message.first < MAX_OVERLAP_BLOCKS:
                self.overlap_row.add(peer, message)

    def _request_start(self, peer: ProcessId, message: StartRequest, now: Instant) -> None:
        """Give derivation, which is empty, the start; its owner gets it again unless it has given it up."""
        session = self.session
        if session.start is None:
            return
        if session.owner is None or (session.owner == peer and message.reset < session.start.reset):
            session.owner = peer
            self.send_start()
        elif session.owner == peer and message.reason is not None:
            self.write("info", "derivation requests a reset", reason=message.reason)
            self.request_reset(message.reason, now)
        else:
            session.restart_wanted = True
            self.attributes.cancel_ahead()

    def _add_attributes(self, peer: ProcessId, derived: AttributesReady) -> None:
        """Keep attributes of the current start; those of an earlier one are answered by it."""
        session = self.session
        if session.start is None or session.owner != peer:
            return
        if derived.reset < session.start.reset:
            self.send_start()
        elif derived.reset == session.start.reset and not session.restart_wanted:
            self.attributes.add(derived)

    def _admin(self, peer: ProcessId, message: AdminRequest, now: Instant) -> None:
        match message:
            case control.StartSequencerRequest() | control.StopSequencerRequest() | control.OverrideLeaderRequest():
                self.leader_row.request(peer, message, now)
            case control.ResetDerivationRequest():
                if self.sequencer.add_reset((peer, message.id)):
                    self.request_reset("requested by admin_resetDerivationPipeline", now)
            case control.PostUnsafePayloadRequest():
                self.add_unsafe(message.payload)
                rollup = self.config.rollup
                foreign = rollup.is_foreign(message.payload.timestamp)
                self.respond(peer, message.id, end_text(rollup) if foreign else None)
            case control.SetRecoverModeRequest():
                self.sequencer.production.recover = message.mode
                self.respond(peer, message.id, None)
            case control.SetSdmOptInRequest():
                enabled = self.sequencer.sequencer.enabled
                if enabled:
                    self.sdm_opt_in = message.enabled
                    self.publish(now)
                self.respond(peer, message.id, None if enabled else NOT_ENABLED)
