"""The rows of the sequencer: the block that it builds, and its commit to the conductor; and what they report."""

from collections.abc import Callable

from rollup_node.stages.engine.calls.actions import (
    Ends,
    Lasts,
    Observe,
    PublishBlock,
    RequestL1Blocks,
    SendToRpc,
    ShowProblem,
)
from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.calls.conductor_api import CommitPayload, Committed
from rollup_node.stages.engine.calls.engine_api import GetPayload, Unavailable, is_syncing
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.calls.requests import AdminRequests
from rollup_node.stages.engine.heads.context import CoreContext, CoreRow, HeadRow
from rollup_node.stages.engine.heads.forkchoice_rows import ForkchoiceRow, moves_heads
from rollup_node.stages.engine.sequencer.block_production import BlockProduction
from rollup_node.stages.engine.sequencer.sequencer import RETRY_SECONDS, BuildDropped, SequencedBlock
from rollup_node.stages.engine.unsafe.unsafe_rows import UnsafeBlocks
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import ControlResponse
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import ZERO_HASH, Hash, L2BlockRef

CONDITION = "sequencer"


class Sequencing:
    """The sequencer with the admin calls that wait for it. `last_announced` are the heads known last; `derived` returns
    up to which number the chain with these heads follows from L1, or from what a follow source has proven."""

    def __init__(self, core: CoreContext, stopped: bool, blocks: UnsafeBlocks, derived: Callable[[Heads], int]) -> None:
        self.production = BlockProduction(core.config, stopped)
        self.sequencer = self.production.sequencer
        self.admin = AdminRequests()
        self.last_announced: Heads | None = None
        self._core, self._lost, self._derived = core, blocks.lost, derived
        self._last_sequenced: Hash | None = None
        self._shown: tuple[str | None, int] = (None, 0)

    def publish_block(self, payload: ExecutionPayload) -> None:
        """Have the block that the sequencer sealed on the unsafe head signed and gossiped."""
        heads = self.sequencer.heads
        if heads is not None and heads.unsafe.hash == payload.parent_hash:
            self._core.do(PublishBlock(payload, heads.unsafe, self._derived(heads)))

    def show_problem(self) -> None:
        """Report why the sequencer cannot build: each failed attempt, and when that ends."""
        core, (last, failures) = self._core, self._shown
        problem = self.sequencer.problem
        if (problem, self.sequencer.failures) == (last, failures):
            return
        self._shown = problem, self.sequencer.failures
        if problem is not None and self.sequencer.failures != failures:
            text = "sequencer cannot build a block"
            core.do(Lasts(CONDITION, Code.SEQUENCER_WAITS, text, {"reason": problem}))
        if problem != last:
            core.do(ShowProblem("sequencer", None if problem is None else f"sequencer: {problem}"))

    def note_sequenced(self, block: L2BlockRef) -> None:
        """Note that the engine has validated a block of this sequencer."""
        self._last_sequenced = block.hash

    @property
    def last_block_waits(self) -> bool:
        """Whether the block that was sequenced last is the tip, and not the engine's head yet."""
        heads, accepted = self._core.controller.heads, self._core.controller.accepted
        if heads is None or heads.unsafe.hash != self._last_sequenced:
            return False
        return accepted is None or accepted.head != heads.unsafe.hash

    def finish_stops(self, now: Instant) -> None:
        """Answer admin_stopSequencer once the sequencer has stopped and the engine has its last block as its head, also
        where the engine had lost it. A stop without heads does not wait for them [SEQ27, SEQ42]."""
        waits = self.sequencer.active or self.last_block_waits or self._lost.pending
        if self.admin.stops and not waits:
            self.answer_stops()
            self._core.publish(now)

    def answer_stops(self) -> None:
        """Answer admin_stopSequencer with the head at which the sequencer has stopped, if a stop is waiting: the last
        one that was known, the zero hash where none ever was."""
        core, heads = self._core, self.sequencer.heads or self.last_announced
        head = None if heads is None else heads.unsafe
        stops = self.admin.take_stops()
        if stops:
            core.do(Ends(CONDITION, "the sequencer is to build no blocks any more"))
            core.write("info", "sequencer stopped", head=head)
        for peer, number in stops:
            core.do(SendToRpc(peer, ControlResponse(number, None, ZERO_HASH if head is None else head.hash)))


class SequencerRow(HeadRow):
    """The calls for the block that the sequencer builds, by its schedule; a forkchoice update first."""

    purpose = CallPurpose.SEQUENCER

    def __init__(self, core: CoreContext, state: Sequencing, blocks: UnsafeBlocks, forkchoice: ForkchoiceRow) -> None:
        super().__init__(core)
        self._state, self._production, self._lost = state, state.production, blocks.lost
        self._forkchoice = forkchoice

    def due(self, now: Instant) -> CoreCall | None:
        """Return the next call for the block."""
        core, heads = self._core, self._core.confirmed_heads
        if heads is None or not self._state.sequencer.enabled or core.waits(self.purpose, now):
            return None
        if core.holds_for_sync(now):
            return None
        wanted = self._production.wanted_l1_blocks(heads)
        if wanted is not None:
            core.do(RequestL1Blocks(wanted.first, wanted.count))
        if core.building_derived or self._lost.pending:
            return None
        call = self._production.next(core.controller.forkchoice_due(), now.unix)
        self._state.show_problem()
        core.recover(self.purpose)
        return call

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Take the answer to a call for the block."""
        if moves_heads(pending.call):
            self._forkchoice.answer(pending, answer, now)
        elif not (is_syncing(answer) and self.hold(pending, answer)):
            self.take(pending, answer, now)

    def take(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Move the block on."""
        core, state, fetched = self._core, self._state, isinstance(pending.call, GetPayload)
        if fetched:
            core.do(Observe("sequencer_sealing_seconds", now.monotonic - pending.since))
        event = self._production.answer(pending.call, answer, now.unix)
        sequencer = state.sequencer
        if fetched and sequencer.sealed is not None and not sequencer.conducted:
            state.publish_block(sequencer.sealed)
        if isinstance(event, BuildDropped):
            core.count("sequencing_errors")
        elif isinstance(event, SequencedBlock):
            core.controller.advance(event.block.ref)
            state.note_sequenced(event.block.ref)
            core.finishing = self
            core.do(event)
            core.publish(now)
        state.show_problem()

    def failed(self, call: CoreCall | None, error: TemporaryError, now: Instant) -> float | None:
        """Try again by the sequencer's own schedule [SEQ6]."""
        self._state.sequencer.retry_later(str(error), now.unix)
        self._state.show_problem()
        return RETRY_SECONDS


class CommitRow(CoreRow):
    """The commit of the block that is fetched: it is published and inserted then, or committed again later."""

    purpose = CallPurpose.COMMIT

    def __init__(self, core: CoreContext, state: Sequencing) -> None:
        super().__init__(core)
        self._state = state

    def due(self, now: Instant) -> CoreCall | None:
        """Return the commit."""
        return self._state.sequencer.next_commit(now.unix)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Take the conductor's answer."""
        state, call = self._state, pending.call
        if not isinstance(call, CommitPayload):
            return
        if not isinstance(answer, Committed):
            reason = answer.reason if isinstance(answer, Unavailable) else "it gave no answer to this"
            state.sequencer.commit_failed(call.payload, reason, now.unix)
            state.show_problem()
        elif state.sequencer.committed(call.payload, now.unix):
            state.publish_block(call.payload)

    def unavailable(self, pending: PendingCall, answer: Unavailable, now: Instant) -> None:
        """Take it as an answer: the block is committed again later."""
        self.answer(pending, answer, now)
