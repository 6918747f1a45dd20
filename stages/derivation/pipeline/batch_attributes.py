"""The attributes of an accepted batch."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.codec.packed import PackedTransactions, Transactions
from rollup_node.stages.derivation.pipeline.batch_checks import POST_EXEC_TYPE
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.protocol.attributes import prepare_attributes, with_transactions
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.l1_chains import L1Chain
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import L2BlockRef
from rollup_node.stages.protocol.unexecutable import FIXED_BYTES, LEAST_GAS_PER_BYTE, least_gas


class Chains(NamedTuple):
    """The two chains that attributes are made for."""

    rollup: RollupConfig
    l1: L1Chain


def batch_attributes(
    chains: Chains, l1_window: L1OriginWindow, batch: SingularBatch, parent: L2BlockRef, parent_config: SystemConfig
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


def payload_transactions(transactions: Transactions, gas_limit: int) -> Iterable[bytes]:
    """Return the transactions of a block; of packed ones no more than are certain to exceed the gas limit.

    Nor more than the first behind a post-exec one. A transaction that alone exceeds the limit may be cut off:
    whatever it begins with takes too much gas, or is no transaction."""
    return _first(transactions, gas_limit) if isinstance(transactions, PackedTransactions) else transactions


def _first(transactions: PackedTransactions, gas_limit: int) -> Iterator[bytes]:
    gas, is_complete = 0, False
    largest = gas_limit // LEAST_GAS_PER_BYTE + FIXED_BYTES
    for part in transactions.parts(cut=largest, uncut=bytes((POST_EXEC_TYPE,))):
        for transaction in part.transactions:
            yield transaction
            gas += least_gas(transaction[0], len(transaction))
            if is_complete or gas > gas_limit:
                return
            is_complete = transaction[0] == POST_EXEC_TYPE
