"""What a development chain's L2 genesis holds besides its funded accounts, as entries of a genesis file's `alloc`."""

from importlib.resources import files
from typing import Any

from rollup_node.stages.protocol.addresses import (
    L1_BLOCK,
    L2_TO_L1_MESSAGE_PASSER,
    OPERATOR_FEE_VAULT,
    PROXY_ADMIN,
    SEQUENCER_FEE_VAULT,
    predeploy,
)
from rollup_node.stages.protocol.hexes import to_hex
from rollup_node.stages.protocol.types import Address
from rollup_node.tools.devnet.engine.execution import BASE_FEE_VAULT, L1_FEE_VAULT, L2Chain
from rollup_node.tools.devnet.engine.forks import CREATE2_DEPLOYER, create2_deployer_code
from rollup_node.tools.devnet.evm.block import BEACON_ROOTS, BLOCK_HASHES

TOKEN = predeploy(0xFF)
"""The development token; it stands for itself, without a proxy."""

_CODE_NAMESPACE = bytes.fromhex("c0d3" * 9)
_IMPLEMENTATION_SLOT = "0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc"
_ADMIN_SLOT = "0xb53127684a568b3173ae13b9f8a6016e243e63b6e8ee1178d6a717850b5d6103"
_PROXIES = 0x30
_IMPLEMENTED: dict[Address, str] = {
    L1_BLOCK: "L1Block",
    L2_TO_L1_MESSAGE_PASSER: "L2ToL1MessagePasser",
    SEQUENCER_FEE_VAULT: "FeeVault",
    BASE_FEE_VAULT: "FeeVault",
    L1_FEE_VAULT: "FeeVault",
    OPERATOR_FEE_VAULT: "FeeVault",
}
_BEACON_ROOTS_CODE = bytes.fromhex(
    "3373fffffffffffffffffffffffffffffffffffffffe14604d57602036146024575f5ffd5b5f35801560495762001fff8106908154"
    "14603c575f5ffd5b62001fff01545f5260205ff35b5f5ffd5b62001fff42064281555f359062001fff015500"
)
_BLOCK_HASHES_CODE = bytes.fromhex(
    "3373fffffffffffffffffffffffffffffffffffffffe14604657602036036042575f35600143038111604257611fff814303116042"
    "57611fff9006545f5260205ff35b5f5ffd5b5f35611fff60014303065500"
)


def bytecode(name: str) -> bytes:
    """The deployed code of a contract of `Predeploys.sol`."""
    return bytes.fromhex(files(__package__).joinpath(f"{name}.hex").read_text())


def implementation_address(proxy: Address) -> Address:
    """Where the code behind a proxy lies."""
    return _CODE_NAMESPACE + proxy[-2:]


def predeploy_alloc(chain: L2Chain, time: int) -> dict[str, dict[str, Any]]:
    """Proxies, the contracts behind them, the token, and the contracts of Ethereum's own that forks active at `time`
    (seconds) need; those of later forks are deployed by their upgrade transactions."""
    alloc = {to_hex(predeploy(low)): _proxy(predeploy(low)) for low in range(_PROXIES)}
    for proxy, name in _IMPLEMENTED.items():
        alloc[to_hex(implementation_address(proxy))] = _contract(bytecode(name))
    alloc[to_hex(TOKEN)] = _contract(bytecode("Token"))
    headers, execution = chain.schedule.l2(time), chain.execution.at(time)
    if execution.canyon_denominator:
        alloc[to_hex(CREATE2_DEPLOYER)] = _contract(create2_deployer_code())
    if headers.beacon_root:
        alloc[to_hex(BEACON_ROOTS)] = _contract(_BEACON_ROOTS_CODE)
    if execution.block_hash_history:
        alloc[to_hex(BLOCK_HASHES)] = _contract(_BLOCK_HASHES_CODE)
    return alloc


def _proxy(address: Address) -> dict[str, Any]:
    storage = {_ADMIN_SLOT: _word(PROXY_ADMIN)}
    if address in _IMPLEMENTED:
        storage[_IMPLEMENTATION_SLOT] = _word(implementation_address(address))
    return _contract(bytecode("Proxy")) | {"storage": storage}


def _contract(code: bytes) -> dict[str, Any]:
    return {"balance": "0x0", "nonce": "0x1", "code": to_hex(code)}


def _word(address: Address) -> str:
    return to_hex(address.rjust(32, b"\0"))
