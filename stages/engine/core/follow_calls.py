"""The calls that follow another node, and what becomes of their answers [FSR1 to FSR9]."""

from rollup_node.stages.engine.api.engine_api import (
    INVALID_FORKCHOICE,
    ErrorAnswer,
    ForkchoiceAnswer,
    ForkchoiceUpdate,
    is_syncing,
)
from rollup_node.stages.engine.core import actions as act
from rollup_node.stages.engine.core.calls import CoreAnswer, CoreCall, Instant, PendingCall, Work
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.engine.machines.follow_source import (
    FollowCall,
    FollowError,
    FollowResetError,
    FollowResult,
    MissingFollowedBlockError,
)
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L2BlockRef

PROBLEM = "follow source"
SYNCING_SECONDS = 1.0
"""Between two rounds while the engine fetches the chain."""

LAG_SECONDS = 60
"""The engine may be so far behind the source before the node is not ready: without gossip it fetches every block so."""


class FollowCalls:
    """The lane of reads, and the row of the forkchoice update that moves to the source's chain. `_behind` is the
    source's safe head while it is below ours; `_lags`: the engine fetches a part of the chain that operators notice."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._behind: L2BlockRef | None = None
        self._lags = False

    # --- reads -------------------------------------------------------------------------------------------------------

    def read_due(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The read that is due, once there are heads."""
        state, heads = self._state, self._state.confirmed_heads
        if heads is None or not state.follow.enabled or self._waits(now):
            return None
        call = state.follow.next(heads, now.monotonic)
        return None if call is None else (Work.FOLLOW, call)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to a read. Raises FollowError, which ends the round."""
        state, heads = self._state, self._state.confirmed_heads
        if heads is None or not isinstance(pending.call, FollowCall):
            return
        try:
            state.follow.answer(pending.call, answer, heads)
        except FollowError as error:
            if error.result is not None:
                state.do(act.FollowSourceRead(error.result))
            state.follow.end_round(now.monotonic)
            if isinstance(error, MissingFollowedBlockError):
                state.controller.distrust()
            raise

    # --- heads -------------------------------------------------------------------------------------------------------

    def import_heads(self, now: Instant) -> None:
        """Takes over the source's heads that are on our chain; no head-moving call may be open."""
        state, heads = self._state, self._state.confirmed_heads
        status = state.follow.status
        if not state.follow.ready or heads is None or status is None:
            return
        behind = status.safe if status.safe.number < heads.safe.number else None
        if behind is not None and self._behind is None:
            state.do(act.FollowSourceBehind(behind, heads.safe))
        self._behind = behind
        state.controller.follow(state.follow.imported(heads))
        self._succeed(now, now.monotonic + state.follow.interval)
        state.publish(now)

    def head_call(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The forkchoice update that moves to the source's local safe head."""
        state, heads = self._state, self._state.confirmed_heads
        if heads is None or self._waits(now):
            return None
        forkchoice = state.follow.forkchoice(heads)
        return None if forkchoice is None else (Work.FOLLOW_HEAD, ForkchoiceUpdate(forkchoice))

    def answer_head(self, call: ForkchoiceUpdate, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to that update. Raises TemporaryError when the engine refuses the block, and
        FollowResetError when a sequencer has to start over on it [FSR3]."""
        state, heads = self._state, self._state.confirmed_heads
        moved = None if heads is None else state.follow.moved(heads)
        if heads is None or moved is None:
            return
        if is_syncing(answer):
            self._wait_for_sync(heads.unsafe, moved.unsafe, now)
            return
        if not isinstance(answer, ForkchoiceAnswer) or answer.status != "VALID":
            # It may be what the source said earlier: the next round has what it says then.
            state.follow.syncing = None
            raise TemporaryError(_refusal(moved.unsafe, answer))
        state.do(act.FollowMoved(heads.unsafe, moved.unsafe))
        state.controller.follow(moved)
        state.controller.accept(call.forkchoice)
        self._succeed(now, now.monotonic)
        if state.config.sequencer_enabled:
            raise FollowResetError(moved)
        state.publish(now)

    def _wait_for_sync(self, tip: L2BlockRef, target: L2BlockRef, now: Instant) -> None:
        state = self._state
        state.follow.wait_for_sync(now.monotonic + SYNCING_SECONDS)
        state.do(act.FollowSourceRead(FollowResult.SUCCESS))
        if target.timestamp > tip.timestamp + LAG_SECONDS and not self._lags:
            self._lags = True
            state.do(act.FollowSyncStarted(target))
        if self._lags:
            state.do(act.ShowProblem(PROBLEM, f"the execution engine fetches the chain up to {target}"))
        state.recover(Work.FOLLOW.task)
        state.publish(now)

    def _succeed(self, now: Instant, due_at: float) -> None:
        state = self._state
        state.do(act.FollowSourceRead(FollowResult.SUCCESS))
        state.follow.succeeded(due_at)
        state.follow.syncing = None
        self._lags = False
        state.do(act.ShowProblem(PROBLEM, None))
        state.recover(Work.FOLLOW.task)

    def _waits(self, now: Instant) -> bool:
        return self._state.backoff.is_waiting(Work.FOLLOW.task, now.monotonic)


def _refusal(target: L2BlockRef, answer: CoreAnswer) -> str:
    what = f"the execution engine refuses the source's local safe head {target}"
    if isinstance(answer, ErrorAnswer):
        why = ", which contradicts the finalized block" if answer.code == INVALID_FORKCHOICE else ""
        return f"{what}{why}: {answer.message} ({answer.code})"
    if isinstance(answer, ForkchoiceAnswer):
        return f"{what}: {answer.status}" + (f", {answer.error}" if answer.error else "")
    return f"{what}: not an answer to a forkchoice update"
