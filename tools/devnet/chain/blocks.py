"""ExecutedTransaction blocks in memory: by hash, the canonical ones by number, their transactions, and the three labels."""

from collections.abc import Callable
from typing import NamedTuple

from rollup_node.stages.protocol.headers import Header, encode_header
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.devnet.evm.state_transition.block import ExecutedTransaction
from rollup_node.tools.devnet.evm.transactions import AnyTransaction


class Block(NamedTuple):
    """A sealed block."""

    hash: Hash
    header: Header
    executed: tuple[ExecutedTransaction, ...]

    @property
    def number(self) -> int:
        return self.header.number

    @property
    def transactions(self) -> tuple[AnyTransaction, ...]:
        return tuple(entry.transaction for entry in self.executed)

    @property
    def size(self) -> int:
        """Bytes of header and transactions."""
        return len(encode_header(self.header)) + sum(len(entry.transaction.raw) for entry in self.executed)


class TransactionLocation(NamedTuple):
    """Where a transaction stands on the canonical chain."""

    block: Block
    position: int


class HeadChange(NamedTuple):
    """What a new head did to the canonical chain, both from the lowest block up."""

    removed: tuple[Block, ...]
    added: tuple[Block, ...]


class BlockChain:
    """All blocks of a chain from its genesis. Blocks off the canonical chain stay known by hash."""

    def __init__(self, genesis: Block) -> None:
        self.genesis = genesis
        self.head = self.safe = self.finalized = genesis
        self._blocks: dict[Hash, Block] = {genesis.hash: genesis}
        self._canonical: list[Block] = [genesis]
        self._places: dict[Hash, tuple[Hash, int]] = {}

    def insert(self, block: Block) -> None:
        """Makes a block known; its parent must be."""
        self._blocks[block.hash] = block

    def get(self, block_hash: Hash) -> Block | None:
        """A known block, canonical or not."""
        return self._blocks.get(block_hash)

    def at(self, number: int) -> Block | None:
        """The canonical block of a number."""
        index = number - self.genesis.number
        return self._canonical[index] if 0 <= index < len(self._canonical) else None

    def is_canonical(self, block: Block) -> bool:
        found = self.at(block.number)
        return found is not None and found.hash == block.hash

    def parent(self, block: Block) -> Block:
        """The parent of a known block other than genesis."""
        return self._blocks[block.header.parent_hash]

    def ancestor(self, block: Block, number: int) -> Block:
        """The block of a number on a block's own chain, not above it."""
        while block.number > number:
            if self.is_canonical(block):
                return self._canonical[number - self.genesis.number]
            block = self.parent(block)
        return block

    def hashes_before(self, parent: Block) -> Callable[[int], Hash]:
        """What BLOCKHASH answers in a child of `parent`; zero before genesis."""

        def block_hash(number: int) -> Hash:
            return self.ancestor(parent, number).hash if number >= self.genesis.number else bytes(32)

        return block_hash

    def set_head(self, head: Block) -> HeadChange:
        """Makes a known block the head. Labels above the fork fall back to it."""
        added = []
        block = head
        while not self.is_canonical(block):
            added.append(block)
            block = self.parent(block)
        removed = self._canonical[block.number - self.genesis.number + 1 :]
        del self._canonical[block.number - self.genesis.number + 1 :]
        for gone in removed:
            for transaction in gone.transactions:
                self._places.pop(transaction.hash, None)
        added.reverse()
        for new in added:
            self._canonical.append(new)
            for index, transaction in enumerate(new.transactions):
                self._places[transaction.hash] = (new.hash, index)
        self.head = head
        self.safe = self.safe if self.is_canonical(self.safe) else block
        self.finalized = self.finalized if self.is_canonical(self.finalized) else block
        return HeadChange(tuple(removed), tuple(added))

    def place(self, transaction_hash: Hash) -> TransactionLocation | None:
        """Where a transaction stands on the canonical chain."""
        found = self._places.get(transaction_hash)
        return None if found is None else TransactionLocation(self._blocks[found[0]], found[1])
