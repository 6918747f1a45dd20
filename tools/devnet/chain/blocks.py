"""Executed blocks in memory by hash, the canonical ones by number, their transactions, and the three labels."""

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
        """The block's number."""
        return self.header.number

    @property
    def transactions(self) -> tuple[AnyTransaction, ...]:
        """The block's transactions."""
        return tuple(entry.transaction for entry in self.executed)

    @property
    def size(self) -> int:
        """The size of header and transactions in bytes."""
        return len(encode_header(self.header)) + sum(len(entry.transaction.raw) for entry in self.executed)


class TransactionLocation(NamedTuple):
    """The canonical block of a transaction, and its position in it."""

    block: Block
    position: int


class CanonicalChange(NamedTuple):
    """The blocks that a new head removed from the canonical chain and added to it, lowest first."""

    removed: tuple[Block, ...]
    added: tuple[Block, ...]


class BlockChain:
    """All blocks of a chain from its genesis; blocks off the canonical chain stay available by hash."""

    def __init__(self, genesis: Block) -> None:
        self.genesis = genesis
        self.head = self.safe = self.finalized = genesis
        self._blocks: dict[Hash, Block] = {genesis.hash: genesis}
        self._canonical: list[Block] = [genesis]
        self._locations: dict[Hash, tuple[Hash, int]] = {}

    def insert(self, block: Block) -> None:
        """Adds a block whose parent is known."""
        self._blocks[block.hash] = block

    def get(self, block_hash: Hash) -> Block | None:
        """The block with a hash, canonical or not."""
        return self._blocks.get(block_hash)

    def at(self, number: int) -> Block | None:
        """The canonical block with a number."""
        index = number - self.genesis.number
        return self._canonical[index] if 0 <= index < len(self._canonical) else None

    def is_canonical(self, block: Block) -> bool:
        """Whether a block is on the canonical chain."""
        found = self.at(block.number)
        return found is not None and found.hash == block.hash

    def parent(self, block: Block) -> Block:
        """The parent of a known block other than genesis."""
        return self._blocks[block.header.parent_hash]

    def ancestor(self, block: Block, number: int) -> Block:
        """The ancestor of a block with a number not above its own; the block itself for its own number."""
        while block.number > number:
            if self.is_canonical(block):
                return self._canonical[number - self.genesis.number]
            block = self.parent(block)
        return block

    def hashes_before(self, parent: Block) -> Callable[[int], Hash]:
        """The BLOCKHASH function for a child of `parent`: the hash by number, zero before genesis."""

        def block_hash(number: int) -> Hash:
            return self.ancestor(parent, number).hash if number >= self.genesis.number else bytes(32)

        return block_hash

    def set_head(self, head: Block) -> CanonicalChange:
        """Makes a known block the head; labels that leave the canonical chain fall back to the common ancestor."""
        added = []
        block = head
        while not self.is_canonical(block):
            added.append(block)
            block = self.parent(block)
        removed = self._canonical[block.number - self.genesis.number + 1 :]
        del self._canonical[block.number - self.genesis.number + 1 :]
        for old in removed:
            for transaction in old.transactions:
                self._locations.pop(transaction.hash, None)
        added.reverse()
        for new in added:
            self._canonical.append(new)
            for index, transaction in enumerate(new.transactions):
                self._locations[transaction.hash] = (new.hash, index)
        self.head = head
        self.safe = self.safe if self.is_canonical(self.safe) else block
        self.finalized = self.finalized if self.is_canonical(self.finalized) else block
        return CanonicalChange(tuple(removed), tuple(added))

    def locate(self, transaction_hash: Hash) -> TransactionLocation | None:
        """The location of a transaction on the canonical chain."""
        found = self._locations.get(transaction_hash)
        return None if found is None else TransactionLocation(self._blocks[found[0]], found[1])
