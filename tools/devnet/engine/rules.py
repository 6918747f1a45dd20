"""The rules that OP Stack forks change in block execution; `forks` has the table. Rules of headers and of the Engine
API are in the node's table, `stages.protocol.forks`."""

import msgspec

from rollup_node.tools.devnet.engine.rollup_cost import L1CostFunction, OperatorCostFunction
from rollup_node.tools.devnet.evm.rules import EvmRules


class ExecutionRules(msgspec.Struct, frozen=True):
    """The execution rules of one L2 block, chosen by its timestamp."""

    evm: EvmRules
    data_cost: L1CostFunction
    operator_fee: OperatorCostFunction | None = None
    system_deposits: bool = True
    deposits_use_all_gas: bool = True
    deposit_receipt_version: int | None = None
    canyon_denominator: bool = False
    block_hash_history: bool = False
    da_footprint: bool = False
