"""What one transaction does to the state: checks, intrinsic gas, the message, refunds and fees."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.transactions import (
    CURVE_ORDER,
    AccessTuple,
    Authorization,
    Transaction,
    public_key_address,
)
from rollup_node.stages.protocol.types import Address
from rollup_node.tools.devnet.evm.fees import BLOB_GAS
from rollup_node.tools.devnet.evm.frame import BlockContext, Environment, Message
from rollup_node.tools.devnet.evm.instructions.calls import (
    CREATE_GAS,
    DELEGATION_PREFIX,
    MAX_NONCE,
    created_address,
    delegation_target,
)
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import EventLog, State
from rollup_node.tools.devnet.evm.state_transition.machine import execute
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction, SignedTransaction

_BASE_GAS = 21_000
_AUTHORIZATION_GAS = 25_000
_AUTHORIZATION_REFUND = 12_500
_REFUND_QUOTIENT = 5
_FLOOR_GAS = 10


class Intrinsic(NamedTuple):
    """Gas a transaction takes before any code runs, and the least it may take in all (EIP-7623)."""

    gas: int
    floor: int


class Outcome(NamedTuple):
    """What became of a transaction that is in the block. `gas_price` in wei is what was really paid; `problem` says
    why it failed; `output` is what the code answered, `created` the address of a creation."""

    succeeded: bool
    gas_used: int
    gas_price: int
    logs: tuple[EventLog, ...]
    output: bytes
    created: Address | None
    problem: str


class Quote(Protocol):
    """Fees of a transaction beyond those for its gas."""

    @property
    def held(self) -> int:
        """Wei the sender must have, and pays at first."""

    def settle(self, state: State, gas_used: int) -> int:
        """Hands out all fees but the tip; wei of `held` that go back to the sender."""


FeeRules = Callable[[State, BlockContext, SignedTransaction], Quote]


class NoQuote:
    """Ethereum's own rule: nothing beyond gas, and the base fee is burnt."""

    held = 0

    def settle(self, state: State, gas_used: int) -> int:
        return 0


def burn_base_fee(state: State, block: BlockContext, transaction: SignedTransaction) -> Quote:
    """The fee rules of an L1."""
    return NoQuote()


def intrinsic_gas(
    rules: EvmRules, to: Address | None, data: bytes, access_list: tuple[AccessTuple, ...] = (), authorizations: int = 0
) -> Intrinsic:
    """Base price, call data, access list, authorizations, and init code."""
    zeros = data.count(0)
    tokens = 4 * len(data) - 3 * zeros
    gas = _BASE_GAS + 4 * tokens + _AUTHORIZATION_GAS * authorizations
    gas += sum(2400 + 1900 * len(access.slots) for access in access_list)
    if to is None:
        gas += CREATE_GAS + rules.init_code_word_gas * ((len(data) + 31) >> 5)
    return Intrinsic(gas, _BASE_GAS + _FLOOR_GAS * tokens if rules.floor_gas else 0)


def apply_transaction(
    state: State, rules: EvmRules, block: BlockContext, transaction: SignedTransaction, fees: FeeRules
) -> Outcome:
    """Executes a transaction in a block; InvalidTransaction, with the state untouched, where no block could hold it.
    That its gas fits into the block is for the caller to see to."""
    body, sender = transaction.body, transaction.sender
    state.begin_transaction()
    intrinsic = intrinsic_gas(rules, body.to, body.data, body.access_list, len(body.authorizations))
    _check(state, rules, block, transaction, intrinsic)
    quote = fees(state, block, transaction)
    blob_gas = BLOB_GAS * len(body.blob_hashes)
    most = body.gas * body.max_fee + body.value + blob_gas * body.max_blob_fee + quote.held
    if state.balance(sender) < most:
        raise InvalidTransaction(f"insufficient funds: 0x{sender.hex()} has {state.balance(sender)}, needs {most}")
    price = min(body.max_fee, block.base_fee + body.max_priority_fee)
    state.subtract_balance(sender, body.gas * price + blob_gas * block.blob_base_fee + quote.held)
    environment = Environment(state, rules, block, sender, price, body.blob_hashes)
    outcome = run_body(environment, body.to, body.value, body.data, body.gas, intrinsic, body)
    state.add_balance(sender, (body.gas - outcome.gas_used) * price + quote.settle(state, outcome.gas_used))
    state.add_balance(block.coinbase, outcome.gas_used * (price - block.base_fee))
    state.end_transaction()
    return outcome


def _check(
    state: State, rules: EvmRules, block: BlockContext, transaction: SignedTransaction, intrinsic: Intrinsic
) -> None:
    """Everything but the balance."""
    body, sender = transaction.body, transaction.sender
    nonce = state.nonce(sender)
    if body.nonce != nonce:
        raise InvalidTransaction(f"nonce too {'low' if body.nonce < nonce else 'high'}: {body.nonce}, next is {nonce}")
    if nonce >= MAX_NONCE:
        raise InvalidTransaction("nonce has max value")
    code = state.code(sender)
    if code and not (rules.delegations and delegation_target(code)):
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
    """Rules of blob and set-code transactions."""
    if body.kind == 3:
        if rules.blobs is None:
            raise InvalidTransaction("blob transactions are not supported")
        most = rules.blobs.per_transaction or rules.blobs.maximum
        if not 0 < len(body.blob_hashes) <= most:
            raise InvalidTransaction(f"blob transaction must have 1 to {most} blobs, has {len(body.blob_hashes)}")
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
    environment: Environment,
    to: Address | None,
    value: int,
    data: bytes,
    gas_limit: int,
    intrinsic: Intrinsic,
    body: Transaction | None = None,
) -> Outcome:
    """Raises the sender's nonce and runs the message; gas used is after refunds."""
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
    message = Message(
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
    used = max(used - min(state.refund, used // _REFUND_QUOTIENT), intrinsic.floor)
    created = address if to is None else None
    logs = tuple(state.logs)
    return Outcome(frame.succeeded, used, environment.gas_price, logs, frame.output, created, frame.problem)


def _preload_access_list(state: State, access_list: tuple[AccessTuple, ...]) -> None:
    for access in access_list:
        state.warm_up(access.address)
        for slot in access.slots:
            state.warm_up((access.address, int.from_bytes(slot, "big")))


def _called_code(environment: Environment, address: Address) -> bytes:
    """The code of a transaction's recipient, through a delegation (EIP-7702)."""
    code = environment.state.code(address)
    delegate = delegation_target(code) if environment.rules.delegations else None
    if delegate is None:
        return code
    environment.state.warm_up(delegate)
    return environment.state.code(delegate)


def _delegate(environment: Environment, authorization: Authorization) -> None:
    """Sets an authority's code to a delegation; an invalid authorization does nothing (EIP-7702)."""
    state = environment.state
    authority = _authority(environment, authorization)
    if authority is None:
        return
    state.warm_up(authority)
    code = state.code(authority)
    if (code and delegation_target(code) is None) or state.nonce(authority) != authorization.nonce:
        return
    if state.is_alive(authority):
        state.refund += _AUTHORIZATION_REFUND
    target = authorization.address
    state.set_code(authority, DELEGATION_PREFIX + target if any(target) else b"")
    state.set_nonce(authority, authorization.nonce + 1)


def _authority(environment: Environment, authorization: Authorization) -> Address | None:
    """Who signed an authorization, or None where it is not valid on this chain."""
    from coincurve import PublicKey

    chain_id, address, nonce, parity, r, s = authorization
    if chain_id not in (0, environment.block.chain_id) or nonce >= MAX_NONCE or parity > 1:
        return None
    if not 0 < r < CURVE_ORDER or not 0 < s <= CURVE_ORDER // 2:
        return None
    fields = (rlp.encode_int(chain_id), rlp.encode_bytes(address), rlp.encode_int(nonce))
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes((parity,))
    try:
        digest = keccak256(b"\x05" + rlp.encode_list(fields))
        return public_key_address(PublicKey.from_signature_and_message(signature, digest, hasher=None).format(False))
    except Exception:  # the library's versions differ in what they raise for a point that is not on the curve
        return None
