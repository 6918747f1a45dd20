"""Which L1 blocks to fetch next, and which are at hand: a pure planner over a cache by number with hash links.

Blocks next to each other in the cache link by parent hash. A newcomer that does not link shows a reorg: the blocks it
contradicts go, those below become *suspects*, which are not served until a block above them that is trusted names the
highest of them as its parent; so a reorg of three costs three fetches, however much is cached. A fetch that
was begun before the last reorg brings suspects only.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from rollup_node.stages.protocol.types import L1Block, L1BlockRef

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 10.0
QUARREL_SECONDS = 5.0


class Range(NamedTuple):
    """Numbers `first` to `last` that a client wants, now or soon; `first` is what it waits for."""

    first: int
    last: int


class Fetch(NamedTuple):
    """A block to fetch; `generation` is given back with the result."""

    number: int
    generation: int


class _Held(NamedTuple):
    block: L1Block
    size: int

    @property
    def hash(self) -> bytes:
        return self.block.header.hash

    @property
    def parent(self) -> bytes:
        return self.block.header.parent_hash


class _Failure(NamedTuple):
    problem: str | None
    times: int
    retry_at: float


class Window:
    """The cache and the plan of one l1 process. Times are seconds of any steady clock, sizes are bytes."""

    def __init__(self, max_blocks: int, max_bytes: int) -> None:
        self._max_blocks = max(max_blocks, 1)
        self._max_bytes = max_bytes
        self._blocks: dict[int, _Held] = {}
        self._suspects: dict[int, _Held] = {}
        self._failures: dict[int, _Failure] = {}
        self._fetching: dict[int, int] = {}
        self._generation = 0
        self._quarrels = 0
        self._last_quarrel = float("-inf")
        self._calm_at = float("-inf")
        self.bytes = 0
        self.reorgs = 0

    def __len__(self) -> int:
        return len(self._blocks) + len(self._suspects)

    def get(self, number: int) -> L1Block | None:
        """The canonical block of that number, if it is at hand."""
        held = self._blocks.get(number)
        return held.block if held else None

    def failure(self, number: int) -> tuple[str | None] | None:
        """The problem of the last fetch of a block that is not at hand: None in it says that there is no such block;
        None when none has failed."""
        failure = self._failures.get(number)
        return (failure.problem,) if failure else None

    # --- what to do next -----------------------------------------------------------------------------------------

    def plan(self, ranges: Sequence[Range], room: int, now: float) -> list[Fetch]:
        """At most `room` fetches to begin, the most urgent first. Fetching ahead stops where the cache would be
        more than half filled by it; what a client waits for is always fetched."""
        self._forget_failures(ranges)
        if now < self._calm_at:
            return []
        fetches: list[Fetch] = []
        ahead = self._ahead(ranges)
        for offset, number in _by_urgency(ranges):
            if len(fetches) >= room:
                break
            if offset and (ahead[0] >= self._max_blocks or ahead[1] * 2 >= self._max_bytes):
                break
            if self._is_due(number, now) and (not offset or not self._is_answered_by_next(number, ranges)):
                self._fetching[number] = self._generation
                fetches.append(Fetch(number, self._generation))
        return fetches

    def next_retry(self, now: float) -> float | None:
        """Seconds until a failed fetch is due again."""
        waiting = [failure.retry_at - now for failure in self._failures.values()]
        if self._calm_at > now:
            waiting = [self._calm_at - now]
        return max(0.0, min(waiting)) if waiting else None

    def _is_due(self, number: int, now: float) -> bool:
        if number in self._fetching or number in self._blocks:
            return False
        failure = self._failures.get(number)
        return failure is None or failure.retry_at <= now

    def _is_answered_by_next(self, number: int, ranges: Sequence[Range]) -> bool:
        """Of a run of suspects only the highest wanted one is fetched: it clears the others, or drops the next."""
        return number in self._suspects and number + 1 in self._suspects and _offset(number + 1, ranges) is not None

    def _ahead(self, ranges: Sequence[Range]) -> tuple[int, int]:
        """Blocks and bytes at hand or on their way that some client will want after the one it waits for."""
        count = size = 0
        for number, held in self._blocks.items():
            if any(wanted.first < number <= wanted.last for wanted in ranges):
                count += 1
                size += held.size
        return count + len(self._fetching), size

    def _forget_failures(self, ranges: Sequence[Range]) -> None:
        """Nobody waits for a failure outside of the ranges."""
        for number in [n for n in self._failures if not any(r.first <= n <= r.last for r in ranges)]:
            del self._failures[number]

    # --- what happened -------------------------------------------------------------------------------------------

    def arrived(self, fetch: Fetch, block: L1Block, size: int, now: float) -> bool:
        """Takes a fetched block of `fetch.number`; True when it contradicts what was at hand (a reorg). Endpoints
        that go on contradicting each other are asked less and less often."""
        if self._fetching.pop(fetch.number, None) is None:
            return False
        self._failures.pop(fetch.number, None)
        held = _Held(block, size)
        if fetch.generation != self._generation:
            if fetch.number not in self._blocks:
                self._put(self._suspects, fetch.number, held)
                if fetch.number + 1 in self._blocks:
                    self._clear_suspects_below(fetch.number + 1)
            return False
        conflict = self._trust(fetch.number, held)
        if conflict:
            self._quarrels = self._quarrels + 1 if now - self._last_quarrel < QUARREL_SECONDS else 1
            self._last_quarrel = now
            if self._quarrels > 2:
                self._calm_at = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._quarrels - 2, 10))
        return conflict

    def failed(self, fetch: Fetch, problem: str | None, now: float) -> None:
        """Notes a failed fetch; it is due again after a pause that doubles. No `problem`: the block is not there."""
        if self._fetching.pop(fetch.number, None) is None:
            return
        before = self._failures.get(fetch.number)
        times = before.times + 1 if before else 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(times - 1, 10))
        self._failures[fetch.number] = _Failure(problem, times, now + pause)

    def saw_head(self, head: L1BlockRef, reorged: bool, finalized: int) -> bool:
        """Takes a new head; True when it contradicts what was at hand. `reorged` says that it does not stand on the
        head before, which makes all above `finalized` suspect unless the head links to it."""
        for number in [number for number, failure in self._failures.items() if failure.problem is None]:
            del self._failures[number]
        if reorged:
            self._generation += 1
        beyond = [number for number in (*self._blocks, *self._suspects) if number > head.number]
        for number in beyond:
            self._drop(number)
        same, parent = self._blocks.get(head.number), self._blocks.get(head.number - 1)
        if same is not None and same.hash == head.hash:
            return False
        if same is not None:
            self._drop(head.number)
            self._generation += 1
        if parent is not None and parent.hash == head.parent_hash:
            return same is not None
        if parent is not None:
            self._drop(head.number - 1)
        if same is None and parent is None and not reorged:
            return False
        return self._suspect(number for number in self._blocks if number > finalized) or same is not None

    def trim(self, ranges: Sequence[Range]) -> None:
        """Drops blocks when the cache is beyond its bounds, an eighth of it at once: suspects first, then what lies
        behind all ranges, then what is farthest ahead; never what a client waits for."""
        if len(self) <= self._max_blocks and self.bytes <= self._max_bytes:
            return
        blocks, size = self._max_blocks - self._max_blocks // 8, self._max_bytes - self._max_bytes // 8
        for number in self._expendable(ranges):
            if len(self) <= blocks and self.bytes <= size:
                return
            self._drop(number)

    def _expendable(self, ranges: Sequence[Range]) -> Iterator[int]:
        yield from sorted(self._suspects)
        firsts = {wanted.first for wanted in ranges}
        offsets = {number: _offset(number, ranges) for number in self._blocks if number not in firsts}
        yield from sorted(number for number, offset in offsets.items() if offset is None)
        ahead = [(offset, number) for number, offset in offsets.items() if offset is not None]
        yield from (number for _, number in sorted(ahead, reverse=True))

    def _trust(self, number: int, held: _Held) -> bool:
        """Puts a block among the trusted ones and everything that contradicts it away."""
        above = self._blocks.get(number + 1)
        self._put(self._blocks, number, held)
        conflict = above is not None and above.parent != held.hash
        if conflict:
            self._drop(number + 1)
            self._suspect(other for other in self._blocks if other > number)
        return self._clear_suspects_below(number) or conflict

    def _clear_suspects_below(self, number: int) -> bool:
        """Trusts again what the trusted block of that number stands on; whether trusted blocks contradict it."""
        parent = self._blocks[number].parent
        while (suspect := self._suspects.pop(number - 1, None)) is not None:
            if suspect.hash != parent:
                self.bytes -= suspect.size
                return False
            number -= 1
            self._blocks[number] = suspect
            parent = suspect.parent
        below = self._blocks.get(number - 1)
        if below is None or below.hash == parent:
            return False
        self._drop(number - 1)
        self._suspect(other for other in self._blocks if other < number)
        return True

    def _suspect(self, numbers: Iterable[int]) -> bool:
        """Trusts blocks no longer, nor what is being fetched; whether there were any."""
        chosen = tuple(numbers)
        for number in chosen:
            self._suspects[number] = self._blocks.pop(number)
        self._generation += 1
        self.reorgs += 1
        return bool(chosen)

    def _put(self, place: dict[int, _Held], number: int, held: _Held) -> None:
        self._drop(number)
        place[number] = held
        self.bytes += held.size

    def _drop(self, number: int) -> None:
        for place in (self._blocks, self._suspects):
            held = place.pop(number, None)
            if held is not None:
                self.bytes -= held.size


def _offset(number: int, ranges: Collection[Range]) -> int | None:
    """How far from its beginning a number lies in the nearest range, or None when no range has it ahead."""
    return min((number - wanted.first for wanted in ranges if wanted.first <= number <= wanted.last), default=None)


def _by_urgency(ranges: Sequence[Range]) -> Iterator[tuple[int, int]]:
    """(offset, number) of all ranges, what is waited for first; a number once."""
    longest = max((wanted.last - wanted.first for wanted in ranges), default=-1)
    seen: set[int] = set()
    for offset in range(longest + 1):
        for wanted in ranges:
            number = wanted.first + offset
            if number <= wanted.last and number not in seen:
                seen.add(number)
                yield offset, number
