"""The rules of the EVM that forks change, fees among them. Code reads a rule and never compares fork names."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from rollup_node.stages.protocol.l1_chains import blob_base_fee
from rollup_node.stages.protocol.types import Address
from rollup_node.tools.devnet.evm.call_frame import InstructionSet

MAX_CODE = 0x6000


class Precompile(NamedTuple):
    """A precompiled contract: gas by input, and output by input. Both raise ExceptionalHalt for invalid input."""

    gas: Callable[[bytes], int]
    run: Callable[[bytes], bytes]


class BlobRules(msgspec.Struct, frozen=True):
    """Target and maximum of blobs in a block, and the update fraction of their fee (EIP-4844, EIP-7691, EIP-7892)."""

    target: int
    maximum: int
    update_fraction: int
    reserve_price: bool = False
    per_transaction: int | None = None


class EvmRules(msgspec.Struct, frozen=True):
    """The rules of a fork for code, transactions and headers; sizes in bytes.

    `transfer_logs`: transfers of wei emit a log (EIP-7708); `slot_number` and `block_access_list`: the header has
    these fields (EIP-7843, EIP-7928)."""

    name: str
    instructions: InstructionSet
    precompiles: Mapping[Address, Precompile]
    warm_coinbase: bool = False
    max_init_code: int | None = None
    init_code_word_gas: int = 0
    delegations: bool = False
    floor_gas: bool = False
    max_transaction_gas: int | None = None
    blobs: BlobRules | None = None
    max_code: int = MAX_CODE
    transfer_logs: bool = False
    slot_number: bool = False
    block_access_list: bool = False

    def warm_addresses(self) -> frozenset[Address]:
        """Return the precompiles, which are warm in every transaction (EIP-2929)."""
        return frozenset(self.precompiles)


BLOB_GAS = 1 << 17
_RESERVE_GAS = 1 << 13
L1_ELASTICITY = 2
L1_DENOMINATOR = 8


def next_base_fee(gas_limit: int, gas_used: int, base_fee: int, elasticity: int, denominator: int) -> int:
    """Return the base fee of the child of a block with this gas limit, gas used and base fee."""
    target = gas_limit // elasticity
    if gas_used > target:
        return base_fee + max(base_fee * (gas_used - target) // target // denominator, 1)
    if gas_used < target:
        return max(base_fee - base_fee * (target - gas_used) // target // denominator, 0)
    return base_fee


def next_excess_blob_gas(rules: BlobRules, excess: int, blob_gas_used: int, base_fee: int) -> int:
    """Return the excess blob gas of the child of a block, by the child's rules."""
    target = BLOB_GAS * rules.target
    if excess + blob_gas_used < target:
        return 0
    # EIP-7918: while blobs cost less than their execution, the excess does not fall.
    if rules.reserve_price and _RESERVE_GAS * base_fee > BLOB_GAS * blob_fee(rules, excess):
        return excess + blob_gas_used * (rules.maximum - rules.target) // rules.maximum
    return excess + blob_gas_used - target


def blob_fee(rules: BlobRules, excess: int) -> int:
    """Return the price of a unit of blob gas."""
    return blob_base_fee(excess, rules.update_fraction)
