"""Finds out whether the engine has fetched the chain of a source that is away [FSR10].

Without a source nobody names another block, and the L1 origins may be of a chain before an L1 reorg.

| state   | next call                                       | then                                            |
|---------|-------------------------------------------------|-------------------------------------------------|
| missing | the block, every second                         | reached, the engine has it                      |
| reached | L1 blocks: the origins of the heads, each once  | the move, all are canonical; else the target is |
|         |                                                 | given up                                        |"""

from rollup_node.stages.engine.calls.calls import FollowStatus, GetL1BlockRef
from rollup_node.stages.engine.calls.engine_api import GetBlockRef
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef

ASK_SECONDS = 1.0


class StaleTargetError(Exception):
    """An L1 origin of the target is not canonical any more."""


class FollowTarget:
    """`due_at` is the monotonic time of the next call."""

    def __init__(self) -> None:
        self.due_at = 0.0
        self._status: FollowStatus | None = None
        self._is_reached = False
        self._canonical: set[int] = set()

    def start(self, status: FollowStatus) -> None:
        """Note that the source that said this is away."""
        if status is not self._status:
            self.due_at, self._status, self._is_reached = 0.0, status, False
            self._canonical.clear()

    def clear(self) -> None:
        """There is no target, or its source is back."""
        self._status = None

    def retry(self, at: float) -> None:
        """Note that the engine lacks the block or does not move to it; it is asked again at that time."""
        if self._status is not None:
            self.due_at, self._is_reached = at, False
            self._canonical.clear()

    def next(self, now: float) -> GetBlockRef | GetL1BlockRef | None:
        """Return the call that is due."""
        if self._status is None or now < self.due_at:
            return None
        if not self._is_reached:
            return GetBlockRef(self._status.local_safe.hash)
        number = next(item.number for item in _origins(self._status) if item.number not in self._canonical)
        return GetL1BlockRef(number, fresh=not self._canonical)

    def answer(self, call: GetBlockRef | GetL1BlockRef, answer: object, now: float) -> bool:
        """Take an answer; whether the chain may be moved to the target. Raises StaleTargetError to give it up."""
        if self._status is None:
            return False
        if isinstance(call, GetL1BlockRef):
            return self._take_origin(self._status, call.number, answer)
        if call.name != self._status.local_safe.hash:
            return False
        if answer is not None and not isinstance(answer, L2BlockRef):
            text = f"the execution engine does not say how far it is: {type(answer).__name__}"
            raise TemporaryError(text, Code.ENGINE_ANSWER)
        if answer is None:
            self.retry(now + ASK_SECONDS)
        else:
            self._is_reached = True
        return False

    def _take_origin(self, status: FollowStatus, number: int, answer: object) -> bool:
        if not self._is_reached:
            return False
        if not isinstance(answer, L1BlockRef):
            self._canonical.clear()
            raise TemporaryError(f"our L1 does not have L1 block {number}, an origin of {status.local_safe}")
        for origin in _origins(status):
            if origin.number == number and origin.hash != answer.hash:
                raise StaleTargetError(f"the L1 origin {origin} of {status.local_safe} is not canonical any more")
        self._canonical.add(number)
        return all(item.number in self._canonical for item in _origins(status))


def _origins(status: FollowStatus) -> tuple[BlockId, ...]:
    return tuple(ref.l1_origin for ref in (status.finalized, status.safe, status.local_safe))
