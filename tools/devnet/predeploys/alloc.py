"""The contracts in the genesis of the development chain, as entries of a genesis file's `alloc`."""

from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from rollup_node.stages.protocol.deposits import decode_deposit
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import (
    L1_BLOCK,
    L2_TO_L1_MESSAGE_PASSER,
    OPERATOR_FEE_VAULT,
    PROXY_ADMIN,
    SEQUENCER_FEE_VAULT,
    ZERO_ADDRESS,
    ZERO_HASH,
    Address,
    predeploy,
)
from rollup_node.stages.protocol.upgrade_transactions import FUND, SET_FEATURE, load_bundle
from rollup_node.tools.devnet.engine.execution import BASE_FEE_VAULT, L1_FEE_VAULT, ChainSpec
from rollup_node.tools.devnet.engine.forks import CREATE2_DEPLOYER, create2_deployer_code
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
from rollup_node.tools.devnet.evm.transition import intrinsic_gas, run_body


def _number_word(value: int) -> str:
    return to_hex(value.to_bytes(32, "big"))


DEV_FEATURE_FLAGS = predeploy(0x2D)
INTEROP_FLAG = {"0xc8bc8f9195cfb2d040744aac63412d02ffc186ea9bd519039edc4666ee9032bc": _number_word(1)}
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
    slots = {_number_word(slot): _number_word(value) for slot, value in change.slots.items()}
    storage = before.get("storage", {}) | slots
    return {
        "balance": hex(account.balance),
        "nonce": hex(account.nonce),
        "code": to_hex(change.code),
        **({"storage": storage} if storage else {}),
    }


TOKEN = predeploy(0xFF)
"""The development token, which has no proxy."""

_CODE_NAMESPACE = bytes.fromhex("c0d3" * 9)
_IMPLEMENTATION_SLOT = "0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc"
_ADMIN_SLOT = "0xb53127684a568b3173ae13b9f8a6016e243e63b6e8ee1178d6a717850b5d6103"
_PROXIES = 0x40
"""Public chains have 2048; bundles use those below."""
_IMPLEMENTED: dict[Address, str] = {
    L1_BLOCK: "L1Block",
    L2_TO_L1_MESSAGE_PASSER: "L2ToL1MessagePasser",
    SEQUENCER_FEE_VAULT: "FeeVault",
    BASE_FEE_VAULT: "FeeVault",
    L1_FEE_VAULT: "FeeVault",
    OPERATOR_FEE_VAULT: "FeeVault",
    **{predeploy(low): "Placeholder" for low in (0x07, 0x10, 0x12, 0x14, 0x17, 0x20, 0x21)},
}
_DETERMINISTIC_DEPLOYER: Address = bytes.fromhex("4e59b44847b379578588920ca78fbf26c0b4956c")
_DETERMINISTIC_DEPLOYER_CODE = bytes.fromhex(
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f5801515603957"
    "8182fd5b8082525050506014600cf3"
)


@cache
def bytecode(name: str) -> bytes:
    """Return the deployed bytecode of a contract of `Predeploys.sol`."""
    return bytes.fromhex(files(__package__).joinpath(f"{name}.hex").read_text())


def implementation_address(proxy: Address) -> Address:
    """Return the address of the implementation behind a proxy."""
    return _CODE_NAMESPACE + proxy[-2:]


def predeploy_alloc(chain: ChainSpec, time: int, linked: bool = False) -> Alloc:
    """Return the proxies with their implementations and the token.

    After the upgrade transactions of all forks active at `time` (seconds). `linked`: the chain takes messages of others
    [UPG18]."""
    alloc = {to_hex(predeploy(low)): _proxy(predeploy(low)) for low in range(_PROXIES)}
    for proxy, name in _IMPLEMENTED.items():
        alloc[to_hex(implementation_address(proxy))] = _contract(bytecode(name))
    alloc[to_hex(TOKEN)] = _contract(bytecode("Token"))
    return with_upgrades(with_deployers(alloc, chain, time), chain, time, linked=linked)


def with_deployers(alloc: Alloc, chain: ChainSpec, time: int) -> Alloc:
    """Return the accounts with the deterministic deployer, and from Canyon on the create2 deployer.

    Karst's upgrade needs the former, and the public chains have it."""
    deployers = {to_hex(_DETERMINISTIC_DEPLOYER): _contract(_DETERMINISTIC_DEPLOYER_CODE)}
    if chain.execution.at(time).canyon_denominator:
        deployers[to_hex(CREATE2_DEPLOYER)] = _contract(create2_deployer_code())
    return deployers | alloc


def _proxy(address: Address) -> dict[str, Any]:
    storage = {_ADMIN_SLOT: _word(PROXY_ADMIN)}
    if address in _IMPLEMENTED:
        storage[_IMPLEMENTATION_SLOT] = _word(implementation_address(address))
    return _contract(bytecode("Proxy")) | {"storage": storage}


def _contract(code: bytes) -> dict[str, Any]:
    return {"balance": "0x0", "nonce": "0x1", "code": to_hex(code)}


def _word(address: Address) -> str:
    return to_hex(address.rjust(32, b"\0"))
