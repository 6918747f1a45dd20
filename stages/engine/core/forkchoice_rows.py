"""The rows of the heads: their forkchoice updates, the doubt about the tip, the record of safe heads, and finality."""

from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, GetL1BlockRef, Instant, PendingCall
from rollup_node.stages.engine.calls.engine_api import GetBlockRef, Unavailable, is_syncing
from rollup_node.stages.engine.calls.safe_head_entries import SafeHeadEntry
from rollup_node.stages.engine.core.rows import HeadRow, Row
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef, L2BlockRef

PAUSE_SECONDS = 1.0


class ForkchoiceRow(HeadRow):
    """A pending update, at once for a start and for a displaced tip; not while a derived block is being built."""

    purpose = CallPurpose.FORKCHOICE

    def due(self, now: Instant) -> CoreCall | None:
        core = self._core
        if core.attributes.building or core.waits(self.purpose, now):
            return None
        at_once = core.unconfirmed is not None or core.controller.restoring_backup
        return core.controller.forkchoice_due() if at_once or now.monotonic >= core.forkchoice_at else None

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        core = self._core
        if is_syncing(answer) and core.fetched is not None and core.confirmed_heads is not None:
            core.doubted = pending.purpose, core.confirmed_heads.unsafe
            return
        held, finishing, core.held, core.finishing = core.held, core.finishing, None, None
        result = core.attributes.answer(pending.call, answer)
        if core.controller.forkchoice_due() is None:
            core.confirm(now)
        core.report(result, now)
        core.publish(now)
        if held is not None:
            row, before, its_answer = held
            row.take(before, its_answer, now)
        elif finishing is not None:
            finishing.finished(now)


class FinishRow(HeadRow):
    """The update that makes an inserted block the head or precedes a held answer, for the row that needs it."""

    @property
    def purpose(self) -> CallPurpose:
        """The purpose of the row that needs the update."""
        if self._core.held is not None:
            return self._core.held[1].purpose
        return CallPurpose.FORKCHOICE if self._core.finishing is None else self._core.finishing.purpose

    def due(self, now: Instant) -> CoreCall | None:
        core = self._core
        if core.held is None and core.finishing is None:
            return None
        call = core.controller.forkchoice_due()
        if call is None:
            core.finishing = core.held = None
        return call


class DoubtRow(HeadRow):
    """The question whether the engine still has the tip, for the work whose update it answered so [UNS7]."""

    @property
    def purpose(self) -> CallPurpose:
        return CallPurpose.FORKCHOICE if self._core.doubted is None else self._core.doubted[0]

    def due(self, now: Instant) -> CoreCall | None:
        return None if self._core.doubted is None else GetBlockRef(self._core.doubted[1].hash)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Raise TemporaryError for an engine that is busy, and ResetError for one that has lost the tip."""
        text = "the engine answers SYNCING to a forkchoice update"
        if answer is None and self._core.doubted is not None:
            raise ResetError(f"{text}: it does not have block {self._core.doubted[1]} any more")
        raise TemporaryError(f"{text}: it fetches the chain up to block {self._core.fetched}", Code.ENGINE_ANSWER)


class SafeHeadsRow(Row):
    """The writes of the safe head database; an entry that nobody waits for is written with the next few [SDB13]."""

    purpose = CallPurpose.SAFE_HEAD_WRITE

    def due(self, now: Instant) -> CoreCall | None:
        core, recorder = self._core, self._core.safe_heads
        if core.waits(self.purpose, now) or (recorder.is_record and not core.entry_wanted()):
            return None
        return recorder.next()

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Note that a change is on disk."""
        if answer is True:
            self._core.safe_heads.done()
            self._core.recover(self.purpose)
            self._core.safe_head_written()

    def unavailable(self, pending: PendingCall, answer: Unavailable, now: Instant) -> None:
        """Raise ResetError for an entry that could not be written, so that it is derived again."""
        if isinstance(pending.call, SafeHeadEntry):
            raise ResetError(answer.reason, answer.code)
        super().unavailable(pending, answer, now)


class FinalityRow(Row):
    """`asks_at` is the monotonic time before which L1 is not asked again for a block that it does not have."""

    purpose = CallPurpose.FINALITY
    asks_at = 0.0

    def due(self, now: Instant) -> CoreCall | None:
        core = self._core
        if core.confirmed_heads is None or core.waits(self.purpose, now) or now.monotonic < self.asks_at:
            return None
        need = core.finality.next(core.confirmed_heads.finalized)
        if isinstance(need, GetL1BlockRef):
            return need
        core.recover(self.purpose)
        return None

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Take the canonical L1 block. Raises ResetError when blocks were derived from another one."""
        block = answer if isinstance(answer, L1BlockRef) else None
        if isinstance(pending.call, GetL1BlockRef):
            self._core.finality.add_canonical(pending.call.number, block)
        if block is None:
            self.asks_at = now.monotonic + PAUSE_SECONDS
        self._core.recover(self.purpose)

    def finalize_due(self, now: Instant) -> None:
        """Move the finalized head if that is due; the next forkchoice update carries it."""
        core, heads = self._core, self._core.confirmed_heads
        if heads is None:
            return
        due = core.finality.next(heads.finalized)
        if isinstance(due, L2BlockRef) and core.safe_heads.has(due.number):
            core.controller.finalize(due)
            core.finality.done()
            core.write("debug", "finalized L2 block", block=due)
            core.publish(now)
