"""What the interop process says of this chain: denied blocks, the block to go back to, and what is verified.

Nothing of this is stored: another life of the process hears of all of it again, before it makes a call that could move
heads [IV10]."""

from collections import deque

import msgspec

from rollup_node.stages.engine.calls.calls import CoreCall
from rollup_node.stages.engine.calls.engine_api import Denied, NewPayload
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.messages.interop import ChainVerdict, DeniedBlock, Verdicts
from rollup_node.stages.protocol.types import BlockId, Hash

AWAITING_REPLACEMENT = "unsafe blocks wait until derivation has replaced a denied block"
AWAITING_VERDICTS = "waiting for the interop process, which knows the blocks that are denied"


class Verification:
    """The last verdict of one chain, None before the first, and `transition`, the last one that the heads comply with.

    `unchecked` are blocks that were denied while there were heads, and may stand in the chain. Nothing of it is used
    unless `enabled`."""

    def __init__(self, chain_id: int, enabled: bool) -> None:
        self.enabled = enabled
        self.transition = 0
        self.verdict: ChainVerdict | None = None
        self.unchecked: deque[DeniedBlock] = deque()
        self._chain_id, self._activation = chain_id, 0
        self._denied: frozenset[DeniedBlock] = frozenset()
        self._hashes: frozenset[Hash] = frozenset()
        self._highest = -1

    # --- what comes in ---------------------------------------------------------------------------------------------

    def take(self, verdicts: Verdicts) -> bool:
        """Take the state of the interop process; return whether what the chain may stand on has changed."""
        verdict = verdicts.chains.get(self._chain_id)
        if not self.enabled or verdict is None:
            return False
        last, self.verdict, self._activation = self.verdict, verdict, verdicts.activation
        before, self._denied = self._denied, frozenset(verdict.denied)
        self._hashes = frozenset(block.hash for block in verdict.denied)
        self._highest = max((block.number for block in verdict.denied), default=-1)
        wanted = verdict.transition, verdict.go_back
        is_new = verdict.go_back is not None and (last is None or (last.transition, last.go_back) != wanted)
        fresh = self._denied - before
        if is_new:
            # The block that goes may have been denied before, and stand in the chain again.
            fresh |= {block for block in self._denied if block.number == self._below}
        kept = {block for block in self.unchecked if block in self._denied}
        self.unchecked = deque(sorted(kept | fresh, key=lambda block: block.number))
        if not self.goes_back:
            self.transition = verdict.transition
        return bool(fresh) or is_new

    def settle(self) -> None:
        """Note that the heads comply with the last verdict."""
        self.unchecked.clear()
        if self.verdict is not None:
            self.transition = self.verdict.transition

    # --- what follows ----------------------------------------------------------------------------------------------

    @property
    def is_awaited(self) -> bool:
        """Whether nothing is known of the chain yet, so that it has no heads [IV10]."""
        return self.enabled and self.verdict is None

    @property
    def goes_back(self) -> bool:
        """Whether the chain may have to go back."""
        verdict = self.verdict
        is_new = verdict is not None and verdict.go_back is not None and verdict.transition != self.transition
        return is_new or bool(self.unchecked)

    @property
    def limit(self) -> BlockId | None:
        """The block that the heads are at most, whatever stands above it; None without one [RW1].

        A chain with a denied block is limited by that one alone: it may have left it already."""
        verdict = self.verdict
        if verdict is None or verdict.transition == self.transition:
            return None
        return None if any(block.number == self._below for block in self._denied) else verdict.go_back

    @property
    def _below(self) -> int | None:
        """The number of the block that goes, where the chain has to go back."""
        verdict = self.verdict
        return None if verdict is None or verdict.go_back is None else verdict.go_back.number + 1

    def denied_of(self, heads: Heads) -> list[DeniedBlock]:
        """Return the denied blocks that may stand below these heads, the lowest first.

        Those at or below the finalized block are of earlier times, but for the one because of which the chain goes
        back."""
        blocks = (block for block in self._denied if block.number <= heads.unsafe.number)
        current = [block for block in blocks if block.number > heads.finalized.number or block.number == self._below]
        return sorted(current, key=lambda block: block.number)

    def denies(self, block: Hash) -> bool:
        """Return whether a block must not stand in the chain [IV2]."""
        return block in self._hashes

    def denied_at(self, number: int) -> tuple[Hash, ...]:
        """Return the hashes of the denied blocks of a number."""
        return tuple(sorted(block.hash for block in self._denied if block.number == number))

    def denies_above(self, number: int) -> bool:
        """Return whether a block above a number is denied."""
        return self._highest > number

    def is_active(self, timestamp: int) -> bool:
        """Return whether blocks of that time are safe only once they are verified."""
        return self.enabled and timestamp >= self._activation

    # --- labels ----------------------------------------------------------------------------------------------------

    def with_labels(self, heads: Heads) -> Heads:
        """Return the heads of a start with the label of the safe block: nothing above it is known to be verified."""
        if not self.enabled:
            return heads
        verified = None if self.verdict is None else self.verdict.verified
        is_safe = not self.is_active(heads.safe.timestamp) or heads.safe.id == verified
        return msgspec.structs.replace(heads, cross_safe=heads.safe if is_safe else heads.finalized)

    def next_label(self, heads: Heads) -> BlockId | None:
        """Return the block that becomes safe or final if it is in the chain of these heads [LB3, LB4]."""
        verdict = self.verdict
        if verdict is None:
            return None
        verified, final = verdict.verified, verdict.final
        if verified is not None and heads.verified_safe.number < verified.number <= heads.safe.number:
            return verified
        if final is not None and heads.finalized.number < final.number <= heads.verified_safe.number:
            return final
        return None

    # --- insertions ------------------------------------------------------------------------------------------------

    def answer_for(self, call: CoreCall) -> Denied | None:
        """Return what takes the place of the engine's answer to the insertion of a denied block [IV5]."""
        if isinstance(call, NewPayload) and self.denies(call.payload.block_hash):
            return Denied(call.payload.block_number)
        return None
