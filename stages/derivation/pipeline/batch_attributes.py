"""The attributes of accepted batches; those of a pending span before the engine has built the blocks before them.

The blocks of an accepted span are fixed: of its parent, a block's attributes take the number, the time, the L1 origin
and the system config, which follow from the parent's own attributes, and not the hash. At the end of a span the hash
is needed, to check the next batch against. A fork of the batch stage does the work, so that the stage stays at the
block that the engine is to answer, and a refused or replaced block leaves nothing to undo."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from rollup_node.stages.derivation.codec.batches import SingularBatch
from rollup_node.stages.derivation.codec.packed import PackedTransactions, Transactions
from rollup_node.stages.derivation.pipeline.batch_stages import AcceptedBatch, BaseBatchStage
from rollup_node.stages.derivation.pipeline.l1_origins import L1OriginWindow
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.attributes import prepare_attributes, system_config_after, with_transactions
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.errors import CriticalError, ResetError
from rollup_node.stages.protocol.l1_chains import L1Chain
from rollup_node.stages.protocol.l1_info import L1InfoError, l1_info_of_block
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.system_config import BlockConfigError
from rollup_node.stages.protocol.transactions import POST_EXEC
from rollup_node.stages.protocol.types import ZERO_HASH, L1Block, L2BlockRef
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
    for part in transactions.parts(cut=largest, uncut=bytes((POST_EXEC,))):
        for transaction in part.transactions:
            yield transaction
            gas += least_gas(transaction[0], len(transaction))
            if is_complete or gas > gas_limit:
                return
            is_complete = transaction[0] == POST_EXEC


class Lookahead:
    """State: the last attributes, and those that were derived ahead and not confirmed, each with its batch."""

    def __init__(self, chains: Chains, fork: BaseBatchStage, block: L1Block, first: AttributesReady) -> None:
        self._chains, self._fork, self._block, self._last = chains, fork, block, first
        self._unconfirmed: deque[tuple[AttributesReady, SingularBatch]] = deque()
        self._ended = False

    def next(self) -> AttributesReady | None:
        """Return the attributes of the next block of the span.

        None at its end, before a foreign fork [LFT3], and where it is the stage itself that drops the block or stops
        at it."""
        result = None
        if not self._ended:
            with suppress(ResetError, CriticalError):
                result = self._derive()
        self._ended = result is None
        return result

    def _derive(self) -> AttributesReady | None:
        built = block_of(self._chains.rollup, self._last)
        if built is None:
            return None
        parent, config = built
        if self._chains.rollup.ends_at(parent.number):
            return None
        accepted = self._fork.next(parent, self._block)
        if not isinstance(accepted, AcceptedBatch):
            return None
        attributes = batch_attributes(self._chains, self._fork.l1_window, accepted.batch, parent, config)
        derived_from = self._last.derived_from
        self._last = AttributesReady(0, 0, parent, attributes, derived_from, accepted.concluding, config)
        self._unconfirmed.append((self._last, accepted.batch))
        return self._last

    def confirm(
        self, accepted: AcceptedBatch, parent: L2BlockRef, parent_config: SystemConfig
    ) -> AttributesReady | None:
        """Return the attributes derived ahead for this batch, now with its parent; None if they are others."""
        if not self._unconfirmed:
            return None
        ahead, batch = self._unconfirmed.popleft()
        same = (
            is_predicted(ahead.parent, parent)
            and ahead.parent_config == parent_config
            and ahead.concluding == accepted.concluding
            and batch == msgspec.structs.replace(accepted.batch, parent_hash=batch.parent_hash)
        )
        return msgspec.structs.replace(ahead, parent=parent, parent_config=None) if same else None


def block_of(rollup: RollupConfig, derived: AttributesReady) -> tuple[L2BlockRef, SystemConfig] | None:
    """Return the block that an engine builds of attributes, unhashed, and its config; None if they do not say."""
    attributes, number = derived.attributes, derived.parent.number + 1
    try:
        info = l1_info_of_block(attributes.transactions, rollup.schedule().l1_info_format(attributes.timestamp))
        config = system_config_after(rollup, attributes, number)
    except (L1InfoError, BlockConfigError):
        return None
    return L2BlockRef(ZERO_HASH, number, ZERO_HASH, attributes.timestamp, info.origin, info.sequence_number), config


def is_predicted(predicted: L2BlockRef, block: L2BlockRef) -> bool:
    """Whether a block is the predicted one, whose hashes are not known."""
    return predicted == msgspec.structs.replace(block, hash=ZERO_HASH, parent_hash=ZERO_HASH)
