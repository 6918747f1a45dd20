"""A long L2 chain for the search of the L1 block at which a reset starts reading [RS1]."""

from rollup_node.stages.engine.calls.heads import L2BlockInfo
from rollup_node.stages.engine.starts.start_search import Base, BaseSearch
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from tests.conformance.kit.chain import BATCHER, SYSTEM_CONFIG, forks_until, l1_hash, rollup


class OneBlockPerEpoch:
    """An L2 chain with one block for each L1 block from genesis at L1 block 0; L1 block n has time 12 n."""

    def __init__(self, forks: dict[str, int], safe: int, first: int = 0) -> None:
        genesis = Genesis(BlockId(first, l1_hash(first)), BlockId(0, l1_hash(0)), 1, SYSTEM_CONFIG)
        self.config: RollupConfig = rollup(forks, genesis=genesis)
        self._first = first
        self.safe = self.known(safe - first)

    def known(self, number: int) -> L2BlockInfo:
        """Return the L2 block of a number."""
        origin = self._first + number
        reference = L2BlockRef(
            l1_hash(number, "L2 "), number, l1_hash(number - 1, "L2 "), 12 * origin, BlockId(origin, l1_hash(origin)), 0
        )
        return L2BlockInfo(reference, 12 * origin, SystemConfig(BATCHER, bytes(32), bytes(32), origin))

    def base(self, search: BaseSearch | None = None) -> Base:
        """Return the L1 block at which reading starts."""
        search = search or BaseSearch(self.config, self.safe)
        while isinstance(need := search.next(), int):
            search.add_block(need, self.known(need))
        return need


def early_forks(**times: int) -> dict[str, int]:
    """All forks to Fjord, and others at absolute times."""
    return {**forks_until("fjord"), **times}
