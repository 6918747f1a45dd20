"""L1 blocks that arrived before derivation needs them: a window of linked blocks that starts at the one needed next."""

from collections.abc import Iterable, Iterator

from rollup_node.stages.protocol.types import Hash, L1Block

MAX_BUFFERED = 24 << 20
"""Bytes of memory that the buffered blocks take, without the last one."""


class L1Buffer:
    """Blocks `first` to `first + window - 1`, which arrive in any order.

    Fewer when they are large, but always the one needed next. A `window` that becomes smaller discards none. `taken` is
    the hash of the block that was taken last, None after a restart."""

    def __init__(self, window: int) -> None:
        self.first = 0
        self.window = window
        self.taken: Hash | None = None
        self._blocks: dict[int, L1Block] = {}
        self._bytes = 0
        self._unconfirmed: Hash | None = None

    def __len__(self) -> int:
        """How many blocks have arrived and were not taken."""
        return len(self._blocks)

    def restart(self, first: int) -> None:
        """Discard everything; block `first` is needed next."""
        self.first = first
        self._discard(self._blocks)
        self._unconfirmed = self.taken = None

    @property
    def missing(self) -> tuple[int, int] | None:
        """First number and count of the blocks to request; None when the window is full."""
        if self._bytes > MAX_BUFFERED and self.first in self._blocks:
            return None
        number = self.first
        while number in self._blocks:
            number += 1
        end = self.first + self.window
        return (number, end - number) if number < end else None

    def add(self, block: L1Block) -> bool:
        """Add a block; False if it is outside the window, or others fill it.

        One that does not link to its neighbours shows a reorg: they are discarded, since they are older."""
        number = block.header.number
        if not self.first <= number < self.first + self.window:
            return False
        if self._bytes > MAX_BUFFERED and number != self.first:
            return False
        self._discard((number,))
        self._blocks[number] = block
        self._bytes += block.memory
        below, above = self._blocks.get(number - 1), self._blocks.get(number + 1)
        if below is not None and below.header.hash != block.header.parent_hash:
            self._retain(range(number, number + 1))
        elif above is not None and above.header.parent_hash != block.header.hash:
            self._retain(range(self.first, number + 1))
        return True

    def take(self, parent_hash: Hash | None) -> L1Block | None:
        """Return the block needed next, if it is there.

        One that does not follow `parent_hash` is requested a second time with all others: only when it arrives again
        is the reorg confirmed [T3]."""
        block = self._blocks.get(self.first)
        if block is None or (not _follows(block, parent_hash) and not self._is_confirmed(block)):
            return None
        self._discard((self.first,))
        self.first += 1
        self._unconfirmed, self.taken = None, block.header.hash
        return block

    def reorged(self, parent_hash: Hash) -> L1Block | None:
        """Return the block needed next, which stays, once it is confirmed not to follow `parent_hash`."""
        block = self._blocks.get(self.first)
        shows = block is not None and not _follows(block, parent_hash) and self._is_confirmed(block)
        return block if shows else None

    def _is_confirmed(self, block: L1Block) -> bool:
        if self._unconfirmed == block.header.hash:
            return True
        self._unconfirmed = block.header.hash
        self._discard(self._blocks)
        return False

    def linked(self) -> Iterator[L1Block]:
        """Yield the blocks from the one needed next up to the first gap."""
        number = self.first
        while (block := self._blocks.get(number)) is not None:
            yield block
            number += 1

    def _retain(self, numbers: range) -> None:
        self._discard([number for number in self._blocks if number not in numbers])

    def _discard(self, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            block = self._blocks.pop(number, None)
            self._bytes -= 0 if block is None else block.memory


def _follows(block: L1Block, parent_hash: Hash | None) -> bool:
    return parent_hash is None or block.header.parent_hash == parent_hash
