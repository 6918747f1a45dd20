"""Which L1 blocks may be used, and whether finality may be shown, where heads are proven [LCP14 to LCP18]."""

from collections.abc import Callable

from rollup_node.stages.l1.catch_up import CatchUp, Unproven
from rollup_node.stages.l1.proven_chain import REACH, ProvenChain, Standing
from rollup_node.stages.protocol.types import Hash, L1BlockRef

HIDE_SECONDS = 3.0
"""Finality is hidden for so long before an unproven block is used, so that every process sees that [FIN9]."""


class Proof:
    """The proven chain, and what was used of another one. `clock` is monotonic, `on_hidden` called as finality is.

    `on_wanted` is called when links are wanted that are not known.
    With `keeps` no unproven block is used before `kept`, what is recorded of them, has it."""

    def __init__(self, clock: Callable[[], float], before: Unproven | None = None, keeps: bool = False) -> None:
        self.chain, self.catch_up = ProvenChain(), CatchUp(before)
        self.on_hidden: Callable[[], None] = lambda: None
        self.on_wanted: Callable[[], None] = lambda: None
        self._clock = clock
        self._hidden_at = None if before is None else clock()
        self._lowest: int | None = None
        self._next: L1BlockRef | None = None
        self.kept, self._keeps = before, keeps
        self._announced: Unproven | None = None

    @property
    def shows_finality(self) -> bool:
        """Whether no block is in use that is not proven."""
        return self._hidden_at is None

    @property
    def gap(self) -> range:
        """The blocks that `catch_up` has to be told of before derivation is sent the next."""
        return range(0) if self._next is None else self.catch_up.gap_below(self._next)

    def to_keep(self) -> Unproven | None:
        """Return what has to be recorded: what is in use unproven, and what is about to be."""
        used, announced = self.catch_up.unproven, self._announced
        is_more = announced is not None and (used is None or announced.first < used.first)
        return announced if is_more else self.catch_up.record()

    def missing(self) -> range:
        """Return the numbers of the blocks that the links need next."""
        return range(0) if self._lowest is None else self.chain.missing(self._lowest)

    def standing(self, number: int, block_hash: Hash) -> Standing:
        """Return what a block is worth; if the links do not reach down to it yet, they will."""
        result = self.chain.standing(number, block_hash)
        if result is Standing.WAITING and (self._lowest is None or number < self._lowest):
            self._lowest = number
            self.on_wanted()
        return result

    def admits(self, ref: L1BlockRef, to_derivation: bool) -> Standing:
        """As `standing`, of a block that a client is to be sent; WAITING also for one that waits for HIDE_SECONDS."""
        result = self.standing(ref.number, ref.hash)
        if to_derivation and result in (Standing.PROVEN, Standing.FAR):
            if self.catch_up.awaits(ref.number):
                return Standing.WAITING
            self._next = ref
            if self.gap:
                self.on_wanted()
                return Standing.WAITING
        if result is Standing.FAR:
            if self._hidden_at is None:
                self._hidden_at = self._clock()
                self.on_hidden()
            if self._clock() - self._hidden_at < HIDE_SECONDS or not self._is_kept(ref):
                return Standing.WAITING
        return result

    def _is_kept(self, ref: L1BlockRef) -> bool:
        """Whether it is recorded that blocks are used unproven from this one on, or before; if not, it will be."""
        if not self._keeps or (self.kept is not None and self.kept.first <= ref.number):
            return True
        used = self.catch_up.record()
        last, value, marks = (ref.number, ref.hash, ()) if used is None else (used.last, used.hash, used.marks)
        self._announced = Unproven(ref.number, last, value, marks)
        self.on_wanted()
        return False

    def sent(self, ref: L1BlockRef) -> bool:
        """Take a block that derivation is sent; False if it does not link to what it was sent unproven."""
        is_proven = self.chain.standing(ref.number, ref.hash) is Standing.PROVEN
        self._next = self._announced = None
        links = self.catch_up.sent(ref, is_proven)
        if is_proven and self.catch_up.unproven is None:
            self._hidden_at = None
        return links

    def problem(self) -> str | None:
        """Why finality is hidden; None if it is not."""
        unproven, head = self.catch_up.unproven, self.chain.head
        if self.catch_up.doubt is not None:
            return (
                f"{self.catch_up.doubt}: L2 is not finalized until derivation is reset to a block below the difference"
            )
        if unproven is None or head is None:
            return None
        return (
            f"L1 blocks {unproven.first} to {unproven.last} are used unproven until they link to"
            f" block {max(head.number - REACH, 0)}, below the proven head {head.number}: L2 is not finalized meanwhile"
        )
