"""Base fee and blob fee from the parent block (EIP-1559, EIP-4844, EIP-7918), in wei."""

from rollup_node.stages.protocol.l1_chains import blob_base_fee
from rollup_node.tools.devnet.evm.rules import BlobRules

BLOB_GAS = 1 << 17
_RESERVE_GAS = 1 << 13
L1_ELASTICITY = 2
L1_DENOMINATOR = 8


def next_base_fee(gas_limit: int, gas_used: int, base_fee: int, elasticity: int, denominator: int) -> int:
    """The base fee of the child of a block with this gas limit, gas used and base fee."""
    target = gas_limit // elasticity
    if gas_used > target:
        return base_fee + max(base_fee * (gas_used - target) // target // denominator, 1)
    if gas_used < target:
        return max(base_fee - base_fee * (target - gas_used) // target // denominator, 0)
    return base_fee


def next_excess_blob_gas(rules: BlobRules, excess: int, blob_gas_used: int, base_fee: int) -> int:
    """The excess blob gas of the child of a block, by the child's rules."""
    target = BLOB_GAS * rules.target
    if excess + blob_gas_used < target:
        return 0
    # EIP-7918: while blobs cost less than their execution, the excess does not fall.
    if rules.reserve_price and _RESERVE_GAS * base_fee > BLOB_GAS * blob_fee(rules, excess):
        return excess + blob_gas_used * (rules.maximum - rules.target) // rules.maximum
    return excess + blob_gas_used - target


def blob_fee(rules: BlobRules, excess: int) -> int:
    """The price of a unit of blob gas."""
    return blob_base_fee(excess, rules.update_fraction)
