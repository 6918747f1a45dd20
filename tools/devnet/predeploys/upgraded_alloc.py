"""Runs upgrade transactions on the accounts of a genesis.

A fork that is active at genesis has no activation block, so its upgrade transactions never run on the chain: the
genesis must have their result."""

from collections.abc import Collection, Mapping
from typing import Any

from rollup_node.stages.protocol.deposits import decode_deposit
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import ZERO_ADDRESS, ZERO_HASH, predeploy
from rollup_node.stages.protocol.upgrade_transactions import FUND, SET_FEATURE, load_bundle
from rollup_node.tools.devnet.engine.execution import ChainSpec
from rollup_node.tools.devnet.evm.call_frame import BlockContext, TransactionEnvironment
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import (
    NEW_ACCOUNT,
    AccountChange,
    GenesisError,
    State,
    StateDatabase,
    load_alloc,
)
from rollup_node.tools.devnet.evm.state_transition.transition import intrinsic_gas, run_body


def _word(value: int) -> str:
    return to_hex(value.to_bytes(32, "big"))


DEV_FEATURE_FLAGS = predeploy(0x2D)
INTEROP_FLAG = {"0xc8bc8f9195cfb2d040744aac63412d02ffc186ea9bd519039edc4666ee9032bc": _word(1)}
"""Without this bit of the flags the manager of Lagoon's bundle refuses a chain with setFeature(INTEROP) [UPG18]."""

Alloc = dict[str, dict[str, Any]]
"""The `alloc` of a genesis file; addresses and slots in hex of full length."""


def with_upgrades(
    alloc: Alloc, chain: ChainSpec, time: int, present: Collection[str] = (), linked: bool = False
) -> Alloc:
    """Return the accounts after the upgrade transactions of all forks active at `time` but those in `present`.

    `time` is in seconds. `linked`: the dependency set has other chains, which the contracts of
    Lagoon's bundle take only with a flag.

    The accounts of the transactions' senders stay as they are. Raises GenesisError where a transaction fails."""
    if linked:
        alloc = _with_flag(alloc)
    store = StateDatabase()
    state = State(store, load_alloc(store, alloc))
    context = BlockContext(0, time, ZERO_ADDRESS, 0, 0, ZERO_HASH, chain.chain_id, lambda number: ZERO_HASH)
    rules = chain.execution.at(time).evm
    for fork in chain.schedule.active(time):
        if fork.name in present or fork.activation is None or fork.activation.bundle is None:
            continue
        transactions = load_bundle(fork.activation.bundle).transactions
        if linked and fork.activation.wrapped_if_linked:
            transactions = (SET_FEATURE, *transactions, FUND)
        for index, raw in enumerate(transactions):
            error = _run(state, rules, context, raw)
            if error:
                raise GenesisError(f"upgrade transaction {index} of {fork.name} fails on these contracts: {error}")
    # Senders without code or storage are left out: their nonces would differ from those of a chain that crossed.
    return alloc | {
        to_hex(change.address): _entry(alloc, change) for change in state.changes() if change.code or change.slots
    }


def _with_flag(alloc: Alloc) -> Alloc:
    account = alloc[to_hex(DEV_FEATURE_FLAGS)]
    return alloc | {to_hex(DEV_FEATURE_FLAGS): account | {"storage": account.get("storage", {}) | INTEROP_FLAG}}


def _run(state: State, rules: EvmRules, context: BlockContext, raw: bytes) -> str:
    """Execute a deposit; its error, empty on success."""
    deposit = decode_deposit(raw)
    state.begin_transaction()
    state.add_balance(deposit.sender, deposit.mint)
    environment = TransactionEnvironment(state, rules, context, deposit.sender, 0)
    intrinsic = intrinsic_gas(rules, deposit.to, deposit.data)
    result = run_body(environment, deposit.to, deposit.value, deposit.data, deposit.gas, intrinsic)
    state.end_transaction()
    return "" if result.succeeded else result.error


def _entry(alloc: Mapping[str, dict[str, Any]], change: AccountChange) -> dict[str, Any]:
    before = alloc.get(to_hex(change.address), {})
    account = change.account or NEW_ACCOUNT
    slots = {_word(slot): _word(value) for slot, value in change.slots.items()}
    storage = before.get("storage", {}) | slots
    return {
        "balance": hex(account.balance),
        "nonce": hex(account.nonce),
        "code": to_hex(change.code),
        **({"storage": storage} if storage else {}),
    }
