"""The rows of unsafe blocks: the block after the tip, and the gap that the engine is to fetch [UNS1 to UNS6]."""

from typing import TYPE_CHECKING

from rollup_node.stages.engine.calls import actions
from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, GetL1BlockRef, Instant, PendingCall
from rollup_node.stages.engine.calls.engine_api import NewPayload
from rollup_node.stages.engine.core.rows import HeadRow, Row
from rollup_node.stages.engine.heads.lost_blocks import LostBlocks, LostBlocksPhase
from rollup_node.stages.engine.heads.unsafe_chain import DroppedUnsafeBlock, GapCall, UnsafeChain
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.log_fields import Fields
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import L1BlockRef, L2BlockRef

if TYPE_CHECKING:
    from rollup_node.stages.engine.core.state import CoreState

GAP_PROBLEM = "unsafe gap"
PEERS_SECONDS = 10.0
"""The engine has a gap for itself so long, before its blocks are requested from peers as well."""
SHOW_SECONDS = 20.0
"""Seconds that a gap lasts before it is logged."""
STALE_SECONDS = 60.0
"""The lowest and the highest queued block take turns of this length: one of them may be of a chain given up."""


class UnsafeBlockRow(HeadRow):
    """The insertion of the block after the tip, while no derived block is being built.

    It keeps the unsafe chain and the lost blocks for the other rows."""

    purpose = CallPurpose.UNSAFE_BLOCK

    def __init__(self, core: "CoreState") -> None:
        super().__init__(core)
        config = core.config
        self.chain = UnsafeChain(config.rollup)
        self.lost = LostBlocks(config.rollup, config.p2p and not config.interop)
        self._shown: tuple[int, int] = (0, 0)

    def drop(self, dropped: DroppedUnsafeBlock) -> None:
        """Note that a block has left the queue because it is invalid."""
        self.lost.refused(dropped.hash, dropped.reason)
        self._core.attributes.forget_signed(dropped.hash)
        fields: Fields = {"number": dropped.number, "hash": to_hex(dropped.hash), "reason": dropped.reason}
        self._core.write("warn", "dropping invalid unsafe block", Code.UNSAFE_BLOCK, **fields)

    def note_inserted(self, block: L2BlockRef) -> None:
        queued = len(self.chain.queue) - 1
        self._core.write("trace", "inserted unsafe block", block=block, origin=block.l1_origin, queued=queued)

    def show_queue(self) -> None:
        queue = self.chain.queue
        if (shown := (len(queue), queue.bytes)) != self._shown:
            self._shown = shown
            self._core.do(actions.UnsafeQueueChanged(*shown, queue.lowest))

    def due(self, now: Instant) -> CoreCall | None:
        core, heads = self._core, self._core.confirmed_heads
        if heads is None or core.attributes.building or core.controller.restoring_backup:
            return None
        # A block of our own chain would end the engine's sync to another one.
        if core.holds_for_sync(now) or core.waits(self.purpose, now):
            return None
        while isinstance(due := self.chain.next(heads), DroppedUnsafeBlock):
            self.drop(due)
        self.show_queue()
        if due is None:
            core.recover(self.purpose)
        return due

    def take(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Make the block the tip, or drop it."""
        if not isinstance(pending.call, NewPayload):
            return
        result = self.chain.answer(pending.call, answer)
        if isinstance(result, DroppedUnsafeBlock):
            self.drop(result)
            self._core.recover(self.purpose)
            return
        self._core.controller.advance(result.ref)
        self._core.finishing = self
        self.note_inserted(result.ref)

    def finished(self, now: Instant) -> None:
        """End the pause after failures."""
        self._core.recover(self.purpose)


class GapRow(HeadRow):
    """The calls that fetch a gap, seen first at `_since`, and the requests to peers [UNS4 to UNS6]."""

    purpose = CallPurpose.UNSAFE_GAP
    _since: float | None = None
    _shown = False

    def look(self, now: Instant) -> None:
        """Look for a gap, when that is due."""
        core, chain, heads = self._core, self._core.unsafe.chain, self._core.controller.heads
        if heads is None:
            return
        end = chain.gap_end(heads, now.monotonic, now.unix)
        if end is None:
            if not chain.has_gap:
                self._close()
            return
        self._since = now.monotonic if self._since is None else self._since
        waited = now.monotonic - self._since
        # The engine's peers may have a denied block below it, which is denied no more once it is in the chain.
        by_engine = core.config.gaps_from_engine and not core.verification.denies_above(heads.finalized.number)
        if core.config.p2p and core.config.fill_gaps and (not by_engine or waited >= PEERS_SECONDS):
            core.do(actions.RequestGap(heads.unsafe, end))
        if by_engine:
            self._begin(end, waited)

    def _begin(self, lowest: ExecutionPayload, waited: float) -> None:
        chain = self._core.unsafe.chain
        highest = chain.queue.highest
        target = lowest if highest is None or int(waited // STALE_SECONDS) % 2 == 0 else highest
        if (dropped := chain.fetch.begin(target)) is not None:
            self._drop(dropped)

    def due(self, now: Instant) -> CoreCall | None:
        core, heads = self._core, self._core.confirmed_heads
        if heads is None or core.attributes.building or core.controller.restoring_backup:
            return None
        if core.holds_for_sync(now) or core.waits(self.purpose, now):
            return None
        return core.unsafe.chain.fetch.next(heads)

    def due_at_once(self, now: Instant) -> CoreCall | None:
        """Return the call once the engine has moved to the chain above the gap: nothing comes in between."""
        return None if self._core.unsafe.chain.fetch.taken is None else self.due(now)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        core, fetch, heads = self._core, self._core.unsafe.chain.fetch, self._core.confirmed_heads
        if heads is None or not isinstance(pending.call, GapCall):
            return
        taken = fetch.taken
        result = fetch.answer(pending.call, answer, heads)
        core.recover(self.purpose)
        if isinstance(result, DroppedUnsafeBlock):
            self._drop(result)
            if not isinstance(pending.call, NewPayload):
                # The engine was pointed at another chain than ours.
                core.controller.distrust()
        elif isinstance(result, L2BlockRef) and taken is not None:
            core.controller.advance(result)
            core.controller.accept(taken)
            core.confirm(now)
            core.unsafe.note_inserted(result)
            core.publish(now)
            self._close()
        elif fetch.target is not None:
            self._show(heads.unsafe, fetch.target, now)

    def failed(self, call: CoreCall | None, error: TemporaryError, now: Instant) -> float | None:
        fetch = self._core.unsafe.chain.fetch
        if fetch.taken is not None:
            fetch.end()
            self._core.controller.distrust()
        return super().failed(call, error, now)

    def _show(self, tip: L2BlockRef, target: L2BlockRef, now: Instant) -> None:
        if self._since is None or now.monotonic < self._since + SHOW_SECONDS:
            return
        self._shown = True
        first, last, name = tip.number + 1, target.number - 1, "unsafe block"
        text = f"the execution engine does not get blocks {first} to {last} below {name} {target} from its peers"
        self._core.do(actions.FetchLasts(GAP_PROBLEM, text, target.number - tip.number))

    def _close(self) -> None:
        """Note that there is no gap."""
        self._since = None
        self._core.unsafe.chain.fetch.end()
        self._core.recover(self.purpose)
        if self._shown:
            self._shown = False
            self._core.do(actions.FetchEnded(GAP_PROBLEM))

    def _drop(self, dropped: DroppedUnsafeBlock) -> None:
        blocks = self._core.unsafe
        blocks.chain.queue.drop(dropped.hash)
        blocks.drop(dropped)
        blocks.show_queue()


PROBLEM = "lost blocks"


class LostBlocksRow(Row):
    """`_is_reported`: the loss was logged since the last start; `_problem` is what `/readyz` says."""

    purpose = CallPurpose.LOST_BLOCKS
    _was_pending = _is_reported = False
    _problem: Problem | None = None

    def step(self, now: Instant) -> None:
        """Do what is due without a call."""
        core, lost, heads = self._core, self._core.unsafe.lost, self._core.confirmed_heads
        if heads is not None:
            lost.on_head(heads.unsafe.id, now.monotonic)
        if heads is not None and lost.pending:
            lost.expire(core.unsafe.chain.queue.next(heads) is not None, now.monotonic)
            head = lost.question(now.monotonic)
            if head is not None:
                core.do(actions.RequestLatestBlocks(head))
            self._release(now)
        self._show()

    def _release(self, now: Instant) -> None:
        core, queue = self._core, self._core.unsafe.chain.queue
        released = core.unsafe.lost.release(queue.lowest, now.monotonic)
        added = [queue.add(payload) for payload in released]
        if any(added) and not self._is_reported:
            self._is_reported = True
            text, code = "the execution engine lacks the latest blocks, putting them back", Code.BLOCKS_LOST
            first, last = released[0].block_number, released[-1].block_number
            core.write("warn", text, code, first=first, last=last, do=code.remedy)
        core.unsafe.show_queue()

    def _show(self) -> None:
        """Show what is waited for, and what became of it."""
        core, lost = self._core, self._core.unsafe.lost
        problem = self._present_problem()
        if problem != self._problem:
            self._problem = problem
            core.do(actions.ShowProblem(PROBLEM, problem))
        heads = core.confirmed_heads
        if self._was_pending and not lost.pending and heads is not None:
            code, reason = Code.BLOCKS_LOST, lost.reason
            if self._is_reported and reason is None:
                text = "the latest blocks are back in the execution engine"
                core.write("info", text, code, head=heads.unsafe, blocks=lost.count)
            elif reason is not None and (self._is_reported or core.sequencer.sequencer.enabled):
                text = "going on without the latest blocks"
                core.write("warn", text, code, head=heads.unsafe, put_back=lost.count, reason=reason)
        if not lost.pending:
            self._is_reported = False
        self._was_pending = lost.pending

    def _present_problem(self) -> Problem | None:
        core, lost = self._core, self._core.unsafe.lost
        if not lost.pending or not (self._is_reported or core.sequencer.sequencer.enabled):
            return None
        if lost.phase is LostBlocksPhase.ASKING and not self._is_reported:
            return Problem(None, "sequencer", "waits for the p2p process, which has the latest blocks of this node")
        text = f"the execution engine lacks the latest blocks of this node, which are put back; it has {lost.head}"
        return Problem(None, "", text)

    def due(self, now: Instant) -> CoreCall | None:
        call = self._core.unsafe.lost.origin_call()
        if call is None:
            self._core.recover(self.purpose)
        return None if call is None or self._core.waits(self.purpose, now) else call

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        if not isinstance(pending.call, GetL1BlockRef):
            return
        if answer is not None and not isinstance(answer, L1BlockRef):
            raise TemporaryError("the answer is no L1 block")
        self._core.unsafe.lost.add_origin(pending.call.number, answer)
