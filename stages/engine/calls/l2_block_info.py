"""What a block of the engine's chain says of itself: its reference, its L1 origin's time and its system config."""

import msgspec

from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload, system_config_of_payload
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.l1_info import L1InfoError, l1_info_of_block
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.system_config import BlockConfigError
from rollup_node.stages.protocol.types import L2BlockRef


class L2BlockInfo(msgspec.Struct, frozen=True):
    """A block of the engine's chain; `origin_time` in Unix seconds, `config` as the block itself carries it [SYS27]."""

    ref: L2BlockRef
    origin_time: int
    config: SystemConfig


class UnreadableBlockError(ResetError):
    """The engine's chain has a block that no rollup node builds."""


def l2_block_info(payload: ExecutionPayload, rollup: RollupConfig) -> L2BlockInfo:
    """Reads a block of the engine's chain. Raises UnreadableBlockError when it is not of this rollup."""
    try:
        ref, config = l2_ref_of_payload(rollup, payload), system_config_of_payload(rollup, payload)
        if ref.number == rollup.genesis.l2.number:
            return L2BlockInfo(ref, rollup.genesis.l2_time, config)
        layout = rollup.schedule().l1_info_format(payload.timestamp)
        return L2BlockInfo(ref, l1_info_of_block(payload.transactions, layout).timestamp, config)
    except (BlockError, BlockConfigError, L1InfoError) as error:
        raise UnreadableBlockError(f"block {payload.block_number} of the engine cannot be read: {error}") from None
