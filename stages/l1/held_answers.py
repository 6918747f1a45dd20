"""How many bytes of answers the fetches of L1 blocks hold, and how many blocks may be fetched within a bound: pure."""

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
            self._usual = max(1, (3 * self._usual + peak) // 4)
