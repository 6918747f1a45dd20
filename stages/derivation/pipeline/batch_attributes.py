"""The attributes of an accepted batch."""

from typing import NamedTuple

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.pipeline.block_gas import payload_transactions
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.protocol.attributes import prepare_attributes, with_transactions
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.l1_chains import L1Chain
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import L2BlockRef


class Chains(NamedTuple):
    """The two chains that attributes are made for."""

    rollup: RollupConfig
    l1: L1Chain


def batch_attributes(
    chains: Chains,
    l1_window: L1OriginWindow,
    batch: SingularBatch,
    parent: L2BlockRef,
    parent_config: SystemConfig,
) -> PayloadAttributes:
    """Return the attributes of the batch's block on `parent`, with all deposits of its epoch [AQ2, AQ6].

    Raises ResetError where the epoch does not follow from the parent's."""
    epoch = l1_window.block(batch.epoch_number)
    if epoch is None:
        raise CriticalError(f"the L1 origin {batch.epoch_number} of an accepted batch is not known")
    prepared = prepare_attributes(
        chains.rollup, chains.l1, parent, parent_config, epoch.header, epoch.deposits, epoch.config_updates
    )
    return with_transactions(
        prepared.attributes, payload_transactions(batch.transactions, prepared.attributes.gas_limit)
    )
