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
    chain id; `gaps` are blocks that they have to be told of before a derivation is sent the next."""

    def __init__(self, clock: Callable[[], float], before: Mapping[int, Unproven | None]) -> None:
        self.chain = ProvenChain()
        self.catch_ups = {rollup: CatchUp(unproven) for rollup, unproven in before.items()}
        self.on_hidden: Callable[[], None] = lambda: None
        self.on_wanted: Callable[[], None] = lambda: None
        self._clock = clock
        self._hidden_at = clock() if self.unproven else None
        self._lowest: int | None = None
        self.gaps: dict[int, range] = {}

    @property
    def shows_finality(self) -> bool:
        """Whether no block is in use that is not proven."""
        return self._hidden_at is None

    @property
    def unproven(self) -> dict[int, Unproven]:
        """The blocks in use that are not proven, by L2 chain id."""
        return {rollup: one.unproven for rollup, one in self.catch_ups.items() if one.unproven is not None}

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
            gap = self.gaps[derivation] = self.catch_ups[derivation].gap_before(ref.number)
            if gap:
                self.on_wanted()
                return Standing.WAITING
        if result is Standing.FAR:
            if self._hidden_at is None:
                self._hidden_at = self._clock()
                self.on_hidden()
            if self._clock() - self._hidden_at < HIDE_SECONDS:
                return Standing.WAITING
        return result

    def sent(self, ref: L1BlockRef, derivation: int) -> bool:
        """Take a block that a derivation is sent; False if it does not link to what it was sent unproven."""
        is_proven = self.chain.standing(ref.number, ref.hash) is Standing.PROVEN
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
