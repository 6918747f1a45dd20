"""The forkchoice updates that are due by the heads alone, the doubt about the tip, and the record of safe heads."""

from collections.abc import Callable

from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.calls.engine_api import GetBlockRef, Unavailable, is_syncing
from rollup_node.stages.engine.calls.safe_head_entries import SafeHeadEntry, SafeHeadRecorder
from rollup_node.stages.engine.heads.context import CoreContext, HeadRow, Row
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import ResetError, TemporaryError


class ForkchoiceRow(HeadRow):
    """A pending update, at once for a start and for a displaced tip; not while a derived block is being built."""

    purpose = CallPurpose.FORKCHOICE

    def due(self, now: Instant) -> CoreCall | None:
        core = self._core
        if core.building_derived or core.waits(self.purpose, now):
            return None
        at_once = core.unconfirmed is not None or core.controller.restoring_backup
        return core.controller.forkchoice_due() if at_once or now.monotonic >= core.forkchoice_at else None

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        core = self._core
        if is_syncing(answer) and core.fetched is not None and core.confirmed_heads is not None:
            core.doubted = pending.purpose, core.confirmed_heads.unsafe
            return
        held, finishing, core.held, core.finishing = core.held, core.finishing, None, None
        result = core.take_forkchoice(pending, answer)
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
    """`wanted` says whether anyone waits for the entry of a safe head; `written` is called when a change is on disk."""

    purpose = CallPurpose.SAFE_HEAD_WRITE

    def __init__(
        self, core: CoreContext, recorder: SafeHeadRecorder, wanted: Callable[[], bool], written: Callable[[], None]
    ) -> None:
        super().__init__(core)
        self._recorder, self._wanted, self._written = recorder, wanted, written

    def due(self, now: Instant) -> CoreCall | None:
        if self._core.waits(self.purpose, now) or (self._recorder.is_record and not self._wanted()):
            return None
        return self._recorder.next()

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Note that a change is on disk."""
        if answer is True:
            self._recorder.done()
            self._core.recover(self.purpose)
            self._written()

    def unavailable(self, pending: PendingCall, answer: Unavailable, now: Instant) -> None:
        """Raise ResetError for an entry that could not be written, so that it is derived again."""
        if isinstance(pending.call, SafeHeadEntry):
            raise ResetError(answer.reason, answer.code)
        super().unavailable(pending, answer, now)
