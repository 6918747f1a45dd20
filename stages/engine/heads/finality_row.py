"""The row that finalizes what was derived from finalized L1 blocks [FIN3, FIN5]."""

from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, GetL1BlockRef, Instant, PendingCall
from rollup_node.stages.engine.heads.context import CoreContext, CoreRow
from rollup_node.stages.engine.heads.finality import Finality, Finalize, NeedCanonicalL1
from rollup_node.stages.engine.safedb.recorder import SafeHeadRecorder
from rollup_node.stages.protocol.types import L1BlockRef

PAUSE_SECONDS = 1.0


class FinalityRow(CoreRow):
    """`asks_at` is the monotonic time before which L1 is not asked again for a block that it does not have."""

    purpose = CallPurpose.FINALITY

    def __init__(self, core: CoreContext, finality: Finality, safe_heads: SafeHeadRecorder) -> None:
        super().__init__(core)
        self._finality, self._safe_heads = finality, safe_heads
        self.asks_at = 0.0

    def due(self, now: Instant) -> CoreCall | None:
        """Return the read of the L1 block that is to be compared."""
        core = self._core
        if core.confirmed_heads is None or core.waits(self.purpose, now) or now.monotonic < self.asks_at:
            return None
        need = self._finality.next(core.confirmed_heads.finalized)
        if isinstance(need, NeedCanonicalL1):
            return GetL1BlockRef(need.number, fresh=not self._finality.checked)
        core.recover(self.purpose)
        return None

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Take the canonical L1 block. Raises ResetError when blocks were derived from another one."""
        block = answer if isinstance(answer, L1BlockRef) else None
        if isinstance(pending.call, GetL1BlockRef):
            self._finality.add_canonical(NeedCanonicalL1(pending.call.number), block)
        if block is None:
            self.asks_at = now.monotonic + PAUSE_SECONDS
        self._core.recover(self.purpose)

    def finalize_due(self, now: Instant) -> None:
        """Move the finalized head if that is due; the next forkchoice update carries it."""
        core, heads = self._core, self._core.confirmed_heads
        if self._safe_heads.pending or heads is None:
            return
        if isinstance(due := self._finality.next(heads.finalized), Finalize):
            core.controller.finalize(due.block)
            self._finality.done()
            core.write("debug", "finalized L2 block", block=due.block)
            core.publish(now)
