"""The calls that follow another node, and what becomes of their answers [FSR1 to FSR10]."""

from collections.abc import Iterator

from rollup_node.stages.engine.api.engine_api import (
    INVALID_FORKCHOICE,
    ErrorAnswer,
    ForkchoiceAnswer,
    ForkchoiceUpdate,
    GetBlockRef,
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
from rollup_node.stages.engine.machines.follow_target import ASK_SECONDS, FollowTarget, StaleTargetError
from rollup_node.stages.engine.machines.pipeline_start import GetL1BlockRef
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L2BlockRef

PROBLEM = "follow source"
SYNCING_SECONDS = 1.0
"""Between two rounds while the engine fetches the chain."""

LAG_SECONDS = 60
"""The engine may be so far behind the source before the node is not ready: without gossip it fetches every block so."""

GIVE_UP_SECONDS = 300.0
"""The engine has so long to fetch the chain of a source that fails, before our own chain goes on."""


class FollowCalls:
    """The lanes of reads, and the row of the forkchoice update that moves to the source's chain. `_behind` is the
    source's safe head while it is below ours; `_lags`: the engine fetches a part of the chain that operators notice."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._behind: L2BlockRef | None = None
        self._lags = False
        self._target = FollowTarget()

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
            state.follow.failed(error, now.monotonic)
            if isinstance(error, MissingFollowedBlockError):
                state.controller.distrust()
            raise

    # --- a source that is away while the engine fetches its chain ----------------------------------------------------

    def target_due(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The read that shows whether the engine has fetched that chain."""
        state, follow = self._state, self._state.follow
        if follow.syncing is None or follow.failing_since is None:
            self._target.clear()
            state.recover(Work.FOLLOW_TARGET.task)
            return None
        if state.confirmed_heads is None or follow.target is not None:
            return None
        if state.backoff.is_waiting(Work.FOLLOW_TARGET.task, now.monotonic):
            return None
        self._target.start(follow.syncing)
        call = self._target.next(now.monotonic)
        return None if call is None else (Work.FOLLOW_TARGET, call)

    def answer_target(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to such a read. Raises TemporaryError when it is to be made again."""
        state, follow, call = self._state, self._state.follow, pending.call
        if follow.target is not None or not isinstance(call, GetBlockRef | GetL1BlockRef):
            return
        try:
            may_move = self._target.answer(call, answer, now.monotonic)
        except StaleTargetError as error:
            self._give_up(str(error), now)
            return
        state.recover(Work.FOLLOW_TARGET.task)
        if may_move and follow.syncing is not None:
            follow.resume()

    def target_timers(self) -> Iterator[float | None]:
        """When something becomes due by time alone while a source is away."""
        follow = self._state.follow
        if follow.syncing is not None and follow.failing_since is not None:
            yield self._target.due_at
            yield follow.failing_since + GIVE_UP_SECONDS

    def give_up_due(self, now: Instant) -> None:
        """Our own chain goes on without the block that the engine does not reach: with the next block that is queued,
        or for the sequencer after GIVE_UP_SECONDS [FSR10]. No head-moving call may be open."""
        state, follow, heads = self._state, self._state.follow, self._state.confirmed_heads
        if heads is None or follow.syncing is None or follow.failing_since is None or follow.target is not None:
            return
        if follow.syncing.local_safe.number <= heads.unsafe.number:
            self._give_up("our own chain is as long", now)
        elif self._target.is_missing and state.unsafe.queue.next(heads) is not None:
            self._give_up("our own chain goes on", now)
        elif now.monotonic >= follow.failing_since + GIVE_UP_SECONDS:
            self._give_up(f"the execution engine did not reach it within {GIVE_UP_SECONDS:g} s", now)

    def _give_up(self, reason: str, now: Instant) -> None:
        state, syncing = self._state, self._state.follow.syncing
        if syncing is None:
            return
        state.do(act.FollowTargetDropped(syncing.local_safe, reason))
        self._end_sync()
        # The engine was pointed at another chain than ours.
        state.controller.distrust()
        state.publish(now)

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
        self._succeed(now.monotonic + state.follow.interval)
        state.publish(now)

    def head_call(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The forkchoice update that moves to the source's local safe head."""
        state, heads = self._state, self._state.confirmed_heads
        if heads is None or (self._waits(now) and not state.follow.resumed):
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
            self._end_sync()
            raise TemporaryError(_refusal(moved.unsafe, answer))
        state.do(act.FollowMoved(heads.unsafe, moved.unsafe))
        state.controller.follow(moved)
        state.controller.accept(call.forkchoice)
        self._succeed(now.monotonic)
        if state.config.sequencer_enabled:
            raise FollowResetError(moved)
        state.publish(now)

    def end_move(self, retry_at: float, now: Instant) -> None:
        """The update failed; it is tried again at that monotonic time, unless the engine has refused it."""
        self._state.follow.end_round(now.monotonic)
        self._target.retry(retry_at)

    def _wait_for_sync(self, tip: L2BlockRef, target: L2BlockRef, now: Instant) -> None:
        state = self._state
        self._note_success()
        self._target.retry(now.monotonic + ASK_SECONDS)
        state.follow.wait_for_sync(now.monotonic + SYNCING_SECONDS)
        if target.timestamp > tip.timestamp + LAG_SECONDS and not self._lags:
            self._lags = True
            state.do(act.FollowSyncStarted(target))
        if self._lags:
            state.do(act.ShowProblem(PROBLEM, f"the execution engine fetches the chain up to {target}"))
        state.publish(now)

    def _succeed(self, due_at: float) -> None:
        self._note_success()
        self._state.follow.succeeded(due_at)
        self._end_sync()

    def _note_success(self) -> None:
        """A round with the source ended well. Of a move without one the source knows nothing."""
        if not self._state.follow.resumed:
            self._state.do(act.FollowSourceRead(FollowResult.SUCCESS))
            self._state.recover(Work.FOLLOW.task)

    def _end_sync(self) -> None:
        """No block is waited for any more."""
        self._state.follow.give_up()
        self._target.clear()
        self._lags = False
        self._state.do(act.ShowProblem(PROBLEM, None))

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
