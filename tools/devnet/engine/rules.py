"""What OP Stack forks change in the execution of L2 blocks, in one record; `forks` has the table. What they change in
headers and in the Engine API is read from the node's own table (`stages.protocol.forks`)."""

import msgspec

from rollup_node.tools.devnet.engine.rollup_cost import L1CostFunction, OperatorCostFunction
from rollup_node.tools.devnet.evm.rules import EvmRules


class ExecutionRules(msgspec.Struct, frozen=True):
    """Judged by the L2 block's own time."""

    evm: EvmRules
    data_cost: L1CostFunction
    operator_fee: OperatorCostFunction | None = None
    system_deposits: bool = True
    deposits_use_all_gas: bool = True
    deposit_receipt_version: int | None = None
    canyon_denominator: bool = False
    block_hash_history: bool = False
    da_footprint: bool = False
