"""The payload attributes of a sequenced block [ATT24, SEQ19]."""

import msgspec

from rollup_node.stages.protocol.attributes import prepare_attributes
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.l1_chains import L1Chain
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import L1Block, L2BlockRef


def sequencer_attributes(
    rollup: RollupConfig,
    l1_chain: L1Chain,
    parent: L2BlockRef,
    parent_config: SystemConfig,
    epoch: L1Block,
    recover: bool,
) -> PayloadAttributes:
    """The attributes of the block after `parent` with the L1 origin `epoch`. The engine adds transactions of its pool
    unless the block is more than the sequencer drift after its origin, activates a fork whose first block stays empty,
    or the sequencer is in recover mode [SEQ19]."""
    header = epoch.header
    prepared = prepare_attributes(
        rollup, l1_chain, parent, parent_config, header, epoch.deposits, epoch.config_updates
    ).attributes
    schedule = rollup.schedule()
    drifted = prepared.timestamp > header.timestamp + schedule.epoch(header.timestamp).max_sequencer_drift
    upgrade = any(activation.sequencer_no_tx_pool for activation in schedule.activations(prepared.timestamp))
    return msgspec.structs.replace(prepared, no_tx_pool=drifted or upgrade or recover)
