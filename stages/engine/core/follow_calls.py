"""The calls that follow another node, and what becomes of their answers [FSR1 to FSR13]."""

from collections.abc import Iterator

from rollup_node.stages.engine.api.engine_api import (
    INVALID_FORKCHOICE,
    ErrorAnswer,
    ForkchoiceAnswer,
    ForkchoiceUpdate,
    GetBlockRef,
    is_syncing,
)
from rollup_node.stages.engine.api.follow_api import FollowReason
from rollup_node.stages.engine.api.heads import Heads
from rollup_node.stages.engine.core import actions as act
from rollup_node.stages.engine.core.calls import CoreAnswer, CoreCall, Instant, PendingCall, Work
from rollup_node.stages.engine.core.state import CoreState
from rollup_node.stages.engine.machines.follow_source import FollowCall, FollowError, FollowResetError, FollowResult
from rollup_node.stages.engine.machines.follow_target import ASK_SECONDS, FollowTarget, StaleTargetError
from rollup_node.stages.engine.machines.pipeline_start import GetL1BlockRef
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L2BlockRef

PROBLEM = "follow source"


class FollowCalls:
    """The lanes of reads, and the row of the forkchoice update that moves to the source's chain. `_behind` is the
    source's safe head while it is below ours; `_shown`: operators were told that the engine does not get a block."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._behind: L2BlockRef | None = None
        self._shown = False
        self._target = FollowTarget()

    # --- reads -------------------------------------------------------------------------------------------------------

    def read_due(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The read that is due, once there are heads."""
        state, heads = self._state, self._state.confirmed_heads
        if heads is None or not state.follow.enabled:
            return None
        call = state.follow.next(heads, now.monotonic)
        return None if call is None else (Work.FOLLOW, call)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to a read. Raises FollowError, which ends the round."""
        state, heads = self._state, self._state.confirmed_heads
        if heads is None or not isinstance(pending.call, FollowCall):
            return
        try:
            state.follow.answer(pending.call, answer, heads, now.unix)
        except FollowError as error:
            if error.result is not None:
                state.do(act.FollowSourceRead(error.result))
            state.follow.failed(error)
            if error.reason is FollowReason.ENGINE_LACKS:
                state.controller.distrust()
            raise

    # --- a source that is away while the engine fetches its chain ----------------------------------------------------

    def target_due(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The read that shows whether the engine has fetched that chain."""
        state, follow = self._state, self._state.follow
        if follow.syncing is None or not follow.failing:
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

    def timers(self) -> Iterator[float | None]:
        """When something becomes due by time alone."""
        follow = self._state.follow
        yield follow.due_at
        if follow.syncing is not None:
            yield follow.hold_until
            yield self._target.due_at if follow.failing else None

    def watch_sync(self, now: Instant) -> None:
        """Our own chain goes on without a block that the engine does not get soon, and without one of a source that is
        away once it is as long [FSR3, FSR10]. No head-moving call may be open."""
        follow, heads = self._state.follow, self._state.confirmed_heads
        if follow.syncing is None:
            self._end_show()
        if heads is None or follow.syncing is None:
            return
        if follow.failing and follow.target is None and follow.syncing.local_safe.number <= heads.unsafe.number:
            self._give_up("our own chain is as long", now)
        elif not self._shown and not follow.holds(now.monotonic):
            self._show_sync(heads.unsafe, follow.syncing.local_safe)

    def _show_sync(self, tip: L2BlockRef, wanted: L2BlockRef) -> None:
        self._shown = True
        text = f"the execution engine does not get the follow source's local safe head {wanted} from its peers"
        self._state.do(act.FetchLasts(PROBLEM, f"{text}; our own chain goes on", wanted.number - tip.number))

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
        self._note_success()
        state.follow.succeeded()
        self._end_sync()
        state.publish(now)

    def head_call(self, now: Instant) -> tuple[Work, CoreCall] | None:
        """The forkchoice update that moves to the source's local safe head, and what shows that it is that block."""
        state, heads = self._state, self._state.confirmed_heads
        if heads is None:
            return None
        if (wanted := state.follow.to_confirm()) is not None:
            return Work.FOLLOW_HEAD, GetBlockRef(wanted.hash)
        forkchoice = state.follow.forkchoice(heads)
        return None if forkchoice is None else (Work.FOLLOW_HEAD, ForkchoiceUpdate(forkchoice))

    def answer_head(self, call: CoreCall, answer: CoreAnswer, now: Instant) -> None:
        """Takes the answer to such a call. Raises FollowError when the engine refuses the block or has another, and
        FollowResetError when a sequencer has to start over on it [FSR3]."""
        state, heads = self._state, self._state.confirmed_heads
        moved = None if heads is None else state.follow.moved(heads)
        if heads is None or moved is None:
            return
        if isinstance(call, GetBlockRef):
            if state.follow.confirm(call, answer):
                self._move(heads, moved, now)
            return
        if is_syncing(answer):
            self._wait_for_sync(heads.unsafe, moved.unsafe, now)
            return
        if not isinstance(answer, ForkchoiceAnswer) or answer.status != "VALID":
            # It may be what the source said earlier: the next round has what it says then.
            self._end_sync()
            raise FollowError(None, FollowReason.ENGINE_REFUSES, _refusal(moved.unsafe, answer))
        state.follow.taken = moved.forkchoice()

    def _move(self, heads: Heads, moved: Heads, now: Instant) -> None:
        state = self._state
        state.do(act.FollowMoved(heads.unsafe, moved.unsafe))
        state.controller.follow(moved)
        state.controller.accept(moved.forkchoice())
        self._note_success()
        replaced = state.follow.reached(now.monotonic)
        self._end_sync()
        if replaced and state.config.sequencer_enabled:
            raise FollowResetError(moved)
        state.confirm(now)
        state.publish(now)

    def fail(self, work: Work, error: TemporaryError, now: Instant) -> None:
        """A round or a move failed: the next round begins when it is due, whatever failed before."""
        follow = self._state.follow
        if follow.taken is not None:
            self._state.controller.distrust()
        if work is Work.FOLLOW_HEAD:
            follow.end_round()
            self._target.retry(now.monotonic + ASK_SECONDS)
        reason = error.reason if isinstance(error, FollowError) else FollowReason.ENGINE_ANSWER
        pause = max(0.0, follow.due_at - now.monotonic)
        self._state.fail(work, error, now, reason=reason, pause=pause)

    def _wait_for_sync(self, tip: L2BlockRef, wanted: L2BlockRef, now: Instant) -> None:
        state = self._state
        self._note_success()
        self._target.retry(now.monotonic + ASK_SECONDS)
        state.follow.wait_for_sync(now.monotonic)
        if not state.follow.holds(now.monotonic):
            self._show_sync(tip, wanted)
        state.publish(now)

    def _note_success(self) -> None:
        """A round with the source ended well. Of a move without one the source knows nothing."""
        state, heads = self._state, self._state.controller.heads
        if not state.follow.resumed:
            state.do(act.FollowSourceRead(FollowResult.SUCCESS, 0 if heads is None else heads.safe.number))
            state.recover(Work.FOLLOW.task)

    def _end_sync(self) -> None:
        """No block is waited for any more."""
        self._state.follow.give_up()
        self._target.clear()
        self._end_show()

    def _end_show(self) -> None:
        if self._shown:
            self._shown = False
            self._state.do(act.FetchEnded(PROBLEM))


def _refusal(target: L2BlockRef, answer: CoreAnswer) -> str:
    what = f"the execution engine refuses the source's local safe head {target}"
    if isinstance(answer, ErrorAnswer):
        why = ", which contradicts the finalized block" if answer.code == INVALID_FORKCHOICE else ""
        return f"{what}{why}: {answer.message} ({answer.code})"
    if isinstance(answer, ForkchoiceAnswer):
        return f"{what}: {answer.status}" + (f", {answer.error}" if answer.error else "")
    return f"{what}: not an answer to a forkchoice update"
