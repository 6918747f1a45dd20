"""Applies a transaction to the state: validity checks, intrinsic gas, the message call, refunds and fees."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.headers import EMPTY_UNCLES_HASH, ZERO_NONCE, Header
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.receipts import bloom_mask
from rollup_node.stages.protocol.secp256k1 import ORDER, recover_address
from rollup_node.stages.protocol.transactions import (
    AccessTuple,
    Authorization,
    Transaction,
)
from rollup_node.stages.protocol.types import Address, Hash
from rollup_node.tools.devnet.evm.call_frame import (
    SYSTEM_ADDRESS,
    BlockContext,
    CallMessage,
    TransactionEnvironment,
)
from rollup_node.tools.devnet.evm.interpreter import execute
from rollup_node.tools.devnet.evm.rules import BLOB_GAS, EvmRules
from rollup_node.tools.devnet.evm.state import EventLog, State
from rollup_node.tools.devnet.evm.system_instructions import (
    CREATE_GAS,
    DELEGATION_PREFIX,
    MAX_NONCE,
    created_address,
    delegation_target,
)
from rollup_node.tools.devnet.evm.transactions import (
    AnyTransaction,
    InvalidTransaction,
    SignedTransaction,
    UnusableTransaction,
)

_BASE_GAS = 21_000
_AUTHORIZATION_GAS = 25_000
_AUTHORIZATION_REFUND = 12_500
_REFUND_QUOTIENT = 5
_FLOOR_GAS = 10


class IntrinsicGas(NamedTuple):
    """The gas charged before any code runs, and the minimum of gas used by calldata (EIP-7623)."""

    gas: int
    floor: int


class ExecutionResult(NamedTuple):
    """The result of an included transaction.

    `gas_price` is the effective price in wei, `output` the return data, `created` the address of a created contract,
    and `error` says why a failed one failed."""

    succeeded: bool
    gas_used: int
    gas_price: int
    logs: tuple[EventLog, ...]
    output: bytes
    created: Address | None
    error: str


class ExtraFees(Protocol):
    """The fees of a transaction besides that for its gas."""

    @property
    def prepaid(self) -> int:
        """Wei that the sender pays in advance."""

    def distribute(self, state: State, gas_used: int) -> int:
        """Credit all fees but the tip to their recipients; the wei of `prepaid` that are refunded."""


ExtraFeesFunction = Callable[[State, BlockContext, SignedTransaction], ExtraFees]


class NoExtraFees:
    """Ethereum's rule: no other fees, and the base fee is burnt."""

    prepaid = 0

    def distribute(self, state: State, gas_used: int) -> int:
        return 0


def burn_base_fee(state: State, block: BlockContext, transaction: SignedTransaction) -> ExtraFees:
    """Return the `ExtraFeesFunction` of an L1."""
    return NoExtraFees()


def intrinsic_gas(
    rules: EvmRules, to: Address | None, data: bytes, access_list: tuple[AccessTuple, ...] = (), authorizations: int = 0
) -> IntrinsicGas:
    """Return the intrinsic gas of a transaction: base price, calldata, access list, authorizations and init code."""
    zeros = data.count(0)
    tokens = 4 * len(data) - 3 * zeros
    gas = _BASE_GAS + 4 * tokens + _AUTHORIZATION_GAS * authorizations
    gas += sum(2400 + 1900 * len(access.slots) for access in access_list)
    if to is None:
        gas += CREATE_GAS + rules.init_code_word_gas * ((len(data) + 31) >> 5)
    return IntrinsicGas(gas, _BASE_GAS + _FLOOR_GAS * tokens if rules.floor_gas else 0)


def apply_transaction(
    state: State, rules: EvmRules, block: BlockContext, transaction: SignedTransaction, extra_fees: ExtraFeesFunction
) -> ExecutionResult:
    """Execute a transaction in a block whose remaining gas the caller has checked.

    Raises InvalidTransaction, with the state unchanged."""
    body, sender = transaction.body, transaction.sender
    state.begin_transaction()
    intrinsic = intrinsic_gas(rules, body.to, body.data, body.access_list, len(body.authorizations))
    _check(state, rules, block, transaction, intrinsic)
    fees = extra_fees(state, block, transaction)
    blob_gas = BLOB_GAS * len(body.blob_hashes)
    cost = body.gas * body.max_fee + body.value + blob_gas * body.max_blob_fee + fees.prepaid
    if state.balance(sender) < cost:
        raise InvalidTransaction(f"insufficient funds: 0x{sender.hex()} has {state.balance(sender)}, needs {cost}")
    price = min(body.max_fee, block.base_fee + body.max_priority_fee)
    state.subtract_balance(sender, body.gas * price + blob_gas * block.blob_base_fee + fees.prepaid)
    environment = TransactionEnvironment(state, rules, block, sender, price, body.blob_hashes)
    result = run_body(environment, body.to, body.value, body.data, body.gas, intrinsic, body)
    state.add_balance(sender, (body.gas - result.gas_used) * price + fees.distribute(state, result.gas_used))
    state.add_balance(block.coinbase, result.gas_used * (price - block.base_fee))
    state.end_transaction()
    return result


def _check(
    state: State, rules: EvmRules, block: BlockContext, transaction: SignedTransaction, intrinsic: IntrinsicGas
) -> None:
    """All validity checks except the balance. Raises InvalidTransaction."""
    body, sender = transaction.body, transaction.sender
    nonce = state.nonce(sender)
    if body.nonce != nonce:
        raise InvalidTransaction(f"nonce too {'low' if body.nonce < nonce else 'high'}: {body.nonce}, next is {nonce}")
    if nonce >= MAX_NONCE:
        raise InvalidTransaction("nonce has max value")
    code = state.code(sender)
    if code and not (rules.delegations and delegation_target(code)):  # EIP-3607; EIP-7702 allows delegating accounts
        raise InvalidTransaction(f"sender 0x{sender.hex()} is a contract")
    if body.max_priority_fee > body.max_fee:
        raise InvalidTransaction("max priority fee per gas higher than max fee per gas")
    if body.max_fee < block.base_fee:
        raise InvalidTransaction(f"max fee per gas less than block base fee: {body.max_fee} < {block.base_fee}")
    needed = max(intrinsic)
    if body.gas < needed:
        raise InvalidTransaction(f"intrinsic gas too low: have {body.gas}, want {needed}")
    if rules.max_transaction_gas is not None and body.gas > rules.max_transaction_gas:
        raise InvalidTransaction(f"transaction gas limit too high: {body.gas} > {rules.max_transaction_gas}")
    if body.to is None and rules.max_init_code is not None and len(body.data) > rules.max_init_code:
        raise InvalidTransaction(f"max initcode size exceeded: {len(body.data)} > {rules.max_init_code}")
    _check_kind(rules, block, body)


def _check_kind(rules: EvmRules, block: BlockContext, body: Transaction) -> None:
    """Check the rules of blob and set-code transactions. Raises InvalidTransaction."""
    if body.kind == 3:
        if rules.blobs is None:
            raise InvalidTransaction("blob transactions are not supported")
        limit = rules.blobs.per_transaction or rules.blobs.maximum
        if not 0 < len(body.blob_hashes) <= limit:
            raise InvalidTransaction(f"blob transaction must have 1 to {limit} blobs, has {len(body.blob_hashes)}")
        if any(blob_hash[0] != 1 for blob_hash in body.blob_hashes):
            raise InvalidTransaction("blob hash of an unknown version")
        if body.max_blob_fee < block.blob_base_fee:
            raise InvalidTransaction(
                f"max fee per blob gas less than block blob gas fee: {body.max_blob_fee} < {block.blob_base_fee}"
            )
    if body.kind == 4:
        if not rules.delegations:
            raise InvalidTransaction("set-code transactions are not supported")
        if not body.authorizations:
            raise InvalidTransaction("set-code transaction without authorizations")


def run_body(
    environment: TransactionEnvironment,
    to: Address | None,
    value: int,
    data: bytes,
    gas_limit: int,
    intrinsic: IntrinsicGas,
    body: Transaction | None = None,
) -> ExecutionResult:
    """Increment the sender's nonce and run the message; the result's gas used is after refunds."""
    state, rules, sender = environment.state, environment.rules, environment.origin
    nonce = state.nonce(sender)
    state.set_nonce(sender, nonce + 1)
    state.preload(rules.warm_addresses())
    state.preload(frozenset((sender,)))
    if rules.warm_coinbase:
        state.preload(frozenset((environment.block.coinbase,)))
    if body is not None:
        _preload_access_list(state, body.access_list)
        for authorization in body.authorizations:
            _delegate(environment, authorization)
    address = created_address(sender, nonce) if to is None else to
    state.preload(frozenset((address,)))
    message = CallMessage(
        caller=sender,
        address=address,
        code_address=address,
        code=data if to is None else _called_code(environment, address),
        value=value,
        data=b"" if to is None else data,
        gas=gas_limit - intrinsic.gas,
        creates=to is None,
    )
    frame = execute(environment, message)
    used = gas_limit - frame.gas
    # EIP-3529 bounds the refund, and EIP-7623's floor holds after it.
    used = max(used - min(state.refund, used // _REFUND_QUOTIENT), intrinsic.floor)
    created = address if to is None else None
    logs = tuple(state.logs)
    return ExecutionResult(frame.succeeded, used, environment.gas_price, logs, frame.output, created, frame.error)


def _preload_access_list(state: State, access_list: tuple[AccessTuple, ...]) -> None:
    for access in access_list:
        state.warm_up(access.address)
        for slot in access.slots:
            state.warm_up((access.address, int.from_bytes(slot, "big")))


def _called_code(environment: TransactionEnvironment, address: Address) -> bytes:
    """Return the code of a transaction's recipient, following a delegation (EIP-7702)."""
    code = environment.state.code(address)
    delegate = delegation_target(code) if environment.rules.delegations else None
    if delegate is None:
        return code
    environment.state.warm_up(delegate)
    return environment.state.code(delegate)


def _delegate(environment: TransactionEnvironment, authorization: Authorization) -> None:
    """Set the code of an authority to a delegation; an invalid authorization is skipped (EIP-7702)."""
    state = environment.state
    authority = _authority(environment, authorization)
    if authority is None:
        return
    state.warm_up(authority)  # stays even where the authorization is skipped below
    code = state.code(authority)
    if (code and delegation_target(code) is None) or state.nonce(authority) != authorization.nonce:
        return
    if state.is_alive(authority):
        state.refund += _AUTHORIZATION_REFUND
    target = authorization.address
    # The zero address clears a delegation.
    state.set_code(authority, DELEGATION_PREFIX + target if any(target) else b"")
    state.set_nonce(authority, authorization.nonce + 1)


def _authority(environment: TransactionEnvironment, authorization: Authorization) -> Address | None:
    """Return the signer of an authorization, or None where it is invalid on this chain."""
    chain_id, address, nonce, parity, r, s = authorization
    if chain_id not in (0, environment.block.chain_id) or nonce >= MAX_NONCE or parity > 1:
        return None
    if not 0 < r < ORDER or not 0 < s <= ORDER // 2:
        return None
    fields = (rlp.encode_int(chain_id), rlp.encode_bytes(address), rlp.encode_int(nonce))
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes((parity,))
    return recover_address(keccak256(b"\x05" + rlp.encode_list(fields)), signature)


BEACON_ROOTS: Address = bytes.fromhex("000f3df6d732807ef1319fb7b8bb8522d0beac02")
BLOCK_HASHES: Address = bytes.fromhex("0000f90827f1c53a10cb7a02335b175320002935")
_SYSTEM_GAS = 30_000_000


class ExecutedTransaction(NamedTuple):
    """A transaction of a block with its receipt.

    `log_index` is the index of its first log in the block; `extra` has the chain's additional receipt fields as JSON
    values."""

    transaction: AnyTransaction
    result: ExecutionResult
    cumulative_gas: int
    bloom: int
    receipt: bytes
    log_index: int
    extra: dict[str, object]


class BlockExecution:
    """Applies transactions to the parent's state, both to build a block and to validate one."""

    def __init__(self, state: State, rules: EvmRules, context: BlockContext, extra_fees: ExtraFeesFunction) -> None:
        self.state = state
        self.rules = rules
        self.context = context
        self.executed: list[ExecutedTransaction] = []
        self.gas_used = 0
        self.blob_gas_used = 0
        self.bloom = 0
        self._extra_fees = extra_fees
        self._logs = 0

    @property
    def gas_left(self) -> int:
        """The gas left for further transactions."""
        return self.context.gas_limit - self.gas_used

    def system_call(self, address: Address, data: bytes) -> None:
        """Call a system contract (EIP-4788, EIP-2935); does nothing where it has no code."""
        code = self.state.code(address)
        if not code:
            return
        self.state.begin_transaction()
        environment = TransactionEnvironment(self.state, self.rules, self.context, SYSTEM_ADDRESS, 0)
        self.state.preload(self.rules.warm_addresses())
        execute(environment, CallMessage(SYSTEM_ADDRESS, address, address, code, 0, data, _SYSTEM_GAS))
        self.state.end_transaction()
        self.state.note_access(0)

    def apply(self, transaction: AnyTransaction) -> ExecutedTransaction:
        """Execute a transaction and add it to the block. Raises InvalidTransaction and leaves the block unchanged."""
        if not isinstance(transaction, SignedTransaction):
            raise InvalidTransaction("this chain has no deposit transactions")
        body = transaction.body
        self.require_gas(body.gas)
        blob_gas = BLOB_GAS * len(body.blob_hashes)
        blobs = self.rules.blobs
        if blobs is not None and self.blob_gas_used + blob_gas > BLOB_GAS * blobs.maximum:
            raise InvalidTransaction("blob gas limit of the block reached")
        result = apply_transaction(self.state, self.rules, self.context, transaction, self._extra_fees)
        self.blob_gas_used += blob_gas
        fees = {"blobGasUsed": hex(blob_gas), "blobGasPrice": hex(self.context.blob_base_fee)} if blob_gas else {}
        return self.record(transaction, result, dict(fees), ())

    def require_gas(self, gas: int) -> None:
        """Raise UnusableTransaction where the block has less gas left."""
        if gas > self.gas_left:
            raise UnusableTransaction(f"gas limit of the block reached: have {self.gas_left}, want {gas}")

    def record(
        self,
        transaction: AnyTransaction,
        result: ExecutionResult,
        extra: dict[str, object],
        receipt_tail: tuple[int, ...],
    ) -> ExecutedTransaction:
        """Add an executed transaction; `receipt_tail` has the receipt's fields after the four of Ethereum."""
        self.gas_used += result.gas_used
        bloom = 0
        for log in result.logs:
            bloom |= bloom_mask(log.address)
            for topic in log.topics:
                bloom |= bloom_mask(topic)
        receipt = encode_receipt(transaction.kind, result.succeeded, self.gas_used, bloom, result.logs, receipt_tail)
        entry = ExecutedTransaction(transaction, result, self.gas_used, bloom, receipt, self._logs, extra)
        self.bloom |= bloom
        self._logs += len(result.logs)
        self.executed.append(entry)
        self.state.note_access(len(self.executed))
        return entry

    def header(self, parent_hash: Hash, extra_data: bytes = b"") -> Header:
        """Commit the state, and return the header of the block without the fields of forks after London."""
        context = self.context
        return Header(
            parent_hash=parent_hash,
            uncles_hash=EMPTY_UNCLES_HASH,
            miner=context.coinbase,
            state_root=self.state.commit(),
            transactions_root=ordered_root([entry.transaction.raw for entry in self.executed]),
            receipts_root=ordered_root([entry.receipt for entry in self.executed]),
            logs_bloom=self.bloom.to_bytes(256, "big"),
            difficulty=0,
            number=context.number,
            gas_limit=context.gas_limit,
            gas_used=self.gas_used,
            timestamp=context.timestamp,
            extra_data=extra_data,
            mix_hash=context.prev_randao,
            nonce=ZERO_NONCE,
            base_fee=context.base_fee,
        )


def encode_receipt(
    kind: int, succeeded: bool, cumulative_gas: int, bloom: int, logs: tuple[EventLog, ...], tail: tuple[int, ...] = ()
) -> bytes:
    """Return the consensus encoding of a receipt."""
    parts = [
        rlp.encode_int(1 if succeeded else 0),
        rlp.encode_int(cumulative_gas),
        rlp.encode_bytes(bloom.to_bytes(256, "big")),
        rlp.encode([[log.address, log.topics, log.data] for log in logs]),
        *map(rlp.encode_int, tail),
    ]
    body = rlp.encode_list(parts)
    return body if kind == 0 else bytes((kind,)) + body
