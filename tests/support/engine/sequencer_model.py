"""A sequencer above a model of L1, whose blocks are signed or refused: reorgs, derivation, lost blocks, restarts."""

from collections.abc import Callable

from rollup_node.stages.p2p.signer.signed_blocks import (
    BlockFate,
    BlockRecord,
    RecentL1Chain,
    SignedBlocks,
    SigningRequest,
)
from rollup_node.stages.protocol.types import BlockId, Hash, L1BlockRef

BLOCKS_PER_ORIGIN = 3


class ModelSequencer:
    """Every block has a new hash, as its transactions differ.

    A block takes the next origin at each third height, if L1 has it. `conflicts` are the pairs of blocks signed for
    one height without a reason: the first was not taken back by a reorg of L1 or by derivation."""

    def __init__(self) -> None:
        self.signed = SignedBlocks()
        self.conflicts: list[tuple[BlockRecord, BlockRecord]] = []
        self._stored: list[BlockRecord] = []
        self._by_height: dict[int, list[BlockRecord]] = {}
        self._taken_back: set[Hash] = set()
        self._last = self._derived = 0
        self._l1_chain = RecentL1Chain()
        self._l1 = [BlockId(0, self._new_hash())]
        self._blocks = [BlockRecord(0, self._new_hash(), bytes(32), self._l1[0])]

    def _new_hash(self) -> Hash:
        self._last += 1
        return self._last.to_bytes(32, "big")

    def build(self, is_lost_on_the_way: bool = False) -> bool:
        """Build the next block, and signs it if it may; returns whether it was signed."""
        parent = self._blocks[-1]
        assert parent.origin is not None
        number = parent.number + 1
        taken = parent.origin.number + (number % BLOCKS_PER_ORIGIN == 0)
        built = BlockRecord(number, self._new_hash(), parent.hash, self._l1[min(taken, len(self._l1) - 1)])
        self._blocks.append(built)
        if is_lost_on_the_way:
            return False
        request = SigningRequest(built, parent._replace(fate=BlockFate.ANCESTOR), self._derived)
        refusal, new = self.signed.decide(request, self._l1_chain.hash_of)
        self._stored += new
        if refusal is None:
            others = self._by_height.setdefault(number, [])
            self.conflicts += [(other, built) for other in others if other.hash not in self._taken_back]
            others.append(built)
        return refusal is None

    def restart(self) -> None:
        """The signer's process starts again, with what it has stored; of L1 it knows nothing."""
        self.signed, self._l1_chain = SignedBlocks(self._stored), RecentL1Chain()

    def extend_l1(self) -> None:
        """Add a block to L1."""
        last = self._l1[-1]
        self._l1.append(BlockId(last.number + 1, self._new_hash()))
        self._l1_chain.take(L1BlockRef(self._l1[-1].hash, self._l1[-1].number, last.hash, 0))

    def reorganise_l1(self, depth: int, length: int) -> None:
        """Replace the latest blocks of L1 by at least as many others.

        The unsafe head goes back to an origin that is left."""
        del self._l1[max(1, len(self._l1) - depth) :]
        for _ in range(max(depth, length)):
            self.extend_l1()
        while self._blocks[-1].origin not in self._l1:
            self._blocks.pop()
        self._derived = min(self._derived, self._blocks[-1].number)
        self._take_back(lambda block: block.origin not in self._l1)

    def lose(self, count: int) -> None:
        """The engine loses blocks, but not genesis."""
        del self._blocks[max(1, len(self._blocks) - count) :]
        self._derived = min(self._derived, self._blocks[-1].number)

    def derive_another_and_build(self, count: int) -> bool:
        """Derivation replaces a block by one that is not signed, and with it all above; then the next one is built."""
        if len(self._blocks) > 1:
            self.lose(count)
            parent = self._blocks[-1]
            derived = BlockRecord(parent.number + 1, self._new_hash(), parent.hash, parent.origin)
            self._blocks.append(derived)
            self._derived = derived.number
            derived_chain = {block.hash for block in self._blocks}
            self._take_back(lambda block: block.hash not in derived_chain)
        return self.build()

    def _take_back(self, is_taken_back: Callable[[BlockRecord], bool]) -> None:
        signed = (block for blocks in self._by_height.values() for block in blocks)
        self._taken_back |= {block.hash for block in signed if is_taken_back(block)}
