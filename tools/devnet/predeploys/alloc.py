"""The contracts in the genesis of the development chain, as entries of a genesis file's `alloc`."""

from functools import cache
from importlib.resources import files
from typing import Any

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import (
    L1_BLOCK,
    L2_TO_L1_MESSAGE_PASSER,
    OPERATOR_FEE_VAULT,
    PROXY_ADMIN,
    SEQUENCER_FEE_VAULT,
    Address,
    predeploy,
)
from rollup_node.tools.devnet.engine.execution import BASE_FEE_VAULT, L1_FEE_VAULT, ChainSpec
from rollup_node.tools.devnet.engine.forks import CREATE2_DEPLOYER, create2_deployer_code
from rollup_node.tools.devnet.predeploys.upgraded_alloc import Alloc, with_upgrades

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
