"""The row that writes changes of the safe head to its database [SDB3]."""

from collections.abc import Callable

from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.calls.engine_api import Unavailable
from rollup_node.stages.engine.heads.context import CoreContext, CoreRow
from rollup_node.stages.engine.safedb.entries import RecordSafeHead, SafeHeadsWritten
from rollup_node.stages.engine.safedb.recorder import SafeHeadRecorder
from rollup_node.stages.protocol.errors import ResetError


class SafeHeadsRow(CoreRow):
    """`written` is called when a change is on disk."""

    purpose = CallPurpose.SAFE_HEAD_WRITE

    def __init__(self, core: CoreContext, recorder: SafeHeadRecorder, written: Callable[[], None]) -> None:
        super().__init__(core)
        self._recorder, self._written = recorder, written

    def due(self, now: Instant) -> CoreCall | None:
        """Return the next write."""
        return None if self._core.waits(self.purpose, now) else self._recorder.next()

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Note that a change is on disk."""
        if isinstance(answer, SafeHeadsWritten):
            self._recorder.done()
            self._core.recover(self.purpose)
            self._written()

    def unavailable(self, pending: PendingCall, answer: Unavailable, now: Instant) -> None:
        """Raise ResetError for an entry that could not be written: derivation starts over, so that it is derived
        again."""
        if isinstance(pending.call, RecordSafeHead):
            raise ResetError(answer.reason)
        super().unavailable(pending, answer, now)
