"""Where derivation resumes after EL sync if safe heads are recorded.

At the last recorded one that the synced chain has, so that the record has no gap [SDB9]."""

from rollup_node.stages.engine.calls.engine_api import GetBlockRef
from rollup_node.stages.engine.safedb.entries import (
    FindSafeHeads,
    FoundSafeHeads,
    KeepSafeHeads,
    SafeHeadEntry,
    SafeHeadsWritten,
)
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L2BlockRef

RecordCall = FindSafeHeads | GetBlockRef | KeepSafeHeads


class RecordedSafeHead:
    """`number` is the L2 block that the heads are set at otherwise, `highest` that of the synced block.

    No record is used unless it is `usable`. Once `is_done`, `block` is the recorded safe head, None if there is none on
    the chain; the database then ends at it."""

    def __init__(self, number: int, highest: int, *, usable: bool = True) -> None:
        self._number, self._highest = number, highest
        self._candidates: list[SafeHeadEntry] | None = None if usable else []
        self._tip: SafeHeadEntry | None = None
        self.block: L2BlockRef | None = None
        self.is_done = False

    def next(self) -> RecordCall | None:
        """Return the call that is due; None once this is done."""
        if self._candidates is None:
            return FindSafeHeads(self._number)
        if self.is_done:
            return None
        present = self._candidates[0] if self._candidates else None
        if present is not None and self.block is None:
            return GetBlockRef(present.safe_head.number)
        return KeepSafeHeads(present)

    def answer(self, call: object, answer: object) -> None:
        """Take the answer to the call that was due. Raises TemporaryError when it is to be made again."""
        match call, answer:
            case FindSafeHeads(), FoundSafeHeads():
                self._take_found(answer)
            case GetBlockRef(), L2BlockRef() | None:
                self._take_block(answer)
            case KeepSafeHeads(), SafeHeadsWritten():
                self.is_done = True
            case _:
                raise TemporaryError("the answer is not one to this call")

    def lacks_block(self) -> None:
        """Note that the engine has no such block, or not all of it."""
        self._take_block(None)

    def _take_found(self, found: FoundSafeHeads) -> None:
        self._tip = found.last
        entries = (found.last, found.first_from)
        self._candidates = [entry for entry in entries if entry is not None and entry.safe_head.number <= self._highest]
        self.is_done = found.last is None

    def _take_block(self, block: L2BlockRef | None) -> None:
        if not self._candidates:
            return
        present = self._candidates[0]
        if block is None or block.hash != present.safe_head.hash:
            self._candidates.pop(0)
            return
        self.block = block
        self.is_done = present == self._tip
