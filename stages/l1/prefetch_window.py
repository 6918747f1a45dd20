"""The cache of L1 blocks, and which of them to fetch next: pure, by number, with hash links checked [LHD18, LHD19].

Neighbours in the cache link by parent hash. A new block that does not link shows a reorg: the blocks that it
contradicts are dropped, and those below become *unverified*. They are not served until a verified block names the one
below it as its parent, and so on down; so a reorg of three blocks costs three fetches, however many are cached. A fetch
that began before the last reorg brings only an unverified block. How many may be
fetched at a time follows from the bytes of answers that they hold."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from rollup_node.stages.messages.base import Problem
from rollup_node.stages.protocol.pacing import backoff
from rollup_node.stages.protocol.types import HEADER_MEMORY, Hash, L1Block, L1BlockRef

MOST_BYTES = 12 << 20
"""Enough for the answers about blocks of 60 million gas that 50 ms of latency keep on their way."""

FIRST_BLOCKS = 12
"""Fetched at a time until it is known what they take."""


class HeldAnswers:
    """The blocks that are being fetched, by number; one whose answer is awaited counts as the last ones did [LHD19].

    Larger answers count at once, smaller ones by and by."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._now: dict[int, int] = {}
        self._peaks: dict[int, int] = {}
        self._usual = most // FIRST_BLOCKS

    @property
    def room(self) -> int:
        """How many more blocks may be asked for: one at least if none is being fetched."""
        expected = sum(max(size, self._usual) for size in self._now.values())
        return max((self._most - expected) // self._usual, 0 if self._now else 1)

    def hold(self, number: int, size: int = 0) -> None:
        """Note how many bytes of answers about a block are held now; none when it is asked for."""
        self._now[number] = size
        self._peaks[number] = max(size, self._peaks.get(number, 0))
        self._usual = max(size, self._usual)

    def end(self, number: int) -> None:
        """Note that nothing is held for a block any more."""
        del self._now[number]
        peak = self._peaks.pop(number)
        if peak:
            self._usual = (3 * self._usual + peak) // 4


FIRST_PAUSE = 0.25
MAX_PAUSE = 10.0
CONFLICT_SECONDS = 5.0
"""Conflicts that follow one another within this time count as endpoints that contradict each other, not as reorgs."""


class BlockRange(NamedTuple):
    """The numbers `first` to `last` that a client wants, now or soon; it waits for `first`."""

    first: int
    last: int


class Fetch(NamedTuple):
    """A block to fetch; `generation` counts the reorgs before its start."""

    number: int
    generation: int


class FetchFailure(NamedTuple):
    """The last of `attempts` failed fetches of a block. `error` is None if L1 has no such block."""

    error: Problem | None
    attempts: int
    retry_at: float


class _CachedBlock(NamedTuple):
    """A block as each rollup sees it; the header is the same."""

    blocks: tuple[L1Block, ...]
    size: int

    @property
    def hash(self) -> Hash:
        return self.blocks[0].header.hash

    @property
    def parent(self) -> Hash:
        return self.blocks[0].header.parent_hash


class PrefetchWindow:
    """The block cache and the fetch plan of the l1 process. Times are seconds of any monotonic clock, sizes are bytes.

    `rollups` share it. Each fetch that is planned is to be `fetched` or `failed` once."""

    def __init__(self, max_blocks: int, max_bytes: int, rollups: int = 1) -> None:
        self._max_blocks = max(max_blocks, 1)
        self._max_bytes, self._rollups = max_bytes, rollups
        self._verified: dict[int, _CachedBlock] = {}
        self._unverified: dict[int, _CachedBlock] = {}
        self._failures: dict[int, FetchFailure] = {}
        self._fetching: set[int] = set()
        self._generation = self._conflicts = 0
        self._last_conflict = float("-inf")
        self._cool_down_until = float("-inf")
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._verified) + len(self._unverified)

    def get(self, number: int, rollup: int = 0) -> L1Block | None:
        """Return the canonical block of that number as the rollup at an index sees it, if it is cached."""
        cached = self._verified.get(number)
        return cached.blocks[rollup] if cached else None

    def failure(self, number: int) -> FetchFailure | None:
        """Return the failure of the last fetch of a block that is not cached; None if none has failed."""
        return self._failures.get(number)

    def plan(self, ranges: Sequence[BlockRange], room: int, now: float) -> list[Fetch]:
        """Start at most `room` fetches, the most urgent first.

        Prefetching stops where it would fill more than half of the cache, but not for a client that has less than its
        rollup's share of that half; the block that a client waits for is always fetched. Of the blocks of a range that
        failed only the first is tried again. A cool-down starts none."""
        for number in [number for number in self._failures if _offset(number, ranges) is None]:
            del self._failures[number]
        if now < self._cool_down_until:
            return []
        fetches = self._start(ranges, ranges, 1, room, now)
        for wanted in ranges if self._rollups > 1 else ():
            fetches += self._start([wanted], ranges, self._rollups, room - len(fetches), now)
        return fetches

    def _start(
        self, wanted: Sequence[BlockRange], ranges: Sequence[BlockRange], shares: int, room: int, now: float
    ) -> list[Fetch]:
        """Start fetches for the wanted ones of all ranges, which may have one of so many shares of the cache."""
        fetches: list[Fetch] = []
        blocks, size = self._ahead(wanted)
        for offset, number in _by_urgency(wanted):
            if len(fetches) >= room:
                break
            blocks_left = self._max_blocks - (blocks + len(fetches)) * shares
            if offset and (blocks_left <= 0 or size * 2 * shares >= self._max_bytes):
                break
            if self._is_due(number, ranges, now) and (not offset or not self._is_decided_by_next(number, ranges)):
                self._fetching.add(number)
                fetches.append(Fetch(number, self._generation))
        return fetches

    def _waits(self, number: int, ranges: Sequence[BlockRange]) -> bool:
        """Whether in each range that wants a failed block there is one before it that failed, too."""
        wanting = [wanted for wanted in ranges if wanted.first <= number <= wanted.last]
        return all(any(item in self._failures for item in range(wanted.first, number)) for wanted in wanting)

    def next_retry(self, ranges: Sequence[BlockRange], now: float) -> float | None:
        """Seconds until a failed fetch of one of the ranges is due again; None if none waits for that."""
        if self._cool_down_until > now:
            return self._cool_down_until - now
        idle = [number for number in self._failures.keys() - self._fetching if not self._waits(number, ranges)]
        return min((max(0.0, self._failures[number].retry_at - now) for number in idle), default=None)

    def _is_due(self, number: int, ranges: Sequence[BlockRange], now: float) -> bool:
        if number in self._fetching or number in self._verified:
            return False
        failure = self._failures.get(number)
        return failure is None or (failure.retry_at <= now and not self._waits(number, ranges))

    def _is_decided_by_next(self, number: int, ranges: Sequence[BlockRange]) -> bool:
        """Of a run of unverified blocks only the highest wanted one is fetched: it verifies or drops the next below."""
        next_one = number + 1
        return number in self._unverified and next_one in self._unverified and _offset(next_one, ranges) is not None

    def _ahead(self, ranges: Sequence[BlockRange]) -> tuple[int, int]:
        """How many blocks and bytes are prefetched or being fetched."""
        wanted = {number for first, last in ranges for number in range(first + 1, last + 1)}
        sizes = [cached.size for number in wanted if (cached := self._verified.get(number)) is not None]
        return len(sizes) + len(self._fetching), sum(sizes)

    def is_outdated(self, fetch: Fetch) -> bool:
        """Whether a fetch began before a reorg: the endpoint may have answered from either chain."""
        return fetch.generation != self._generation

    def fetched(self, fetch: Fetch, blocks: tuple[L1Block, ...], size: int, now: float) -> bool:
        """Take the block of a fetch, as each rollup sees it; True if it contradicts cached blocks.

        If that happens again and again within CONFLICT_SECONDS, endpoints contradict each other, and a growing
        cool-down follows."""
        self._fetching.remove(fetch.number)
        self._failures.pop(fetch.number, None)
        cached = _CachedBlock(blocks, size)
        if self.is_outdated(fetch):
            if fetch.number not in self._verified:
                self._put(self._unverified, fetch.number, cached)
                if fetch.number + 1 in self._verified:
                    self._verify_below(fetch.number + 1)
            return False
        conflict = self._add_verified(fetch.number, cached)
        if conflict:
            self._conflicts = self._conflicts + 1 if now - self._last_conflict < CONFLICT_SECONDS else 1
            self._last_conflict = now
            # Two in a row may be two reorgs.
            if self._conflicts > 2:
                self._cool_down_until = now + backoff(self._conflicts - 1, FIRST_PAUSE, MAX_PAUSE)
        return conflict

    def failed(self, fetch: Fetch, error: Problem | None, now: float) -> None:
        """Record a failed fetch, with no `error` if L1 lacks the block; its pause doubles with each failure."""
        self._fetching.remove(fetch.number)
        before = self._failures.get(fetch.number)
        attempts = before.attempts + 1 if before else 1
        self._failures[fetch.number] = FetchFailure(error, attempts, now + backoff(attempts, FIRST_PAUSE, MAX_PAUSE))

    def update_head(self, head: L1BlockRef, reorged: bool, finalized: int) -> bool:
        """Take a new L1 head; True if it contradicts cached blocks.

        `reorged` says that it does not build on the head before: then all blocks above `finalized` become unverified
        unless the head links to them."""
        for number in [number for number, failure in self._failures.items() if failure.error is None]:
            del self._failures[number]
        # What is being fetched may come from the old chain.
        if reorged:
            self._generation += 1
        beyond = [number for number in (*self._verified, *self._unverified) if number > head.number]
        for number in beyond:
            self.drop(number)
        same, parent = self._verified.get(head.number), self._verified.get(head.number - 1)
        if same is not None and same.hash == head.hash:
            return False
        if same is not None:
            self.drop(head.number)
            self._generation += 1
        # The new head links to the cache, so everything below is canonical.
        if parent is not None and parent.hash == head.parent_hash:
            return same is not None
        if parent is not None:
            self.drop(head.number - 1)
        if same is None and parent is None and not reorged:
            return False
        return self._unverify(number for number in self._verified if number > finalized) or same is not None

    def trim(self, ranges: Sequence[BlockRange]) -> None:
        """Drop an eighth of the cache if it is over its bounds; never the block that a client waits for.

        Unverified blocks go first, then those below what all clients want, then those farthest ahead of a client, the
        ones before that no client wants yet [LHD32]."""
        if len(self) <= self._max_blocks and self.bytes <= self._max_bytes:
            return
        blocks, size = self._max_blocks - self._max_blocks // 8, self._max_bytes - self._max_bytes // 8
        for number in self._eviction_order(ranges):
            if len(self) <= blocks and self.bytes <= size:
                return
            self.drop(number)

    def _eviction_order(self, ranges: Sequence[BlockRange]) -> Iterator[int]:
        yield from sorted(self._unverified)
        firsts = {wanted.first for wanted in ranges}
        offsets = {number: _offset(number, ranges) for number in self._verified if number not in firsts}
        unwanted = sorted(number for number, offset in offsets.items() if offset is None)
        later = [number for number in unwanted if number > min(firsts, default=number)]
        yield from unwanted[: len(unwanted) - len(later)]
        yield from sorted(later, key=lambda number: min(number - first for first in firsts if first < number))[::-1]
        ahead = [(offset, number) for number, offset in offsets.items() if offset is not None]
        yield from (number for _, number in sorted(ahead, reverse=True))

    def _add_verified(self, number: int, cached: _CachedBlock) -> bool:
        """Add a block as verified and drop what contradicts it; whether there was a contradiction."""
        above = self._verified.get(number + 1)
        self._put(self._verified, number, cached)
        conflict = above is not None and above.parent != cached.hash
        if conflict:
            self.drop(number + 1)
            self._unverify(other for other in self._verified if other > number)
        return self._verify_below(number) or conflict

    def _verify_below(self, number: int) -> bool:
        """Verify the unverified blocks below the verified one of that number; whether verified blocks contradict."""
        parent = self._verified[number].parent
        while (below := self._unverified.pop(number - 1, None)) is not None:
            if below.hash != parent:
                self.bytes -= below.size
                return False
            number -= 1
            self._verified[number] = below
            parent = below.parent
        verified = self._verified.get(number - 1)
        if verified is None or verified.hash == parent:
            return False
        self.drop(number - 1)
        self._unverify(other for other in self._verified if other < number)
        return True

    def _unverify(self, numbers: Iterable[int]) -> bool:
        """Make blocks unverified, and those that are being fetched too; whether there were any cached."""
        chosen = tuple(numbers)
        for number in chosen:
            self._unverified[number] = self._verified.pop(number)
        self._generation += 1
        return bool(chosen)

    def _put(self, blocks: dict[int, _CachedBlock], number: int, cached: _CachedBlock) -> None:
        self.drop(number)
        blocks[number] = cached
        self.bytes += cached.size

    def drop(self, number: int) -> None:
        """Forget a block, also one that is not on the proven chain, so that it is fetched again [LCP15]."""
        for blocks in (self._verified, self._unverified):
            cached = blocks.pop(number, None)
            if cached is not None:
                self.bytes -= cached.size


def memory_of(blocks: Sequence[L1Block]) -> int:
    """Return about how many bytes of memory a block takes as all rollups see it, with one header."""
    return sum(block.memory for block in blocks) - HEADER_MEMORY * (len(blocks) - 1)


def _offset(number: int, ranges: Collection[BlockRange]) -> int | None:
    """How far a number lies behind the beginning of the nearest range that contains it; None if none does."""
    return min((number - wanted.first for wanted in ranges if wanted.first <= number <= wanted.last), default=None)


def _by_urgency(ranges: Sequence[BlockRange]) -> Iterator[tuple[int, int]]:
    """(offset, number) of all ranges, with what clients wait for first; each number once."""
    longest = max((wanted.last - wanted.first for wanted in ranges), default=-1)
    seen: set[int] = set()
    for offset in range(longest + 1):
        for wanted in ranges:
            number = wanted.first + offset
            if number <= wanted.last and number not in seen:
                seen.add(number)
                yield offset, number


WANTED_RATE = 300.0
"""Blocks a second, more than a fast machine derives from."""

MAX_BLOCKS = 8

SLOW_SECONDS = 1.0
"""An answer that takes longer waits for the bandwidth or the server, so that longer ones would only time out."""


def blocks_per_request(latency: float | None, concurrency: int, max_batch: int) -> int:
    """Return the blocks for each of `concurrency` requests to reach WANTED_RATE; `latency` in s if known."""
    if latency is None or latency > SLOW_SECONDS:
        return 1
    return max(1, min(round(WANTED_RATE * latency / concurrency), MAX_BLOCKS, max_batch))


def grouped(fetches: Sequence[Fetch], requests: int) -> list[Sequence[Fetch]]:
    """Return the fetches, most urgent first, as at most so many requests; the first alone if there are two or more."""
    if len(fetches) <= requests:
        return [(fetch,) for fetch in fetches]
    groups = [fetches[:1]] if requests > 1 else []
    rest = fetches[len(groups) :]
    size = -(-len(rest) // (requests - len(groups)))
    return groups + [rest[start : start + size] for start in range(0, len(rest), size)]
