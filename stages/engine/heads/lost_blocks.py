"""Puts the latest blocks of this node back into an execution engine that lost them [SEQ39 to SEQ43].

That comes before the sequencer builds others. Times are monotonic seconds.

| phase    | event                                             | next phase                                        |
|----------|---------------------------------------------------|---------------------------------------------------|
| DONE     | a start is confirmed, or the head is replaced     | ASKING                                            |
| ASKING   | each second                                       | the p2p process is asked for blocks above the head|
|          | there are none                                    | DONE                                              |
|          | the lowest of them                                | CHECKING                                          |
| CHECKING | their L1 origins are canonical, or not visible    | READY                                             |
|          | one is another L1 block                           | READY with those below, DONE without any          |
| READY    | no block of another chain waits, or 10 s          | QUEUED: they are in the unsafe queue              |
| QUEUED   | the head is the last of them, or of another chain | ASKING                                            |
|          | the engine calls one of them invalid              | DONE                                              |
| ASKING,  | 20 s without a move of the head                   | DONE                                              |
| QUEUED   |                                                   |                                                   |
| any      | reset                                             | DONE                                              |
"""

from enum import Enum

from rollup_node.stages.engine.calls.calls import GetL1BlockRef
from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef, L2BlockRef

ASK_SECONDS = 1.0
PATIENCE_SECONDS = 20.0
"""How long the head may stand still while blocks are missing [SEQ42]."""
OTHERS_SECONDS = 10.0
"""How long peers have to fill the gap below a block of another sequencer [SEQ41]."""

NO_ANSWER = "the p2p process does not say which blocks this node has signed"


class LostBlocksPhase(Enum):
    """How far the present blocks are."""

    DONE = "done"
    ASKING = "asking"
    CHECKING = "checking"
    READY = "ready"
    QUEUED = "queued"


class LostBlocks:
    """The blocks that the engine lost, and how far putting them back is.

    `head` is the unsafe head; `queued` are the blocks that were last put into the unsafe queue, and `count` is how
    many were since the start. `reason` says why not all come back, None while nothing is known against it."""

    def __init__(self, rollup: RollupConfig, enabled: bool) -> None:
        self._rollup, self._enabled = rollup, enabled
        self.phase = LostBlocksPhase.DONE
        self.head: BlockId | None = None
        self.queued: list[L2BlockRef] = []
        self.reason: str | None = None
        self.count = 0
        self.deadline = self.ask_at = 0.0
        self._blocks: list[tuple[ExecutionPayload, L2BlockRef]] = []
        self._canonical: set[int] = set()

    @property
    def pending(self) -> bool:
        """Whether blocks may have to be put back, so that none may be built."""
        return self.phase is not LostBlocksPhase.DONE

    def begin(self, head: BlockId, now: float) -> None:
        """Note that a start is confirmed, with this unsafe head."""
        self.clear()
        if self._enabled:
            self._ask(head, now)

    def clear(self) -> None:
        """There are no heads."""
        self.phase, self.head, self.reason = LostBlocksPhase.DONE, None, None
        self.queued, self._blocks, self.count = [], [], 0

    def on_head(self, head: BlockId, now: float) -> None:
        """Note that the unsafe head may have moved.

        While blocks are missing, ask for the next ones, unless queued ones follow it. When derivation has replaced it,
        begin again: the blocks of the chain that it comes back to may be missing too."""
        if head == self.head or self.head is None:
            return
        if self.phase is LostBlocksPhase.QUEUED and self._is_on_the_way(head):
            self.head, self.deadline = head, now + PATIENCE_SECONDS
        elif self.pending:
            self._ask(head, now)
        elif head.number <= self.head.number:
            self.begin(head, now)
        else:
            self.head = head

    def _is_on_the_way(self, head: BlockId) -> bool:
        return head.number < self.queued[0].number - 1 or any(item.parent_hash == head.hash for item in self.queued)

    def refused(self, block_hash: Hash, reason: str) -> None:
        """Note that the engine calls a block invalid."""
        number = next((item.number for item in self.queued if item.hash == block_hash), None)
        if number is not None and self.pending:
            self._end(f"the execution engine refuses block {number}: {reason}")

    def _ask(self, head: BlockId, now: float) -> None:
        self.phase, self.head = LostBlocksPhase.ASKING, head
        self.deadline, self.ask_at = now + PATIENCE_SECONDS, now
        self._blocks = []

    def _end(self, reason: str | None) -> None:
        self.phase, self.reason, self._blocks = LostBlocksPhase.DONE, reason, []

    def question(self, now: float) -> BlockId | None:
        """Return the head above which the latest blocks are to be asked for now; None if it is not time for that."""
        if self.phase is not LostBlocksPhase.ASKING or now < self.ask_at:
            return None
        self.ask_at = now + ASK_SECONDS
        return self.head

    def answer(self, head: BlockId, blocks: tuple[ExecutionPayload, ...]) -> None:
        """Take the latest blocks above that head, in order; ignored for another head than the current one."""
        if self.phase is not LostBlocksPhase.ASKING or head != self.head:
            return
        if not blocks:
            self._end(self.reason)
            return
        self._blocks, self._canonical = [], set()
        for payload in blocks:
            try:
                self._blocks.append((payload, l2_ref_of_payload(self._rollup, payload)))
            except BlockError:
                break
        self._check()

    def origin_call(self) -> GetL1BlockRef | None:
        """Return the call for the next L1 block that is the origin of some of the blocks."""
        if self.phase is not LostBlocksPhase.CHECKING:
            return None
        number = next(ref.l1_origin.number for _, ref in self._blocks if ref.l1_origin.number not in self._canonical)
        return GetL1BlockRef(number, fresh=not self._canonical)

    def add_origin(self, number: int, block: L1BlockRef | None) -> None:
        """Take a canonical L1 block; blocks from the first with another origin on are not put back [SEQ40]."""
        if self.phase is not LostBlocksPhase.CHECKING:
            return
        self._canonical.add(number)
        for index, (_, ref) in enumerate(self._blocks):
            if block is not None and ref.l1_origin.number == number and ref.l1_origin.hash != block.hash:
                self.reason = f"the L1 origin {ref.l1_origin} of block {ref.number} was replaced by {block.id}"
                del self._blocks[index:]
                break
        self._check()

    def _check(self) -> None:
        if not self._blocks:
            self._end(self.reason or "the latest blocks cannot be read")
        elif all(ref.l1_origin.number in self._canonical for _, ref in self._blocks):
            self.phase = LostBlocksPhase.READY
        else:
            self.phase = LostBlocksPhase.CHECKING

    def release(self, lowest: ExecutionPayload | None, now: float) -> list[ExecutionPayload]:
        """Return the blocks to queue now, unless peers have time to fill a gap below another chain [SEQ41]."""
        if self.phase is not LostBlocksPhase.READY:
            return []
        others_until = self.deadline - PATIENCE_SECONDS + OTHERS_SECONDS
        if lowest is not None and now < others_until and not self._belongs(lowest):
            return []
        released, self.queued = [payload for payload, _ in self._blocks], [ref for _, ref in self._blocks]
        self.count += len(released)
        self.phase, self._blocks, self.deadline = LostBlocksPhase.QUEUED, [], now + PATIENCE_SECONDS
        return released

    def _belongs(self, other: ExecutionPayload) -> bool:
        """Return whether a queued block is known to be of the same chain."""
        known = {ref.number: ref.hash for _, ref in self._blocks}
        if other.block_number in known:
            return known[other.block_number] == other.block_hash
        return known.get(other.block_number - 1) == other.parent_hash or other.block_number < min(known)

    def expire(self, works: bool, now: float) -> None:
        """Give up if the head has not moved for long; `works`: the next block only waits for the engine."""
        if self.phase not in (LostBlocksPhase.ASKING, LostBlocksPhase.QUEUED):
            return
        if works:
            self.deadline = now + PATIENCE_SECONDS
        elif now >= self.deadline:
            asking = self.phase is LostBlocksPhase.ASKING
            self._end(NO_ANSWER if asking else "the blocks below them are neither on L1 nor at peers")

    def wait_until(self) -> float | None:
        """Return when something becomes due by time alone; None while nothing does."""
        if self.phase is LostBlocksPhase.ASKING:
            return min(self.ask_at, self.deadline)
        if self.phase is LostBlocksPhase.READY:
            return self.deadline - PATIENCE_SECONDS + OTHERS_SECONDS
        return self.deadline if self.phase is LostBlocksPhase.QUEUED else None
