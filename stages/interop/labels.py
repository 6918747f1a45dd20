"""Up to which L1 block all chains are derived and verified [VR9]."""

from rollup_node.stages.protocol.types import BlockId


def current_l1(inclusion: BlockId | None, of_chains: tuple[BlockId, ...]) -> BlockId:
    """Return the L1 block up to which all chains are derived, and verified if `inclusion` is the last round's [VR9]."""
    blocks = of_chains if inclusion is None else (*of_chains, inclusion)
    return min(blocks, key=lambda block: block.number)
