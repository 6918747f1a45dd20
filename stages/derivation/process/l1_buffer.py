"""L1 blocks that came before derivation needs them: a row of linked blocks from the one needed next."""

from collections.abc import Iterator

from rollup_node.stages.protocol.types import Hash, L1Block


class L1Buffer:
    """Holds blocks `first` to `first + window - 1` as they come, in any order."""

    def __init__(self, window: int) -> None:
        self.first = 0
        self._window = max(1, window)
        self._blocks: dict[int, L1Block] = {}
        self._doubted: Hash | None = None

    def begin(self, first: int) -> None:
        """Forgets everything; `first` is needed next."""
        self.first = first
        self._blocks.clear()
        self._doubted = None

    @property
    def missing(self) -> tuple[int, int] | None:
        """First number and count to ask for; None when all of the window is there."""
        number = self.first
        while number in self._blocks:
            number += 1
        end = self.first + self._window
        return (number, end - number) if number < end else None

    def add(self, block: L1Block) -> bool:
        """Takes a block. One that does not link to its neighbours shows a reorg: they go, for they came earlier."""
        number = block.header.number
        if not self.first <= number < self.first + self._window:
            return False
        self._blocks[number] = block
        below, above = self._blocks.get(number - 1), self._blocks.get(number + 1)
        if below is not None and below.header.hash != block.header.parent_hash:
            self._keep(range(number, number + 1))
        elif above is not None and above.header.parent_hash != block.header.hash:
            self._keep(range(self.first, number + 1))
        return True

    def take(self, parent_hash: Hash | None) -> L1Block | None:
        """The block needed next, if it is there. If it does not follow from `parent_hash` everything is asked for once
        more: only when it comes again so is it given out."""
        block = self._blocks.get(self.first)
        if block is None:
            return None
        if parent_hash is not None and block.header.parent_hash != parent_hash and self._doubted != block.header.hash:
            self._doubted = block.header.hash
            self._blocks.clear()
            return None
        del self._blocks[self.first]
        self.first += 1
        self._doubted = None
        return block

    def linked(self) -> Iterator[L1Block]:
        """The blocks from the one needed next on, as far as there is no gap."""
        number = self.first
        while (block := self._blocks.get(number)) is not None:
            yield block
            number += 1

    def _keep(self, numbers: range) -> None:
        self._blocks = {number: block for number, block in self._blocks.items() if number in numbers}
