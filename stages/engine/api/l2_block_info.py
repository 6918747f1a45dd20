"""What a block of the engine's chain says about itself: its reference, its L1 origin's time and its system config."""

import msgspec

from rollup_node.stages.protocol.block_refs import BlockError, l2_ref_of_payload, system_config_of_payload
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import ResetError
from rollup_node.stages.protocol.l1_info import L1InfoError, l1_info_of_block
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.system_config import BlockConfigError
from rollup_node.stages.protocol.types import L2BlockRef


class KnownBlock(msgspec.Struct, frozen=True):
    """A block of the engine; `origin_time` in seconds, `config` the one that stands in it (attributes-rules 3.4)."""

    ref: L2BlockRef
    origin_time: int
    config: SystemConfig


class UnreadableBlockError(ResetError):
    """The engine's chain has a block that no rollup node made."""


def known_block(payload: ExecutionPayload, rollup: RollupConfig) -> KnownBlock:
    """Reads a block of the engine's chain; UnreadableBlockError if it is not of this rollup."""
    try:
        ref, config = l2_ref_of_payload(rollup, payload), system_config_of_payload(rollup, payload)
        if ref.number == rollup.genesis.l2.number:
            return KnownBlock(ref, rollup.genesis.l2_time, config)
        layout = rollup.schedule().l1_info_format(payload.timestamp)
        return KnownBlock(ref, l1_info_of_block(payload.transactions, layout).timestamp, config)
    except (BlockError, BlockConfigError, L1InfoError) as error:
        raise UnreadableBlockError(f"block {payload.block_number} of the engine cannot be read: {error}") from None
