"""The rows that compare this chain with what the interop process says of it.

| row    | due                                                        | then                                      |
|--------|------------------------------------------------------------|-------------------------------------------|
| denied | a block was denied that may stand in the chain [IV6]       | a reset if it does: the start is below it |
| label  | another block is verified or final, and is local safe here | it is safe, or final [LB3, LB4]           |
"""

from rollup_node.stages.engine.calls.calls import CallPurpose, CoreAnswer, CoreCall, Instant, PendingCall
from rollup_node.stages.engine.calls.engine_api import GetBlockRef
from rollup_node.stages.engine.core.rows import Row
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import ResetError, TemporaryError
from rollup_node.stages.protocol.types import BlockId, L2BlockRef

LABEL_SECONDS = 0.1
"""Between two labels of a verifier that catches up."""


class DeniedRow(Row):
    """Reads the chain's blocks of the numbers of newly denied ones, once the engine has the heads in force."""

    purpose = CallPurpose.DENIED_BLOCK

    def due(self, now: Instant) -> CoreCall | None:
        core, heads, verification = self._core, self._core.confirmed_heads, self._core.verification
        if not verification.goes_back:
            core.recover(self.purpose)
            return None
        accepted, unchecked = core.controller.accepted, verification.unchecked
        if heads is None or core.attributes.building or core.waits(self.purpose, now):
            return None
        if accepted is None or accepted.head != heads.unsafe.hash:
            return None
        while unchecked and unchecked[0].number > heads.unsafe.number:
            unchecked.popleft()
        if unchecked:
            return GetBlockRef(unchecked[0].number)
        self._settle(now)
        return None

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Reset if the denied block stands in the chain. Raises ResetError if the engine has lost its chain."""
        core, unchecked = self._core, self._core.verification.unchecked
        core.recover(self.purpose)
        if not unchecked or pending.call != GetBlockRef(unchecked[0].number):
            return
        if not isinstance(answer, L2BlockRef):
            raise ResetError(f"the engine has no block {unchecked[0].number}, though its head is beyond it")
        denied = unchecked.popleft()
        if answer.hash == denied.hash:
            core.request_reset(f"block {answer} is denied: its messages are invalid", now)
        elif not unchecked:
            self._settle(now)

    def _settle(self, now: Instant) -> None:
        self._core.verification.settle()
        self._core.publish(now)


class LabelRow(Row):
    """Reads the next block that is to be safe or final. `read_at` is the monotonic time of the next read.

    `_absent` is the last one that is not in the chain, with the number of resets then."""

    purpose = CallPurpose.VERIFIED_BLOCK
    read_at = 0.0
    _absent: tuple[BlockId, int] | None = None

    def due(self, now: Instant) -> CoreCall | None:
        core, heads = self._core, self._core.confirmed_heads
        if heads is None:
            return None
        block = core.verification.next_label(heads)
        if block is not None and not core.safe_heads.has(block.number):
            return None
        if block is None or (block, core.reset_count) == self._absent:
            core.recover(self.purpose)
            return None
        waits = now.monotonic < self.read_at or core.waits(self.purpose, now)
        return None if waits else GetBlockRef(block.number)

    def answer(self, pending: PendingCall, answer: CoreAnswer, now: Instant) -> None:
        """Move a label to the block, if it is the one of the verdict that is in force now. Raises TemporaryError."""
        core, heads = self._core, self._core.confirmed_heads
        core.recover(self.purpose)
        block = None if heads is None else self._core.verification.next_label(heads)
        if heads is None or block is None or pending.call != GetBlockRef(block.number):
            return
        if not isinstance(answer, L2BlockRef):
            raise TemporaryError(f"the engine does not show block {block}, which is verified", Code.ENGINE_ANSWER)
        if answer.id != block:
            self._absent = block, core.reset_count
            return
        self.read_at = now.monotonic + LABEL_SECONDS
        if block.number > heads.verified_safe.number:
            core.controller.promote_cross(answer, None)
        else:
            core.controller.finalize(answer)
        core.publish(now)
