"""The blocks of the safe L2 chain that span batches overlap: requested in pages, kept as digests."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from rollup_node.stages.derivation.codec.packed import PackedTransactions
from rollup_node.stages.derivation.pipeline.outputs import NeedL2Blocks
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.types import Hash, L2BlockContent, L2BlockRef

PAGE = 64
"""Blocks of one request, at most."""
MAX_KEPT = 50_000


class OverlapBlock(NamedTuple):
    """A block of the safe chain; `users` is the number of transactions after its deposits, `digest` is over them."""

    ref: L2BlockRef
    users: int
    digest: Hash


def transactions_digest(transactions: Sequence[bytes] | PackedTransactions) -> Hash:
    """Return a sha256 that is equal for equal lists only."""
    digest = sha256()
    if isinstance(transactions, PackedTransactions):
        for piece in transactions.sizes_and_bytes():
            digest.update(piece)
        return digest.digest()
    for transaction in transactions:
        digest.update(len(transaction).to_bytes(8, "big"))
        digest.update(transaction)
    return digest.digest()


class OverlapBlocks:
    """Blocks by number. One that is unavailable is requested again only in the next check of a batch."""

    def __init__(self) -> None:
        self._blocks: dict[int, OverlapBlock] = {}
        self._unavailable: range = range(0)
        self._need: NeedL2Blocks | None = None

    def begin_check(self) -> None:
        """Begin a new check of batches: what was unavailable may be available now."""
        self._unavailable = range(0)
        if len(self._blocks) > MAX_KEPT:
            self._blocks.clear()

    def clear(self) -> None:
        """Forget the blocks: the safe chain has changed."""
        self._blocks.clear()
        self._unavailable, self._need = range(0), None

    def find(self, number: int, last: int) -> OverlapBlock | NeedL2Blocks | None:
        """Return the block; None if it is unavailable. What is missing is requested in pages, up to block `last`."""
        block = self._blocks.get(number)
        if block is not None:
            return block
        if number in self._unavailable:
            return None
        self._need = NeedL2Blocks(number, min(last, number + PAGE - 1))
        return self._need

    def add(self, first: int, last: int, blocks: Sequence[L2BlockContent] | None) -> bool:
        """Brings the blocks that are needed, or None if they are unavailable; False if they are not needed."""
        if self._need != NeedL2Blocks(first, last):
            return False
        numbers = range(first, last + 1)
        if blocks is None:
            self._unavailable = numbers
        elif [block.ref.number for block in blocks] != list(numbers):
            return False
        else:
            self._blocks.update((block.ref.number, _digested(block)) for block in blocks)
        self._need = None
        return True


def _digested(block: L2BlockContent) -> OverlapBlock:
    # As op-node does, skips as many leading transactions as there are deposits, wherever those stand [FU7].
    users = block.transactions[sum(map(is_deposit, block.transactions)) :]
    return OverlapBlock(block.ref, len(users), transactions_digest(users))
