"""Execution of L2 blocks: deposits, L1 data fee and operator fee, fee vaults, system calls, header fields."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from rollup_node.stages.protocol.config import ChainOpConfig
from rollup_node.stages.protocol.forks.rules import L1InfoFormat, L2Rules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.headers import EMPTY_REQUESTS_HASH, Header, header_hash
from rollup_node.stages.protocol.l1_info import SIZES
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.system_config import ExtraDataError, decode_extra_data, encode_extra_data
from rollup_node.stages.protocol.transactions import BLOB
from rollup_node.stages.protocol.types import L2_TO_L1_MESSAGE_PASSER, OPERATOR_FEE_VAULT, ZERO_HASH, Hash, predeploy
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.engine.forks import (
    CREATE2_DEPLOYER,
    SIZE_SCALE,
    ExecutionRules,
    ExecutionSchedule,
    FeeParameters,
    create2_deployer_code,
    estimated_size_scaled,
)
from rollup_node.tools.devnet.evm.call_frame import BlockContext, TransactionEnvironment
from rollup_node.tools.devnet.evm.rules import next_base_fee
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.transactions import (
    AnyTransaction,
    Deposit,
    InvalidTransaction,
    SignedTransaction,
    UnusableTransaction,
)
from rollup_node.tools.devnet.evm.transition import (
    BEACON_ROOTS,
    BLOCK_HASHES,
    BlockExecution,
    ExecutedTransaction,
    ExecutionResult,
    ExtraFees,
    IntrinsicGas,
    intrinsic_gas,
    run_body,
)

BASE_FEE_VAULT = predeploy(0x19)
L1_FEE_VAULT = predeploy(0x1A)
_JOVIAN_INFO = SIZES[L1InfoFormat.JOVIAN]


class InvalidBlock(Exception):
    """The block is invalid; the text says why."""


class InvalidBlockTransaction(InvalidBlock):
    """Of the block's transactions, the one at `index` is invalid for the reason `cause`."""

    def __init__(self, index: int, cause: InvalidTransaction) -> None:
        super().__init__(f"transaction {index}: {cause}")
        self.index, self.cause = index, cause


class BlobTransaction(UnusableTransaction):
    """Blob transactions do not exist on an L2."""


class ChainSpec(NamedTuple):
    """A chain's parameters: its id, its forks by the node's table and by the execution table, EIP-1559 constants."""

    chain_id: int
    schedule: ForkSchedule
    execution: ExecutionSchedule
    constants: ChainOpConfig


class BlockAttributes(NamedTuple):
    """The inputs of a block besides its transactions."""

    timestamp: int
    prev_randao: Hash
    fee_recipient: bytes
    gas_limit: int
    extra_data: bytes
    parent_beacon_root: Hash | None


def block_attributes(chain: ChainSpec, payload_attributes: PayloadAttributes) -> BlockAttributes:
    """Return a block's inputs from payload attributes. Raises InvalidBlock for invalid fee parameters."""
    extra_data = encode_extra_data(payload_attributes.eip1559_params, payload_attributes.min_base_fee, chain.constants)
    check_extra_data(chain, payload_attributes.timestamp, extra_data)
    return BlockAttributes(
        timestamp=payload_attributes.timestamp,
        prev_randao=payload_attributes.prev_randao,
        fee_recipient=payload_attributes.fee_recipient,
        gas_limit=payload_attributes.gas_limit,
        extra_data=extra_data,
        parent_beacon_root=payload_attributes.parent_beacon_root,
    )


def check_extra_data(chain: ChainSpec, timestamp: int, extra_data: bytes) -> None:
    """Raise InvalidBlock unless extraData has the format of the block's fork [SYS36 to SYS38]."""
    try:
        decode_extra_data(extra_data, chain.schedule.l2(timestamp))
    except ExtraDataError as error:
        raise InvalidBlock(str(error)) from None


def l2_base_fee(chain: ChainSpec, parent: Header, timestamp: int) -> int:
    """Return the base fee of a child of `parent` in wei, by the parameters in the parent's extraData from Holocene on.

    Raises InvalidBlock where they are malformed."""
    constants, rules = chain.constants, chain.schedule.l2(parent.timestamp)
    elasticity, denominator, minimum = constants.eip1559_elasticity, constants.eip1559_denominator, 0
    if chain.execution.at(timestamp).canyon_denominator:
        denominator = constants.eip1559_denominator_canyon or denominator
    if rules.eip1559_params:
        try:
            extra = decode_extra_data(parent.extra_data, rules)
        except ExtraDataError as error:
            raise InvalidBlock(f"parent's {error}") from None
        elasticity, denominator, minimum = extra.elasticity, extra.denominator, extra.min_base_fee or 0
    gas = parent.gas_used
    if chain.execution.at(parent.timestamp).da_footprint:
        gas = max(gas, parent.blob_gas_used or 0)
    return max(next_base_fee(parent.gas_limit, gas, parent.base_fee or 0, elasticity, denominator), minimum)


class DaLimits(NamedTuple):
    """What a built block may take of data availability by Fjord's estimate, in bytes.

    One transaction, and all of the block. 0 is no limit."""

    transaction: int = 0
    block: int = 0


class L2Execution(BlockExecution):
    """An L2 block in execution on top of `parent`. Raises InvalidBlock where it cannot start."""

    def __init__(
        self,
        chain: ChainSpec,
        store: StateDatabase,
        parent: Block,
        attributes: BlockAttributes,
        block_hash: Callable[[int], Hash],
    ) -> None:
        if attributes.timestamp <= parent.header.timestamp:
            raise InvalidBlock(f"timestamp {attributes.timestamp} is not after the parent's {parent.header.timestamp}")
        self.l2: ExecutionRules = chain.execution.at(attributes.timestamp)
        self._headers: L2Rules = chain.schedule.l2(attributes.timestamp)
        self._parent = parent
        self._attributes = attributes
        self._da_footprint = 0
        self._da_limits, self._da_size = DaLimits(), 0
        self._parameters: FeeParameters | None = None
        context = BlockContext(
            number=parent.number + 1,
            timestamp=attributes.timestamp,
            coinbase=attributes.fee_recipient,
            gas_limit=attributes.gas_limit,
            base_fee=l2_base_fee(chain, parent.header, attributes.timestamp),
            prev_randao=attributes.prev_randao,
            chain_id=chain.chain_id,
            block_hash=block_hash,
        )
        super().__init__(State(store, parent.header.state_root), self.l2.evm, context, self._extra_fees)
        self._begin(chain.execution.places_create2_deployer(attributes.timestamp))

    def _begin(self, places_create2_deployer: bool) -> None:
        if places_create2_deployer:
            self.state.set_code(CREATE2_DEPLOYER, create2_deployer_code())
        if self._headers.beacon_root:
            if self._attributes.parent_beacon_root is None:
                raise InvalidBlock("missing parent beacon block root")
            self.system_call(BEACON_ROOTS, self._attributes.parent_beacon_root)
        if self.l2.block_hash_history:
            self.system_call(BLOCK_HASHES, self._parent.hash)

    def apply(self, transaction: AnyTransaction) -> ExecutedTransaction:
        """Execute a transaction and add it to the block.

        Raises InvalidTransaction, for a deposit only where the block has not enough gas left for it."""
        if isinstance(transaction, Deposit):
            self._parameters = None  # the L1 attributes deposit writes them
            return self._apply_deposit(transaction)
        if transaction.kind == BLOB:
            raise BlobTransaction("blob transactions are not supported")
        footprint, size = self._footprint_with(transaction), self._da_size_with(transaction)
        entry = super().apply(transaction)
        self._da_footprint, self._da_size = footprint, size
        return entry

    def limit_da(self, limits: DaLimits) -> None:
        """Limit the transactions that are applied from now on."""
        self._da_limits = limits

    def _da_size_with(self, transaction: SignedTransaction) -> int:
        """Return the estimated size of the block's signed transactions with one more.

        Raises InvalidTransaction above a limit."""
        limits = self._da_limits
        if limits == DaLimits():
            return self._da_size
        size = estimated_size_scaled(transaction.raw) // SIZE_SCALE
        if limits.transaction and size > limits.transaction:
            raise InvalidTransaction(f"estimated size of {size} bytes exceeds the limit of {limits.transaction}")
        if limits.block and self._da_size + size > limits.block:
            raise InvalidTransaction(f"estimated size of {size} bytes exceeds what is left of {limits.block}")
        return self._da_size + size

    def seal(self) -> Block:
        """Commit the state; the sealed block. Raises InvalidBlock without the deposit that the fork requires."""
        if self.l2.da_footprint and not self.executed:
            raise InvalidBlock("missing deposit transaction")
        attributes = self._attributes
        header = self.header(self._parent.hash, attributes.extra_data)
        root = attributes.parent_beacon_root
        header = with_fork_fields(header, self._headers, self.state, root, self._da_footprint)
        return Block(header_hash(header), header, tuple(self.executed))

    # --- deposits --------------------------------------------------------------------------------------------------

    def _apply_deposit(self, transaction: Deposit) -> ExecutedTransaction:
        deposit, state, sender = transaction.body, self.state, transaction.sender
        is_free = deposit.is_system and self.l2.system_deposits
        # Before Regolith a system deposit takes no gas from the block.
        if not is_free:
            self.require_gas(deposit.gas)
        state.begin_transaction()
        nonce = state.nonce(sender)
        if deposit.mint:
            state.add_balance(sender, deposit.mint)
        intrinsic = intrinsic_gas(self.rules, deposit.to, deposit.data)
        error = self._deposit_error(transaction, intrinsic)
        if error is not None:
            # L1 has taken the deposit, so the block includes it: the mint stays and the nonce rises.
            state.set_nonce(sender, nonce + 1)
            result = ExecutionResult(False, deposit.gas, 0, (), b"", None, error)
        else:
            environment = TransactionEnvironment(state, self.rules, self.context, sender, 0)
            result = run_body(environment, deposit.to, deposit.value, deposit.data, deposit.gas, intrinsic)
        state.end_transaction()
        if is_free:
            result = result._replace(gas_used=0)
        elif self.l2.deposits_use_all_gas:
            result = result._replace(gas_used=deposit.gas)
        version = self.l2.deposit_receipt_version
        extra: dict[str, object] = {} if self.l2.deposits_use_all_gas else {"depositNonce": hex(nonce)}
        if version is not None:
            extra["depositReceiptVersion"] = hex(version)
        return self.record(transaction, result, extra, () if version is None else (nonce, version))

    def _deposit_error(self, transaction: Deposit, intrinsic: IntrinsicGas) -> str | None:
        """Why a deposit is included as failed without running; its mint stays and its gas is used."""
        deposit, rules = transaction.body, self.rules
        if deposit.is_system and not self.l2.system_deposits:
            return "system transactions are not supported"
        if deposit.gas < max(intrinsic):
            return "intrinsic gas too low"
        if self.state.balance(transaction.sender) < deposit.value:
            return "insufficient funds for transfer"
        if deposit.to is None and rules.max_init_code is not None and len(deposit.data) > rules.max_init_code:
            return "max initcode size exceeded"
        return None

    # --- fees ------------------------------------------------------------------------------------------------------

    def _extra_fees(self, state: State, block: BlockContext, transaction: SignedTransaction) -> ExtraFees:
        if self._parameters is None:
            self._parameters = FeeParameters(state)
        return _RollupFees(self.l2, self._parameters, block.base_fee, transaction)

    def record(
        self,
        transaction: AnyTransaction,
        result: ExecutionResult,
        extra: dict[str, object],
        receipt_tail: tuple[int, ...],
    ) -> ExecutedTransaction:
        """As of any block, with the L1 data fee in the receipts of signed transactions."""
        if isinstance(transaction, SignedTransaction) and self._parameters is not None:
            parameters = self._parameters
            extra = extra | {
                "l1Fee": hex(self.l2.data_cost(parameters, transaction.raw)),
                "l1GasPrice": hex(parameters.base_fee),
            }
        return super().record(transaction, result, extra, receipt_tail)

    def _footprint_with(self, transaction: SignedTransaction) -> int:
        """Return the block's DA footprint with one more transaction. Raises UnusableTransaction above the gas limit."""
        if not self.l2.da_footprint:
            return 0
        size = estimated_size_scaled(transaction.raw) // SIZE_SCALE
        footprint = self._da_footprint + size * self._da_scalar()
        if footprint > self.context.gas_limit:
            raise UnusableTransaction(f"DA footprint {footprint} exceeds the block gas limit {self.context.gas_limit}")
        return footprint

    def _da_scalar(self) -> int:
        """Return the daFootprintGasScalar, from the L1 attributes deposit of the block [LIN22]."""
        first = self.executed[0].transaction if self.executed else None
        if not isinstance(first, Deposit):
            raise InvalidBlock("missing deposit transaction")
        data = first.body.data
        # Jovian's activation block still has Isthmus' L1 attributes, without the scalar.
        if len(data) < _JOVIAN_INFO:
            raise InvalidBlock("unexpected non-deposit transaction in the block that activates the DA footprint")
        return int.from_bytes(data[_JOVIAN_INFO - 2 : _JOVIAN_INFO], "big")


def with_fork_fields(
    header: Header, rules: L2Rules, state: State, parent_beacon_root: Hash | None, blob_gas_used: int = 0
) -> Header:
    """Return the header with the fields of its forks [HSH1].

    Before Isthmus the withdrawals root is that of an empty list."""
    if rules.withdrawals:
        root = state.storage_root(L2_TO_L1_MESSAGE_PASSER) if rules.withdrawals_root else EMPTY_ROOT
        header = replace(header, withdrawals_root=root)
    if rules.beacon_root:
        root = parent_beacon_root or ZERO_HASH
        header = replace(header, blob_gas_used=blob_gas_used, excess_blob_gas=0, parent_beacon_root=root)
    if rules.withdrawals_root:
        header = replace(header, requests_hash=EMPTY_REQUESTS_HASH)
    return header


class _RollupFees:
    """L1 data fee and operator fee of a transaction; the operator fee is prepaid for the whole gas limit."""

    def __init__(
        self, rules: ExecutionRules, parameters: FeeParameters, base_fee: int, transaction: SignedTransaction
    ) -> None:
        self._rules = rules
        self._parameters = parameters
        self._base_fee = base_fee
        self._data_cost = rules.data_cost(parameters, transaction.raw)
        self._operator_prepaid = self._operator_fee(transaction.body.gas)

    @property
    def prepaid(self) -> int:
        return self._data_cost + self._operator_prepaid

    def _operator_fee(self, gas: int) -> int:
        return 0 if self._rules.operator_fee is None else self._rules.operator_fee(self._parameters, gas)

    def distribute(self, state: State, gas_used: int) -> int:
        operator_fee = self._operator_fee(gas_used)
        state.add_balance(BASE_FEE_VAULT, gas_used * self._base_fee)
        state.add_balance(L1_FEE_VAULT, self._data_cost)
        if self._rules.operator_fee is not None:
            state.add_balance(OPERATOR_FEE_VAULT, operator_fee)
        return self._operator_prepaid - operator_fee
