"""Which L1 blocks may be used, and whether finality may be shown, where heads are proven [LCP14 to LCP18]."""

from collections.abc import Callable, Mapping

from rollup_node.stages.l1.catch_up import CatchUp, Unproven
from rollup_node.stages.l1.proven_chain import REACH, ProvenChain, Standing
from rollup_node.stages.protocol.types import Hash, L1BlockRef

HIDE_SECONDS = 3.0
"""Finality is hidden for so long before an unproven block is used, so that every process sees that [FIN9]."""


class Proof:
    """The proven chain, and what was used of another one. `clock` is monotonic, `on_hidden` called as finality is.

    `on_wanted` is called when links are wanted that are not known. `catch_ups` are those of the derivations, by L2
    chain id. With `keeps` no unproven block is used before `kept`, what is recorded of them, has it."""

    def __init__(self, clock: Callable[[], float], before: Mapping[int, Unproven | None], keeps: bool = False) -> None:
        self.chain = ProvenChain()
        self.catch_ups = {rollup: CatchUp(unproven) for rollup, unproven in before.items()}
        self.on_hidden: Callable[[], None] = lambda: None
        self.on_wanted: Callable[[], None] = lambda: None
        self._clock = clock
        self._hidden_at = clock() if self.unproven else None
        self._lowest: int | None = None
        self._next: dict[int, L1BlockRef] = {}
        self.kept, self._keeps = self.unproven, keeps
        self._announced: dict[int, Unproven] = {}

    @property
    def shows_finality(self) -> bool:
        """Whether no block is in use that is not proven."""
        return self._hidden_at is None

    @property
    def unproven(self) -> dict[int, Unproven]:
        """The blocks in use that are not proven, by L2 chain id."""
        return {rollup: one.unproven for rollup, one in self.catch_ups.items() if one.unproven is not None}

    @property
    def gaps(self) -> dict[int, range]:
        """The blocks that catch-ups have to be told of before their derivations are sent the next."""
        gaps = {rollup: self.catch_ups[rollup].gap_below(ref) for rollup, ref in self._next.items()}
        return {rollup: gap for rollup, gap in gaps.items() if gap}

    def to_keep(self) -> dict[int, Unproven]:
        """Return what has to be recorded: what is in use unproven, and what is about to be."""
        records = {rollup: catch_up.record() for rollup, catch_up in self.catch_ups.items()}
        used = {rollup: record for rollup, record in records.items() if record is not None}
        more = {r: one for r, one in self._announced.items() if r not in used or one.first < used[r].first}
        return used | more

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

    def admits(self, ref: L1BlockRef, derivation: int | None) -> Standing:
        """As `standing`, of a block that a client is to be sent; WAITING also for one that waits for HIDE_SECONDS.

        `derivation` is the L2 chain id of that client, None for another client."""
        result = self.standing(ref.number, ref.hash)
        if derivation is not None and result in (Standing.PROVEN, Standing.FAR):
            if self.catch_ups[derivation].awaits(ref.number):
                return Standing.WAITING
            self._next[derivation] = ref
            if self.catch_ups[derivation].gap_below(ref):
                self.on_wanted()
                return Standing.WAITING
        if result is Standing.FAR:
            if self._hidden_at is None:
                self._hidden_at = self._clock()
                self.on_hidden()
            if self._clock() - self._hidden_at < HIDE_SECONDS or not self._is_kept(ref, derivation):
                return Standing.WAITING
        return result

    def _is_kept(self, ref: L1BlockRef, derivation: int | None) -> bool:
        """Whether it is recorded that a derivation uses unproven blocks from this one on, or before; or it will be."""
        if derivation is None or not self._keeps:
            return True
        if (kept := self.kept.get(derivation)) is not None and kept.first <= ref.number:
            return True
        used = self.catch_ups[derivation].record()
        last, value, marks = (
            (ref.number, ref.hash, ())
            if used is None
            else (used.last, used.hash, ((ref.number, ref.hash), *used.marks))
        )
        self._announced[derivation] = Unproven(ref.number, last, value, marks)
        self.on_wanted()
        return False

    def sent(self, ref: L1BlockRef, derivation: int) -> bool:
        """Take a block that a derivation is sent; False if it does not link to what it was sent unproven."""
        is_proven = self.chain.standing(ref.number, ref.hash) is Standing.PROVEN
        self._next.pop(derivation, None)
        self._announced.pop(derivation, None)
        links = self.catch_ups[derivation].sent(ref, is_proven)
        if is_proven and not self.unproven:
            self._hidden_at = None
        return links

    def problems(self) -> list[str]:
        """Why finality is hidden, for each chain that hides it."""
        reasons = (self._problem(catch_up) for catch_up in self.catch_ups.values())
        return [reason for reason in reasons if reason is not None]

    def _problem(self, catch_up: CatchUp) -> str | None:
        unproven, head = catch_up.unproven, self.chain.head
        if catch_up.doubt is not None:
            return f"{catch_up.doubt}: L2 is not finalized until derivation is reset to a block below the difference"
        if unproven is None or head is None:
            return None
        return (
            f"L1 blocks {unproven.first} to {unproven.last} are used unproven until they link to"
            f" block {max(head.number - REACH, 0)}, below the proven head {head.number}: L2 is not finalized meanwhile"
        )
