"""eth_call and eth_estimateGas: calls on a state whose changes are discarded."""

from typing import Any, NamedTuple

from rollup_node.stages.protocol.hex_encoding import address_from_hex, from_hex, from_quantity
from rollup_node.stages.protocol.types import ZERO_ADDRESS, Address
from rollup_node.tools.devnet.evm.call_frame import BlockContext, TransactionEnvironment
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import State
from rollup_node.tools.devnet.evm.state_transition.transition import ExecutionResult, intrinsic_gas, run_body
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction

GAS_CAP = 50_000_000
_PRECISION = 64


class CallRequest(NamedTuple):
    """The call object of eth_call; without `to` it creates a contract."""

    sender: Address
    to: Address | None
    value: int
    data: bytes
    gas: int | None


def call_from_json(found: dict[str, Any]) -> CallRequest:
    """Parse a call object. Raises HexError for a malformed field."""
    data = found.get("input") if found.get("input") is not None else found.get("data")
    return CallRequest(
        sender=ZERO_ADDRESS if found.get("from") is None else address_from_hex(found["from"]),
        to=None if found.get("to") is None else address_from_hex(found["to"]),
        value=0 if found.get("value") is None else from_quantity(found["value"], 256),
        data=b"" if data is None else from_hex(data),
        gas=None if found.get("gas") is None else from_quantity(found["gas"]),
    )


def simulate(state: State, rules: EvmRules, context: BlockContext, call: CallRequest, gas: int) -> ExecutionResult:
    """Run a call with this gas limit and revert its changes. Raises InvalidTransaction where it cannot start."""
    intrinsic = intrinsic_gas(rules, call.to, call.data)
    if gas < max(intrinsic):
        raise InvalidTransaction(f"intrinsic gas too low: have {gas}, want {max(intrinsic)}")
    balance = state.balance(call.sender)
    if balance < call.value:
        raise InvalidTransaction(f"insufficient funds for transfer: 0x{call.sender.hex()} has {balance}")
    state.begin_transaction()
    snapshot = state.snapshot()
    result = run_body(
        TransactionEnvironment(state, rules, context, call.sender, 0), call.to, call.value, call.data, gas, intrinsic
    )
    state.revert(snapshot)
    return result


def estimate(state: State, rules: EvmRules, context: BlockContext, call: CallRequest, cap: int) -> ExecutionResult:
    """Return the result with the lowest gas limit, to within 64, at which a call succeeds as `gas_used`.

    It is found by bisection. A call that fails with `cap` gas gives its failed result."""
    result = simulate(state, rules, context, call, cap)
    if not result.succeeded:
        return result
    # Refunds and the 64th of EIP-150 make the limit exceed the gas used, mostly by less than a fifth.
    guesses = [result.gas_used + result.gas_used // 5, result.gas_used]
    low, high = result.gas_used - 1, cap
    while high - low > _PRECISION:
        guess = guesses.pop() if guesses else 0
        tried = guess if low < guess < high else (low + high) // 2
        low, high = (low, tried) if _succeeds(state, rules, context, call, tried) else (tried, high)
    return result._replace(gas_used=high)


def _succeeds(state: State, rules: EvmRules, context: BlockContext, call: CallRequest, gas: int) -> bool:
    try:
        return simulate(state, rules, context, call, gas).succeeded
    except InvalidTransaction:
        return False
