"""Which L1 blocks may be used, and whether finality may be shown, where heads are proven [LCP14 to LCP18].

ProvenChain has the links of blocks to a proven head, CatchUp what a derivation used before its links were known."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto

import msgspec

from rollup_node.stages.protocol.types import Hash, L1BlockRef

REACH = 8192
"""So many blocks below the head, a day and more, are linked to it before any of them is used."""

BATCH = 128
"""References that one step downwards asks for."""

MARKS = 256
"""So many of the last REACH blocks are recorded at most."""

HIDE_SECONDS = 3.0
"""Finality is hidden for so long before an unproven block is used, so that every process sees that [FIN9]."""

WAITING_SECONDS = 15.0
"""A derivation that is not offered its next block for so long does not wait for it any more: it is every 5 s."""


class Standing(Enum):
    """What a block is worth."""

    PROVEN = auto()
    """It is an ancestor of the proven head, or the head."""
    FORGED = auto()
    """Another block is, at its height."""
    REPLACED = auto()
    """The same, but it was itself on the chain of an earlier head: L1 was reorganised."""
    WAITING = auto()
    """The links do not reach down to it yet."""
    FAR = auto()
    """It is more than REACH below the head: used unproven, until the links reach down to the blocks above it."""
    BEYOND = auto()
    """It is above the head, or there is none."""


class ProvenChain:
    """Hashes of consecutive blocks up to the proven head, of which the lowest is known as a parent alone."""

    def __init__(self) -> None:
        self.head: L1BlockRef | None = None
        self._hashes: dict[int, Hash] = {}
        self._low = 0
        self._before: dict[int, Hash] = {}
        self._replaced: dict[int, Hash] = {}

    def __len__(self) -> int:
        return len(self._hashes) + len(self._before)

    def advance(self, head: L1BlockRef) -> None:
        """Take a proven head. Without a link to the one before, steps downwards have to find it."""
        number = head.number
        if self._hashes.get(number - 1) == head.parent_hash:
            for item in [item for item in self._hashes if item >= number]:
                self._replaced[item] = self._hashes.pop(item)
        else:
            # Both cannot be kept together: they need not be of one branch.
            self._replaced |= self._hashes if self._before else {}
            self._before = self._before or self._hashes
            self._hashes, self._low = {number - 1: head.parent_hash}, number - 1
        self._hashes[number] = head.hash
        self.head = head
        while self._low < number - REACH:
            del self._hashes[self._low]
            self._low += 1
        if self._before and max(self._before) <= number - REACH:
            self._before = {}
        self._replaced = {item: value for item, value in self._replaced.items() if item > number - REACH}

    def missing(self, lowest: int) -> range:
        """Return the numbers of the next step down to a block, and to what was known before; empty if there is none."""
        if self.head is None:
            return range(0)
        goal = max(lowest, self.head.number - REACH, 0)
        if self._before:
            goal = min(max(self._before), self._low - 8)
        first = max(goal + 1, self._low - BATCH + 1, 0)
        return range(first, self._low + 1)

    def extend(self, refs: Sequence[L1BlockRef]) -> bool:
        """Take blocks in ascending order up to the lowest known hash; False if they do not link to it."""
        for ref in reversed(refs):
            if ref.number != self._low or ref.hash != self._hashes[self._low]:
                return False
            self._low -= 1
            self._hashes[self._low] = ref.parent_hash
            if self._join():
                return True
        return True

    def standing(self, number: int, block_hash: Hash) -> Standing:
        """Return what a block is worth."""
        if self.head is None or number > self.head.number:
            return Standing.BEYOND
        known = self._hashes.get(number)
        if known == block_hash:
            return Standing.PROVEN
        if known is not None:
            return Standing.REPLACED if self._replaced.get(number) == block_hash else Standing.FORGED
        return Standing.WAITING if number >= self.head.number - REACH else Standing.FAR

    def _join(self) -> bool:
        """Take over what was known before once the links reach it; whether they do. Forget it once they are below."""
        if self._before and self._before.get(self._low) == self._hashes[self._low]:
            lower = {number: value for number, value in self._before.items() if number < self._low}
            self._replaced |= {number: value for number, value in self._before.items() if number > self._low}
            self._hashes |= lower
            self._low = min(lower, default=self._low)
            self._before = {}
            return True
        if self._before and self._low <= min(self._before):
            self._replaced |= self._before
            self._before = {}
        return False


class Unproven(msgspec.Struct, frozen=True):
    """The blocks from `first` on were used unproven, until now up to `last` with its hash; `marks` are some before."""

    first: int
    last: int
    hash: Hash
    marks: tuple[tuple[int, Hash], ...] = ()


class CatchUp:
    """What derivation was sent of a chain that is not linked to a proven head yet.

    What was derived by an unproven block stays over resets and restarts, so nothing counts as proven until the blocks
    from the first unproven to a proven one are a chain. `doubt` says why they are none: then it takes a reset to a
    block that links to those before. `before` is what a former process recorded: whether derivation has gone on from
    there is known when it has accepted a block that links to a recorded one."""

    def __init__(self, before: Unproven | None = None) -> None:
        self.unproven = before
        self.doubt: str | None = None
        self._recent: dict[int, Hash] = {} if before is None else {**dict(before.marks), before.last: before.hash}
        self._is_known = before is None
        """Whether derivation's blocks are those in `_recent`."""
        self._candidate: L1BlockRef | None = None
        """The block by which they are, if derivation accepts it."""
        self._void: int | None = None
        """Blocks above this one say nothing: derivation will not accept it, or it does not link to any recorded."""
        self._below: dict[int, Hash] = {}
        """From the highest of the gap downwards, in this order."""
        self._taken: Hash | None = None
        """What derivation had taken last by its last request."""

    def record(self) -> Unproven | None:
        """Return what is unproven, with some of the blocks before the last, so that a later process can link to it."""
        every = max(1, REACH // MARKS)
        lowest = min(self._recent, default=0)
        marks = tuple(item for item in sorted(self._recent.items()) if item[0] % every == 0 or item[0] == lowest)
        return None if self.unproven is None else msgspec.structs.replace(self.unproven, marks=marks)

    def sent(self, ref: L1BlockRef, is_proven: bool) -> bool:
        """Take a block that derivation is sent; False if it does not link to those it was sent before."""
        number, unproven = ref.number, self.unproven
        if unproven is None or number <= unproven.first:
            self._recent, self.doubt, self.unproven = {}, None, None
            self._is_known, self._candidate, self._void = True, None, None
            if not is_proven:
                self._record(ref, number)
            return True
        if self._void is not None and number > self._void:
            return True
        before = self._recent.get(number - 1, self._below.get(number - 1) if self._is_filled else None)
        same = self._recent.get(number)
        if ref.hash == same or ref.parent_hash == before:
            if not self._is_known:
                self._candidate = ref
                return True
            self.doubt = None
            if is_proven:
                self._recent, self.unproven = {}, None
            elif ref.hash != same:
                self._record(ref, unproven.first)
            return True
        if not self._is_known and number <= min(self._recent):
            return True
        if not self._is_known or number <= unproven.last:
            self.doubt = f"L1 blocks {unproven.first} to {number - 1} are not on the chain of {ref}"
        self._void = number
        return not self._is_known

    def awaits(self, number: int) -> bool:
        """Whether derivation must not be sent a block yet: it has to accept another one before."""
        return self._candidate is not None and number > self._candidate.number

    def requested(self, first: int, taken: Hash | None) -> None:
        """Take a request of derivation, and the block that it has taken last."""
        if self._void is not None and first <= self._void:
            self._void = None
        unproven, candidate = self.unproven, self._candidate
        was_reset, self._taken = taken is None and self._taken is not None, taken
        if unproven is None:
            return
        is_taken = candidate is not None and taken == candidate.hash
        # A reset leads to below it, or past it, so that derivation never takes it.
        is_left = candidate is not None and not candidate.number <= first <= candidate.number + (not was_reset)
        if candidate is not None and (is_taken or is_left):
            self._candidate = None
            if is_taken:
                top, below = candidate.number, self._below if self._is_filled else {}
                self._recent = {item: value for item, value in self._recent.items() if item < top}
                # What derivation was sent before stays, also further below: it may be reset to there.
                self._recent |= {item: value for item, value in below.items() if item > top - REACH}
                self._record(candidate, unproven.first)
                self._is_known, self.doubt = True, None
            self._below = {}
        elif self._is_known and candidate is None and first > unproven.first and first - 1 not in self._recent:
            self._is_known = False

    @property
    def _is_filled(self) -> bool:
        """Whether the links below the next block lead to a recorded one."""
        low = next(reversed(self._below), -1)
        return low >= 0 and self._recent.get(low) == self._below[low]

    def gap_below(self, ref: L1BlockRef) -> range:
        """Return the blocks whose links are wanted before derivation is sent a block: down to the next recorded one.

        A former process sent them and did not record them, or derivation was reset to between two recorded ones."""
        number, recent = ref.number, self._recent
        if self._is_known or self._void is not None or self.unproven is None or number <= min(recent):
            return range(0)
        if number in recent or number - 1 in recent:
            return range(0)
        if self._below.get(number - 1) != ref.parent_hash or next(iter(self._below)) != number - 1:
            self._below = {number - 1: ref.parent_hash}
        low = next(reversed(self._below))
        return range(0) if self._is_filled else range(max(min(recent) + 1, low - BATCH + 1), low + 1)

    def fill(self, refs: Sequence[L1BlockRef]) -> bool:
        """Take the blocks of the gap, as an endpoint has them; False if they are not the ones below that block."""
        for ref in reversed(refs):
            low = next(reversed(self._below))
            if ref.number != low or ref.hash != self._below[low]:
                return False
            self._below[low - 1] = ref.parent_hash
            if self._is_filled:
                return True
        return True

    def _record(self, ref: L1BlockRef, first: int) -> None:
        if self.unproven is not None and self.unproven.last >= ref.number:
            self._recent = {number: value for number, value in self._recent.items() if number < ref.number}
        self._recent[ref.number] = ref.hash
        self._recent.pop(ref.number - REACH, None)
        self.unproven = Unproven(first, ref.number, ref.hash)


class Proof:
    """The proven chain, and what was used of another one. `clock` is monotonic, `on_hidden` called as finality is.

    `on_wanted` is called when links are wanted that are not known. `catch_ups` are those of the derivations, by L2
    chain id; without any nothing is hidden. With `keeps` no unproven block is used before `kept`, what is recorded of
    them, has it."""

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
        self._waiting: dict[int | None, float] = {}
        """When clients were last offered an unproven block that had to wait; by derivation, as in `admits`."""

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
        if result is Standing.FAR and self.catch_ups:
            if self._hidden_at is None:
                self._hidden_at = self._clock()
                self.on_hidden()
            if self._clock() - self._hidden_at < HIDE_SECONDS or not self._is_kept(ref, derivation):
                self._waiting[derivation] = self._clock()
                return Standing.WAITING
            self._waiting.pop(derivation, None)
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
        self._waiting.pop(derivation, None)
        links = self.catch_ups[derivation].sent(ref, is_proven)
        # A chain that is sent proven blocks all the time would hold up one that waits for an unproven block.
        is_awaited = any(self._clock() - since < WAITING_SECONDS for since in self._waiting.values())
        if is_proven and not self.unproven and not is_awaited:
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
