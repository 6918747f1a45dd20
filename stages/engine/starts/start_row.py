"""The row that searches for a start: heads where there are none, or the base for another start of derivation."""

from collections.abc import Callable

from rollup_node.stages.engine.attributes.derivation_session import DerivationSession
from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.calls.engine_api import Unavailable
from rollup_node.stages.engine.heads.context import CoreContext, CoreRow
from rollup_node.stages.engine.starts.pipeline_start import FoundStart, PipelineStartSearch
from rollup_node.stages.messages.engine import PipelineStart
from rollup_node.stages.protocol.errors import TemporaryError

SEARCH_PAUSE = 1.0


class StartRow(CoreRow):
    """`search` is a search on its way, at the earliest at `search_at`; `restart` a start at the safe head that waits
    until no head-moving call is open. `begin` makes a search for heads, None while there is to be none; `end` takes
    what was found."""

    purpose = CallPurpose.START

    def __init__(
        self,
        core: CoreContext,
        session: DerivationSession,
        begin: Callable[[], PipelineStartSearch | None],
        end: Callable[[FoundStart], None],
    ) -> None:
        super().__init__(core)
        self._session, self._begin, self._end = session, begin, end
        self.search: PipelineStartSearch | None = None
        self.restart: PipelineStart | None = None
        self.search_at = 0.0

    def clear(self) -> None:
        """Drop what is on its way: a reset."""
        self.search = self.restart = None

    def due(self, now: Instant) -> CoreCall | None:
        """Return the call of the search; begins one when there are no heads or derivation needs another start."""
        core = self._core
        if core.waits(self.purpose, now):
            return None
        if self.search is None and core.controller.heads is None:
            self.search = self._begin() if now.monotonic >= self.search_at else None
            self.search_at = self.search_at if self.search is None else now.monotonic + SEARCH_PAUSE
        elif self._needs_restart and core.confirmed_heads is not None:
            self.search = PipelineStartSearch(core.config.rollup, safe=core.confirmed_heads.safe)
        return None if self.search is None else self.search.call

    @property
    def _needs_restart(self) -> bool:
        return self.search is None and self.restart is None and self._session.restart_wanted

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Take the answer to a call of the search."""
        if self.search is not None:
            self.search.answer(answer)
            self._end_search()

    def unavailable(self, pending: PendingCall, answer: Unavailable, now: Instant) -> None:
        """Go on without a block that the engine has not whole, where that may be."""
        if answer.unreadable and self._core.take_unreadable(pending.call):
            return
        if not answer.unreadable or self.search is None or not self.search.lacks_block():
            raise TemporaryError(answer.reason)
        self._end_search()

    def failed(self, call: CoreCall | None, error: TemporaryError, now: Instant) -> float | None:
        """End the search; the next one starts from nothing."""
        self.search = None
        return super().failed(call, error, now)

    def _end_search(self) -> None:
        if self.search is not None and self.search.found is not None:
            start, self.search = self.search.found, None
            self._end(start)
