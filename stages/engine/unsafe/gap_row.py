"""The calls that have the execution engine fetch a gap in the unsafe chain, and the requests of its blocks from peers
[UNS4 to UNS6]."""

from rollup_node.stages.engine.calls import actions as act
from rollup_node.stages.engine.calls.calls import CoreAnswer, CoreCall, Instant, Work
from rollup_node.stages.engine.calls.engine_api import NewPayload
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.engine.unsafe.gap_fetch import GapCall
from rollup_node.stages.engine.unsafe.unsafe_queue import DroppedUnsafeBlock
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import L2BlockRef

PROBLEM = "unsafe gap"
PEERS_SECONDS = 10.0
"""The engine has a gap for itself so long, before its blocks are requested from peers as well."""
SHOW_SECONDS = 20.0
"""A gap lasts so long before operators are told."""
STALE_SECONDS = 60.0
"""The lowest and the highest queued block take turns of this length: one of them may be of a chain given up."""


class GapCalls:
    """`_since` is when the gap was seen first, None without one; `_shown`: operators were told."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._since: float | None = None
        self._shown = False

    def look(self, now: Instant) -> None:
        """Looks for a gap, when that is due."""
        state, heads = self._state, self._state.controller.heads
        if heads is None:
            return
        end = state.unsafe.gap_end(heads, now.monotonic, now.unix)
        if end is None:
            if not state.unsafe.has_gap:
                self._close()
            return
        self._since = now.monotonic if self._since is None else self._since
        waited = now.monotonic - self._since
        by_engine = state.config.gaps_from_engine
        if state.config.p2p and state.config.fill_gaps and (not by_engine or waited >= PEERS_SECONDS):
            state.do(act.RequestGap(heads.unsafe, end))
        if by_engine:
            self._begin(end, waited)

    def _begin(self, lowest: ExecutionPayload, waited: float) -> None:
        state = self._state
        highest = state.unsafe.queue.highest
        target = lowest if highest is None or int(waited // STALE_SECONDS) % 2 == 0 else highest
        if (dropped := state.unsafe.fetch.begin(target)) is not None:
            self._drop(dropped)

    def confirm_due(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The call that is due once the engine has moved to the chain above the gap: nothing comes in between."""
        return None if self._state.unsafe.fetch.taken is None else self.due(now)

    def due(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The call that is due."""
        state, heads = self._state, self._state.confirmed_heads
        if heads is None or state.attributes.building or state.controller.restoring_backup:
            return None
        if state.follow.holds(now.monotonic) or state.backoff.is_waiting(Work.UNSAFE_GAP.task, now.monotonic):
            return None
        call = state.unsafe.fetch.next(heads)
        return None if call is None else (Work.UNSAFE_GAP, call)

    def answer(self, call: CoreCall, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to such a call. Raises TemporaryError when the engine is to be asked again."""
        state, heads = self._state, self._state.confirmed_heads
        if heads is None or not isinstance(call, GapCall):
            return
        taken = state.unsafe.fetch.taken
        found = state.unsafe.fetch.answer(call, answer, heads)
        state.recover(Work.UNSAFE_GAP.task)
        if isinstance(found, DroppedUnsafeBlock):
            self._drop(found)
            if not isinstance(call, NewPayload):
                # The engine was pointed at another chain than ours.
                state.controller.distrust()
        elif isinstance(found, L2BlockRef) and taken is not None:
            state.controller.advance(found)
            state.controller.accept(taken)
            state.confirm(now)
            state.do(act.UnsafeBlockInserted(found, len(state.unsafe.queue) - 1))
            state.publish(now)
            self._close()
        elif state.unsafe.fetch.target is not None:
            self._show(heads.unsafe, state.unsafe.fetch.target, now)

    def fail(self) -> None:
        """A call has failed: an engine that has moved to the chain above the gap gets our heads again."""
        if self._state.unsafe.fetch.taken is not None:
            self._state.unsafe.fetch.end()
            self._state.controller.distrust()

    def _show(self, tip: L2BlockRef, target: L2BlockRef, now: Instant) -> None:
        if self._since is None or now.monotonic < self._since + SHOW_SECONDS:
            return
        self._shown = True
        first, last, name = tip.number + 1, target.number - 1, "unsafe block"
        text = f"the execution engine does not get blocks {first} to {last} below {name} {target} from its peers"
        self._state.do(act.FetchLasts(PROBLEM, text, target.number - tip.number))

    def _close(self) -> None:
        """There is no gap."""
        self._since = None
        self._state.unsafe.fetch.end()
        self._state.recover(Work.UNSAFE_GAP.task)
        if self._shown:
            self._shown = False
            self._state.do(act.FetchEnded(PROBLEM))

    def _drop(self, dropped: DroppedUnsafeBlock) -> None:
        self._state.unsafe.queue.drop(dropped.hash)
        self._state.drop_unsafe(dropped)
        self._state.show_queue()
