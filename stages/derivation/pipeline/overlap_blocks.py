"""What is known of the safe L2 chain where span batches overlap it: asked for piece by piece, kept as digests."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from rollup_node.stages.derivation.pipeline.outputs import NeedL2Blocks
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.types import Hash, L2BlockContent, L2BlockRef

PIECE = 64
MAX_KEPT = 50_000


class SafeBlock(NamedTuple):
    """A block of the safe chain: its reference, how many transactions follow its deposits, and their digest."""

    ref: L2BlockRef
    users: int
    digest: Hash


def transactions_digest(transactions: Sequence[bytes]) -> Hash:
    """Equal for equal lists only."""
    digest = sha256()
    for transaction in transactions:
        digest.update(len(transaction).to_bytes(8, "big"))
        digest.update(transaction)
    return digest.digest()


class SafeChain:
    """Blocks by number. One that cannot be had is asked for again in the next attempt only."""

    def __init__(self) -> None:
        self._blocks: dict[int, SafeBlock] = {}
        self._refused: range = range(0)
        self._wanted: NeedL2Blocks | None = None

    def begin(self) -> None:
        """A new attempt to judge batches begins."""
        self._refused = range(0)
        if len(self._blocks) > MAX_KEPT:
            self._blocks.clear()

    def clear(self) -> None:
        """The safe chain is another."""
        self._blocks.clear()
        self._refused, self._wanted = range(0), None

    def find(self, number: int, last: int) -> SafeBlock | NeedL2Blocks | None:
        """The block; None if it cannot be had. What is missing is asked for up to `last` in pieces of 64 blocks."""
        block = self._blocks.get(number)
        if block is not None:
            return block
        if number in self._refused:
            return None
        self._wanted = NeedL2Blocks(number, min(last, number + PIECE - 1))
        return self._wanted

    def add(self, first: int, last: int, blocks: Sequence[L2BlockContent] | None) -> bool:
        """Brings the blocks that are needed, or None if they cannot be had; False if they are not needed."""
        if self._wanted != NeedL2Blocks(first, last):
            return False
        numbers = range(first, last + 1)
        if blocks is None:
            self._refused = numbers
        elif [block.ref.number for block in blocks] != list(numbers):
            return False
        else:
            self._blocks.update((block.ref.number, _digested(block)) for block in blocks)
        self._wanted = None
        return True


def _digested(block: L2BlockContent) -> SafeBlock:
    """As many transactions as there are deposits are taken to be deposits, whatever their place (FU7)."""
    users = block.transactions[sum(map(is_deposit, block.transactions)) :]
    return SafeBlock(block.ref, len(users), transactions_digest(users))
