"""Which blocks of a chain are safe and final once the messages of all chains are verified [LB3, LB4]."""

import msgspec

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.protocol.types import BlockId, L2BlockRef


class Labels(msgspec.Struct, frozen=True):
    """The safe and the finalized block of a chain."""

    safe: BlockId
    finalized: BlockId


def labels(
    config: InteropConfig,
    chain_id: int,
    local: tuple[L2BlockRef, L2BlockRef],
    verified: BlockId | None,
    final: BlockId | None,
) -> Labels:
    """Return the labels of a chain by its own safe and finalized block, `local`, and by its heads of two rounds.

    `verified` is its head of the last round, `final` that of the last round that L1 has finalized, by a view of L1 that
    has the last round's L1 block; None without one."""
    safe, finalized = local
    if safe.timestamp < config.activation:
        return Labels(safe.id, finalized.id)
    if finalized.timestamp < config.activation:
        return Labels(_lowest(safe.id, verified or finalized.id), finalized.id)
    genesis = config.chains[chain_id].genesis.l2
    return Labels(_lowest(safe.id, verified or genesis), _lowest(finalized.id, final or genesis))


def _lowest(*blocks: BlockId) -> BlockId:
    """Return the block with the lowest number, the first of several."""
    return min(blocks, key=lambda block: block.number)


def current_l1(inclusion: BlockId | None, of_chains: tuple[BlockId, ...]) -> BlockId:
    """Return the L1 block up to which all chains are derived, and verified if `inclusion` is the last round's [VR9]."""
    return _lowest(*of_chains, *(() if inclusion is None else (inclusion,)))
