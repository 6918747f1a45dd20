"""The rows that follow another node [FSR1 to FSR13]."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rollup_node.stages.engine.calls import engine_api
from rollup_node.stages.engine.calls.actions import Action, FetchEnded, FetchLasts, LogLevel
from rollup_node.stages.engine.calls.calls import (
    CallPurpose,
    CoreAnswer,
    CoreCall,
    FollowReason,
    GetL1BlockRef,
    Instant,
    PendingCall,
)
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.core.rows import HeadRow, Row
from rollup_node.stages.engine.heads import follow_source
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L2BlockRef

if TYPE_CHECKING:
    from rollup_node.stages.engine.core.state import CoreState

PROBLEM = "follow source"


class FollowSourceRead(Action, frozen=True):
    """Report the end of a round of following the source, after a success with our safe head at this number."""

    result: follow_source.FollowResult
    safe: int = 0


class FollowHeadRow(HeadRow):
    """The forkchoice update that moves to the source's local safe head, and what shows that it is that block.

    It keeps what all rows of the source share: its safe head while that is below ours, and what was logged."""

    purpose = CallPurpose.FOLLOW_HEAD

    def __init__(self, core: "CoreState") -> None:
        super().__init__(core)
        self.target = follow_source.FollowTarget()
        self._behind: L2BlockRef | None = None
        self._shown = False

    @property
    def source(self) -> follow_source.FollowSource:
        """The source that is followed."""
        return self._core.follow

    def due(self, now: Instant) -> CoreCall | None:
        heads = self._core.confirmed_heads
        if heads is None:
            return None
        if (wanted := self.source.to_confirm()) is not None:
            return engine_api.GetBlockRef(wanted.hash)
        forkchoice = self.source.forkchoice(heads)
        return None if forkchoice is None else engine_api.ForkchoiceUpdate(forkchoice)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Take the answer to such a call. Raises FollowError and FollowResetError [FSR3]."""
        source, heads = self.source, self._core.confirmed_heads
        moved = None if heads is None else source.moved(heads)
        if heads is None or moved is None:
            return
        if isinstance(pending.call, engine_api.GetBlockRef):
            if source.confirm(pending.call, answer):
                self._move(heads, moved, now)
            return
        if engine_api.is_syncing(answer):
            self._wait_for_sync(heads.unsafe, moved.unsafe, now)
            return
        if not isinstance(answer, engine_api.ForkchoiceAnswer) or answer.status != "VALID":
            # It may be what the source said earlier: the next round has what it says then.
            self.end_sync()
            raise follow_source.FollowError(None, FollowReason.ENGINE_REFUSES, _refusal(moved.unsafe, answer))
        source.taken = moved.forkchoice()

    def _move(self, heads: Heads, moved: Heads, now: Instant) -> None:
        core, old, new = self._core, heads.unsafe, moved.unsafe
        # Blocks on top of ours are usual without gossip.
        level: LogLevel = "warn" if new.number <= old.number else "debug"
        core.write(level, "moved to the follow source's chain", Code.FOLLOW_SOURCE, old=old, new=new)
        core.controller.follow(moved)
        core.controller.accept(moved.forkchoice())
        self.note_success()
        replaced = self.source.reached(now.monotonic)
        self.end_sync()
        if replaced and core.config.sequencer_enabled:
            raise follow_source.FollowResetError(moved)
        core.confirm(now)
        core.publish(now)

    def _wait_for_sync(self, tip: L2BlockRef, wanted: L2BlockRef, now: Instant) -> None:
        self.note_success()
        self.target.retry(now.monotonic + follow_source.ASK_SECONDS)
        self.source.wait_for_sync(now.monotonic)
        if not self.source.holds(now.monotonic):
            self.show_sync(tip, wanted)
        self._core.publish(now)

    def failed(self, call: CoreCall | None, error: TemporaryError, now: Instant) -> float | None:
        self.fail_round(self.purpose, error, now)
        self.source.end_round()
        self.target.retry(now.monotonic + follow_source.ASK_SECONDS)
        return None

    # --- what the rows share ---------------------------------------------------------------------------------------

    def timers(self) -> Iterator[float | None]:
        """Yield when something becomes due by time alone."""
        source = self.source
        yield source.due_at
        if source.syncing is not None:
            yield source.hold_until
            yield self.target.due_at if source.failing else None

    def import_heads(self, now: Instant) -> None:
        """Take over the source's heads that are on our chain; no head-moving call may be open."""
        core, source, heads = self._core, self.source, self._core.confirmed_heads
        if not source.ready or heads is None or source.status is None:
            return
        safe = source.status.safe
        behind = safe if safe.number < heads.safe.number else None
        if behind is not None and self._behind is None:
            text = "the follow source's safe head went back"
            core.write("warn", text, Code.FOLLOW_SOURCE, source=behind, safe=heads.safe)
        self._behind = behind
        core.controller.follow(source.imported(heads))
        self.note_success()
        source.succeeded()
        self.end_sync()
        core.publish(now)

    def watch_sync(self, now: Instant) -> None:
        """Go on with our own chain without a block that does not come [FSR3, FSR10]; no move may be open."""
        source, heads = self.source, self._core.confirmed_heads
        if source.syncing is None:
            self._end_show()
        if heads is None or source.syncing is None:
            return
        if source.failing and source.target is None and source.syncing.local_safe.number <= heads.unsafe.number:
            self.give_up("our own chain is as long", now)
        elif not self._shown and not source.holds(now.monotonic):
            self.show_sync(heads.unsafe, source.syncing.local_safe)

    def show_sync(self, tip: L2BlockRef, wanted: L2BlockRef) -> None:
        """Tell operators that the engine does not get a block."""
        self._shown = True
        text = f"the execution engine does not get the follow source's local safe head {wanted} from its peers"
        self._core.do(FetchLasts(PROBLEM, f"{text}; our own chain goes on", wanted.number - tip.number))

    def give_up(self, reason: str, now: Instant) -> None:
        """Wait no longer for the block that the engine lacks."""
        core, syncing = self._core, self.source.syncing
        if syncing is None:
            return
        text = "giving up on the follow source's block"
        core.write("warn", text, Code.FOLLOW_SOURCE, block=syncing.local_safe, reason=reason)
        self.end_sync()
        # The engine was pointed at another chain than ours.
        core.controller.distrust()
        core.publish(now)

    def note_success(self) -> None:
        """Note that a round with the source ended well. Of a move without one the source knows nothing."""
        core, heads = self._core, self._core.controller.heads
        if not self.source.resumed:
            core.do(FollowSourceRead(follow_source.FollowResult.SUCCESS, 0 if heads is None else heads.safe.number))
            core.recover(CallPurpose.FOLLOW)

    def end_sync(self) -> None:
        """Note that no block is waited for any more."""
        self.source.give_up()
        self.target.clear()
        self._end_show()

    def _end_show(self) -> None:
        if self._shown:
            self._shown = False
            self._core.do(FetchEnded(PROBLEM))

    def fail_round(self, purpose: CallPurpose, error: TemporaryError, now: Instant) -> None:
        """Note that a round or a move failed: the next round begins when it is due, whatever failed before."""
        if self.source.taken is not None:
            # The engine may be on the source's chain.
            self._core.controller.distrust()
        reason = error.reason if isinstance(error, follow_source.FollowError) else FollowReason.ENGINE_ANSWER
        pause = max(0.0, self.source.due_at - now.monotonic)
        self._core.fail(purpose, error, now, reason=reason, pause=pause)


class FollowReadRow(Row):
    """The reads of a round."""

    takes_silence = True
    purpose = CallPurpose.FOLLOW

    def due(self, now: Instant) -> CoreCall | None:
        core, heads = self._core, self._core.confirmed_heads
        return None if heads is None else core.follow.next(heads, now.monotonic)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        core, heads = self._core, self._core.confirmed_heads
        if heads is None or not isinstance(pending.call, follow_source.FollowCall):
            return
        try:
            core.follow.answer(pending.call, answer, heads, now.unix)
        except follow_source.FollowError as error:
            if error.result is not None:
                core.do(FollowSourceRead(error.result))
            core.follow.failed(error)
            if error.reason is FollowReason.ENGINE_LACKS:
                core.controller.distrust()
            raise

    def failed(self, call: CoreCall | None, error: TemporaryError, now: Instant) -> float | None:
        """Wait for the next round."""
        self._core.follow_row.fail_round(self.purpose, error, now)
        return None


class FollowTargetRow(Row):
    """The reads that show whether the engine has fetched the chain of a source that is away [FSR10]."""

    purpose = CallPurpose.FOLLOW_TARGET

    def due(self, now: Instant) -> CoreCall | None:
        core, source, target = self._core, self._core.follow, self._core.follow_row.target
        if source.syncing is None or not source.failing:
            target.clear()
            core.recover(self.purpose)
            return None
        if core.confirmed_heads is None or source.target is not None or core.waits(self.purpose, now):
            return None
        target.start(source.syncing)
        return target.next(now.monotonic)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        core, source, call = self._core, self._core.follow, pending.call
        if source.target is not None or not isinstance(call, engine_api.GetBlockRef | GetL1BlockRef):
            return
        try:
            may_move = core.follow_row.target.answer(call, answer, now.monotonic)
        except follow_source.StaleTargetError as error:
            core.follow_row.give_up(str(error), now)
            return
        core.recover(self.purpose)
        if may_move and source.syncing is not None:
            source.resume()


def _refusal(target: L2BlockRef, answer: CoreAnswer) -> str:
    what = f"the execution engine refuses the source's local safe head {target}"
    if isinstance(answer, engine_api.ErrorAnswer):
        why = ", which contradicts the finalized block" if answer.code == engine_api.INVALID_FORKCHOICE else ""
        return f"{what}{why}: {answer.message} ({answer.code})"
    if isinstance(answer, engine_api.ForkchoiceAnswer):
        return f"{what}: {answer.status}" + (f", {answer.error}" if answer.error else "")
    return f"{what}: not an answer to a forkchoice update"
