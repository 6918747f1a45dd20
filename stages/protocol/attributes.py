"""Payload attributes for derivation and sequencer: what the engine builds a block from [ATT4 to ATT33]."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from rollup_node.stages.protocol import system_config
from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.deposits import is_deposit, user_deposits
from rollup_node.stages.protocol.errors import CriticalError, ResetError
from rollup_node.stages.protocol.forks.rules import L1InfoFormat
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.l1_chains import L1Chain, l1_blob_base_fee
from rollup_node.stages.protocol.l1_info import DEFAULT_DA_FOOTPRINT_GAS_SCALAR, L1Info, l1_info_deposit
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.types import (
    SEQUENCER_FEE_VAULT,
    U64_MASK,
    ZERO_HASH,
    L1Header,
    L2BlockRef,
    Log,
    MalformedLog,
)
from rollup_node.stages.protocol.upgrade_transactions import upgrade_gas, upgrade_transactions


class OriginMismatchError(ResetError):
    """The L1 origin does not follow from the parent's, or is younger than the block [ATT5, ATT6, ATT7]."""


class UndecodableDepositsError(CriticalError):
    """Some of the portal's logs do not decode [DEP15]."""

    def __init__(self, failures: tuple[MalformedLog, ...]) -> None:
        described = "; ".join(f"log {failure.log_index}: {failure.text[:200]}" for failure in failures[:3])
        super().__init__(f"failed to derive some deposits: {described}")
        self.failures = failures


class L1InfoCreationError(CriticalError):
    """The system config has a fee scalar that the L1 attributes cannot carry [SYS7]."""


class PreparedAttributes(NamedTuple):
    """Attributes without transactions of a batch or of the pool, and the system config that they were made with."""

    attributes: PayloadAttributes
    config: SystemConfig


def prepare_attributes(
    config: RollupConfig,
    l1_chain: L1Chain,
    parent: L2BlockRef,
    parent_config: SystemConfig,
    epoch: L1Header,
    deposits: Iterable[Log],
    config_updates: Iterable[Log],
) -> PreparedAttributes:
    """Return the attributes of the block after `parent` with L1 origin `epoch`: all its deposits, and `no_tx_pool` set.

    `parent_config` is the system config read back from the parent [SYS27]. The logs are those of the epoch; they count
    in its first block only [SYS24]. Raises OriginMismatchError, UndecodableDepositsError and L1InfoCreationError."""
    schedule = config.schedule()
    timestamp = parent.timestamp + config.block_time
    users: tuple[bytes, ...] = ()
    in_force, sequence_number = parent_config, parent.sequence_number + 1
    if parent.l1_origin.number != epoch.number:
        # That the number grows by one follows from the hash link [ATT5].
        if epoch.parent_hash != parent.l1_origin.hash:
            raise OriginMismatchError(
                f"cannot create new block with L1 origin {epoch.ref} (parent 0x{epoch.parent_hash.hex()})"
                f" on top of L1 origin {parent.l1_origin}"
            )
        users, failures = user_deposits(deposits, epoch.hash)
        if failures:
            raise UndecodableDepositsError(failures)
        in_force, _ = system_config.apply_updates(parent_config, config_updates, schedule.l1(epoch.timestamp))
        sequence_number = 0
    elif parent.l1_origin.hash != epoch.hash:
        raise OriginMismatchError(
            f"cannot create new block with L1 origin {epoch.ref} in conflict with L1 origin {parent.l1_origin}"
        )
    if timestamp < epoch.timestamp:
        raise OriginMismatchError(
            f"cannot build L2 block on top {parent} for time {timestamp}"
            f" before L1 origin {epoch.ref} at time {epoch.timestamp}"
        )
    layout = schedule.l1_info_format(timestamp)
    info = _l1_info(config, l1_chain, layout, in_force, epoch, sequence_number)
    first = l1_info_deposit(info, layout, schedule.l2(timestamp).system_deposits)
    return PreparedAttributes(_attributes(config, schedule, timestamp, in_force, epoch, (first, *users)), in_force)


def _l1_info(
    config: RollupConfig,
    l1_chain: L1Chain,
    layout: L1InfoFormat,
    in_force: SystemConfig,
    epoch: L1Header,
    sequence_number: int,
) -> L1Info:
    """Return the values of all layouts [LIN17 to LIN22]; the separate fee scalars only for a packed layout."""
    try:
        scalars = system_config.fee_scalars(in_force.scalar) if layout.packed else (0, 0)
    except system_config.ScalarError as error:
        raise L1InfoCreationError(f"failed to create l1InfoTx: {error}") from None
    return L1Info(
        number=epoch.number,
        timestamp=epoch.timestamp,
        base_fee=epoch.base_fee,
        block_hash=epoch.hash,
        sequence_number=sequence_number,
        batcher=in_force.batcher,
        overhead=in_force.overhead,
        scalar=in_force.scalar,
        base_fee_scalar=scalars[0],
        blob_base_fee_scalar=scalars[1],
        blob_base_fee=l1_blob_base_fee(l1_chain, epoch, config.pectra_blob_schedule_time),
        # The operator fee word: 20 unused bytes, scalar, constant [SYS1].
        operator_fee_scalar=int.from_bytes(in_force.operator_fee_params[20:24], "big"),
        operator_fee_constant=int.from_bytes(in_force.operator_fee_params[24:32], "big"),
        da_footprint_gas_scalar=in_force.da_footprint_gas_scalar or DEFAULT_DA_FOOTPRINT_GAS_SCALAR,
    )


def _attributes(
    config: RollupConfig,
    schedule: ForkSchedule,
    timestamp: int,
    in_force: SystemConfig,
    epoch: L1Header,
    deposits: tuple[bytes, ...],
) -> PayloadAttributes:
    rules, activations, gas_limit = schedule.l2(timestamp), schedule.activations(timestamp), in_force.gas_limit
    if activations:
        deposits += upgrade_transactions(config, activations)
        gas_limit += upgrade_gas(config, activations)
    return PayloadAttributes(
        timestamp=timestamp,
        prev_randao=epoch.mix_hash,
        fee_recipient=SEQUENCER_FEE_VAULT,
        withdrawals=rules.withdrawals,
        parent_beacon_root=(epoch.parent_beacon_root or ZERO_HASH) if rules.beacon_root else None,
        transactions=deposits,
        no_tx_pool=True,
        gas_limit=gas_limit & U64_MASK,  # op-node's sum wraps
        eip1559_params=in_force.eip1559_params if rules.eip1559_params else None,
        min_base_fee=in_force.min_base_fee if rules.min_base_fee else None,
    )


def with_transactions(attributes: PayloadAttributes, transactions: Iterable[bytes]) -> PayloadAttributes:
    """Return the attributes with a batch's transactions after the deposits [ATT9]."""
    return msgspec.structs.replace(attributes, transactions=(*attributes.transactions, *transactions))


def system_config_after(config: RollupConfig, attributes: PayloadAttributes, number: int) -> SystemConfig:
    """Return the system config that is read back from block `number` once an engine has built it from these attributes.

    It may differ from the one they were made with: values that the block cannot carry are lost [SYS40 to SYS44]. Raises
    CriticalError if the rollup config lacks the EIP-1559 constants."""
    extra_data = b""
    if attributes.eip1559_params is not None:
        if config.chain_op_config is None:
            raise CriticalError("the rollup config has no chain_op_config, which Holocene blocks need")
        extra_data = system_config.encode_extra_data(
            attributes.eip1559_params, attributes.min_base_fee, config.chain_op_config
        )
    return system_config.system_config_of_block(
        config,
        number=number,
        block_hash=ZERO_HASH,
        timestamp=attributes.timestamp,
        gas_limit=attributes.gas_limit,
        extra_data=extra_data,
        transactions=attributes.transactions,
    )


def deposits_only(attributes: PayloadAttributes) -> PayloadAttributes:
    """Return the same attributes without every transaction that is no deposit [ATT36]."""
    kept = tuple(transaction for transaction in attributes.transactions if is_deposit(transaction))
    return msgspec.structs.replace(attributes, transactions=kept)


def is_deposits_only(attributes: PayloadAttributes) -> bool:
    """Whether all transactions are deposits, as in a list without any [ATT41]."""
    return all(map(is_deposit, attributes.transactions))
