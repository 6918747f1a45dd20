"""What a block of the L2 chain says about itself: its reference, its L1 origin's time and its system config."""

from itertools import pairwise

import msgspec

from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.l1_info import L1InfoError, l1_info_of_block
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.system_config import BlockConfigError, config_of_block
from rollup_node.stages.protocol.types import BlockId, L2BlockRef


class KnownBlock(msgspec.Struct, frozen=True):
    """A block of the engine; `origin_time` in seconds, `config` the one that stands in it (attributes-rules 3.4)."""

    ref: L2BlockRef
    origin_time: int
    config: SystemConfig


class UnreadableBlockError(ResetError):
    """The engine's chain has a block that no rollup node made."""


def known_block(payload: ExecutionPayload, rollup: RollupConfig) -> KnownBlock:
    """Reads a block of the engine's chain (attributes-rules 4.7); UnreadableBlockError if it is not of this chain."""
    genesis = rollup.genesis
    origin, origin_time, sequence_number = genesis.l1, genesis.l2_time, 0
    try:
        config = config_of_block(
            rollup,
            number=payload.block_number,
            block_hash=payload.block_hash,
            timestamp=payload.timestamp,
            gas_limit=payload.gas_limit,
            extra_data=payload.extra_data,
            transactions=payload.transactions,
        )
        if payload.block_number != genesis.l2.number:
            layout = rollup.schedule().l1_info_format(payload.timestamp)
            info = l1_info_of_block(payload.transactions, layout)
            origin, origin_time, sequence_number = info.origin, info.timestamp, info.sequence_number
    except (BlockConfigError, L1InfoError) as error:
        raise UnreadableBlockError(f"block {payload.block_number} of the engine cannot be read: {error}") from None
    return KnownBlock(_reference(payload, origin, sequence_number), origin_time, config)


def payload_problem(payload: ExecutionPayload, rollup: RollupConfig) -> str | None:
    """What makes a sealed payload impossible, or None (attributes-rules 4.6)."""
    transactions = payload.transactions
    if not transactions:
        return "it has no transactions"
    if not all(transactions):
        return "it has an empty transaction"
    deposits = [is_deposit(raw) for raw in transactions]
    if not deposits[0]:
        return "its first transaction is not a deposit"
    if any(later and not earlier for earlier, later in pairwise(deposits)):
        return "it has a deposit after another transaction"
    try:
        known_block(payload, rollup)
    except UnreadableBlockError as error:
        return str(error)
    return None


def _reference(payload: ExecutionPayload, origin: BlockId, sequence_number: int) -> L2BlockRef:
    return L2BlockRef(
        payload.block_hash,
        payload.block_number,
        payload.parent_hash,
        payload.timestamp,
        origin,
        sequence_number,
    )
