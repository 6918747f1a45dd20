"""The rows that end with heads: the calls of EL sync, the engine's own progress [ELS13], the search for a start."""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from rollup_node.stages.engine.calls.actions import Ends, Lasts, LogLine, ShowProblem
from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.calls.engine_api import GetSyncProgress, NewPayload, SyncingBlocks, Unavailable
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.core.rows import HeadRow, Row
from rollup_node.stages.engine.starts.el_sync import ELSyncState
from rollup_node.stages.engine.starts.pipeline_start import PipelineStartSearch
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import EL_SYNC, PipelineStart
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.texts import duration

if TYPE_CHECKING:
    from rollup_node.stages.engine.core.state import CoreState

SEARCHING = "searching for the L2 heads to start with"
CONDITION = "EL sync"
POLL_SECONDS = 10.0
SEARCH_PAUSE = 1.0
SAMPLES = 31
STALL_SECONDS = 300.0
MAX_ETA = 10 * 365 * 86_400


class SyncEstimate(msgspec.Struct, frozen=True):
    """The engine's block, those left, blocks a second, and seconds to go; `stalled` since the last new block."""

    current: int
    to_go: int
    rate: float
    eta: float | None
    stalled: float

    @property
    def is_stalled(self) -> bool:
        """Whether there has been no new block for long."""
        return self.stalled >= STALL_SECONDS

    @property
    def problem(self) -> Problem:
        """How far the sync is, for operators."""
        if self.is_stalled:
            text = (
                f"{self.to_go} blocks to go, no new block for {duration(self.stalled)}; check that the execution"
                " engine has peers, or start with --syncmode=consensus-layer"
            )
            return Problem(Code.EL_SYNC_STALLED, EL_SYNC, text)
        left = "" if self.eta is None else f", about {duration(self.eta)} left"
        text = f"block {self.current}, {self.to_go} blocks to go, {self.rate:.1f} blocks/s{left}"
        return Problem(None, EL_SYNC, text)


class SyncProgress:
    """The samples of the last five minutes; times in monotonic seconds."""

    def __init__(self) -> None:
        self.due_at = 0.0
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES)
        self._moved_at = 0.0

    def clear(self) -> None:
        """Another sync begins."""
        self._samples.clear()
        self.due_at = 0.0

    def add(self, current: int, target: int, monotonic: float) -> SyncEstimate:
        """Take the engine's block; `target` is the highest block known."""
        if not self._samples or self._samples[-1][1] != current:
            self._moved_at = monotonic
        if self._samples and current < self._samples[-1][1]:
            self._samples.clear()  # an engine that starts over, or another stage of its sync
        self._samples.append((monotonic, current))
        (since, first), to_go = self._samples[0], max(0, target - current)
        rate = (current - first) / (monotonic - since) if monotonic > since else 0.0
        eta = min(to_go / rate, MAX_ETA) if rate > 0 else None
        return SyncEstimate(current, to_go, rate, eta, monotonic - self._moved_at)


class ELSyncRow(HeadRow):
    """`_phase` is the state that operators were shown last; an estimate replaces its line until the next one."""

    purpose = CallPurpose.EL_SYNC

    def __init__(self, core: "CoreState") -> None:
        super().__init__(core)
        self.progress = SyncProgress()
        self._phase: ELSyncState | None = None

    def due(self, now: Instant) -> CoreCall | None:
        core, sync = self._core, self._core.el_sync
        if not sync.in_progress or core.controller.heads is not None or core.verification.is_awaited:
            return None
        call = None if core.waits(self.purpose, now) else sync.next(now.monotonic, now.unix)
        if isinstance(call, NewPayload):
            core.unsafe.chain.queue.drop_below(call.payload.block_number)
            core.unsafe.show_queue()
        self._show()
        return call

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        self._core.el_sync.answer(pending.call, answer, now.monotonic)
        self._core.recover(self.purpose)
        self._show()

    def failed(self, call: CoreCall | None, error: TemporaryError, now: Instant) -> float | None:
        self._core.el_sync.failed()
        return super().failed(call, error, now)

    def finish(self, heads: Heads, now: Instant) -> None:
        """End the sync: the engine has confirmed these heads."""
        core, began = self._core, self._core.el_sync.started_at
        if not core.el_sync.in_progress:
            return
        core.el_sync.finish()
        core.recover(self.purpose)
        core.do(Ends(CONDITION, "the execution engine gets blocks again"))
        seconds = 0.0 if began is None else round(now.monotonic - began, 1)
        core.write(
            "info", "Finished EL sync", unsafe=heads.unsafe, safe=heads.safe, finalized=heads.finalized, seconds=seconds
        )

    def timers(self) -> Iterator[float | None]:
        """Yield when something becomes due by time alone."""
        core = self._core
        if core.controller.heads is None:
            yield core.el_sync.wait_until()
        if core.el_sync.state is ELSyncState.STARTED:
            yield self.progress.due_at

    def _show(self) -> None:
        """Report what happened, and what is waited for now."""
        core, sync = self._core, self._core.el_sync
        for event in sync.take_events():
            if isinstance(event, LogLine):
                core.do(event)
            else:
                core.unsafe.drop(event)
        if sync.state is not self._phase:
            self._phase = sync.state
            self.progress.clear()
            if not sync.in_progress:
                core.recover(self.purpose)
            problem = Problem(None, EL_SYNC, sync.waiting_for) if sync.in_progress else Problem(None, "", SEARCHING)
            core.do(ShowProblem("start", problem))


class SyncProgressRow(Row):
    """The engine's progress, every ten seconds while it syncs, if it tells it [ELS13]."""

    purpose = CallPurpose.EL_SYNC_PROGRESS

    def due(self, now: Instant) -> CoreCall | None:
        core, progress = self._core, self._core.el_sync_row.progress
        if core.el_sync.state is not ELSyncState.STARTED or now.monotonic < progress.due_at:
            return None
        progress.due_at = now.monotonic + POLL_SECONDS
        return GetSyncProgress()

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Show the progress, and whether the sync stalls."""
        core, sync = self._core, self._core.el_sync
        if not isinstance(answer, SyncingBlocks) or sync.state is not ELSyncState.STARTED:
            return
        known = 0 if sync.target is None else sync.target.block_number
        estimate = core.el_sync_row.progress.add(answer.current, max(known, answer.highest), now.monotonic)
        self._report(estimate)
        core.do(ShowProblem("start", estimate.problem))

    def _report(self, estimate: SyncEstimate) -> None:
        core, block, to_go = self._core, estimate.current, estimate.to_go
        eta = None if estimate.eta is None else round(estimate.eta)
        core.write("info", "EL sync", block=block, to_go=to_go, rate=round(estimate.rate, 1), eta_seconds=eta)
        if estimate.is_stalled:
            fields = {"block": block, "to_go": to_go, "minutes": round(estimate.stalled / 60)}
            core.do(Lasts(CONDITION, Code.EL_SYNC_STALLED, "the execution engine gets no new block", fields))
        else:
            core.do(Ends(CONDITION, "the execution engine gets blocks again", {"block": block}))

    def unavailable(self, pending: PendingCall, answer: Unavailable, now: Instant) -> None:
        """Leave the engine alone."""


class StartRow(Row):
    """`search` is a search on its way, at the earliest at `search_at`.

    `restart` is a start at the safe head that waits until no head-moving call is open."""

    purpose = CallPurpose.START
    search: PipelineStartSearch | None = None
    restart: PipelineStart | None = None
    search_at = 0.0

    def clear(self) -> None:
        """Drop what is on its way: a reset."""
        self.search = self.restart = None

    def due(self, now: Instant) -> CoreCall | None:
        core = self._core
        if core.waits(self.purpose, now):
            return None
        if self.search is None and core.controller.heads is None:
            self.search = core.begin_search() if now.monotonic >= self.search_at else None
            self.search_at = self.search_at if self.search is None else now.monotonic + SEARCH_PAUSE
        elif self.search is None and self.restart is None and core.session.restart_wanted and core.confirmed_heads:
            self.search = PipelineStartSearch(core.config.rollup, safe=core.confirmed_heads.safe)
        return None if self.search is None else self.search.call

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        if self.search is not None:
            self.search.answer(answer)
            self._end_search()

    def unavailable(self, pending: PendingCall, answer: Unavailable, now: Instant) -> None:
        """Go on without a block that the engine has not whole, where that may be."""
        if answer.unreadable and self._core.el_sync.take_unreadable(pending.call):
            return
        if not answer.unreadable or self.search is None or not self.search.lacks_block():
            raise TemporaryError(answer.reason, answer.code)
        self._end_search()

    def failed(self, call: CoreCall | None, error: TemporaryError, now: Instant) -> float | None:
        """End the search; the next one starts from nothing."""
        self.search = None
        return super().failed(call, error, now)

    def _end_search(self) -> None:
        if self.search is not None and self.search.found is not None:
            start, self.search = self.search.found, None
            self._core.start_found(start)
