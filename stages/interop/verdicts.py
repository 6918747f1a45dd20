"""What the chains are told: what is verified and final, what is denied, and how far they go back [LB3, LB4, IV3]."""

from collections.abc import Mapping

from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.rounds import InvalidateHeads, StoreState
from rollup_node.stages.messages.verification import ChainVerdict, DeniedBlock, Verdicts
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId


def verdicts(
    config: InteropConfig,
    state: StoreState,
    transition: int,
    final: Mapping[int, BlockId],
    denied: Mapping[int, tuple[DeniedBlock, ...]],
) -> Verdicts:
    """Return the state that is published; `transition` is the number of the last transition, 0 without one.

    `final` are the heads of the last round that L1 has finalized, `denied` all denied blocks, by chain."""
    verified = state.verified
    heights = {} if verified is None else config.heights_at(verified.timestamp)
    chains = {}
    for chain_id in config.chains:
        tip = state.tips.get(chain_id)
        # A chain that has joined is not verified before its logs are read up to the last round [VR10].
        head = tip if tip is not None and tip.number == heights.get(chain_id) else None
        go_back = _go_back(config, state, chain_id)
        chains[chain_id] = ChainVerdict(head, final.get(chain_id), denied.get(chain_id, ()), transition, go_back)
    current, timestamp = (None, 0) if verified is None else (verified.l1, verified.timestamp)
    return Verdicts(chains, config.activation, current, timestamp)


def _go_back(config: InteropConfig, state: StoreState, chain_id: int) -> BlockId | None:
    """Return where a chain goes back to for the pending transition: a block of hash zero if it was never stored."""
    pending, genesis = state.pending, config.chains[chain_id].genesis.l2
    if pending is None:
        return None
    if isinstance(pending, InvalidateHeads):
        numbers = [head.block.number - 1 for head in pending.heads if head.chain_id == chain_id]
        if not numbers:
            return None
        number = numbers[0]
    else:
        number = max(config.heights_at(pending.first - 1)[chain_id], genesis.number)
    known = (block for block in (state.tips.get(chain_id), genesis) if block is not None and block.number == number)
    return next(known, BlockId(number, ZERO_HASH))
