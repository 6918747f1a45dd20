"""The engine's chain: builds blocks from payload attributes, executes payloads, and follows the head."""

import msgspec

from rollup_node.stages.protocol.block_refs import payload_of_header
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import Hash
from rollup_node.tools.devnet.chain.blocks import Block, BlockChain
from rollup_node.tools.devnet.chain.transaction_pool import TransactionPool
from rollup_node.tools.devnet.engine.execution import (
    BlockAttributes,
    DaLimits,
    InvalidBlock,
    InvalidBlockTransaction,
    L2Execution,
    block_attributes,
    check_extra_data,
    l2_base_fee,
)
from rollup_node.tools.devnet.engine.genesis import ParsedGenesis
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import State
from rollup_node.tools.devnet.evm.transactions import (
    InvalidTransaction,
    MalformedTransaction,
    UnusableTransaction,
    read_signed,
    read_transaction,
)


class L2Backend:
    """An L2 chain with its state, pool and fork rules."""

    def __init__(self, genesis: ParsedGenesis) -> None:
        self.spec = genesis.chain
        self.chain_id = genesis.chain.chain_id
        self.store = genesis.store
        self.chain = BlockChain(genesis.block)
        self.pool = TransactionPool()
        self.da_limits = DaLimits()

    def evm_rules(self, timestamp: int) -> EvmRules:
        """The EVM rules of a block with this timestamp."""
        return self.spec.execution.at(timestamp).evm

    def next_base_fee(self, parent: Block) -> int:
        """The base fee of a child of `parent` with the parent's forks, in wei."""
        return l2_base_fee(self.spec, parent.header, parent.header.timestamp)

    def send(self, raw: bytes) -> Hash:
        """Adds a signed transaction to the pool; its hash. Raises InvalidTransaction."""
        transaction = read_signed(raw, self.chain_id)
        if transaction.kind == 3:
            raise InvalidTransaction("blob transactions are not supported")
        nonce = self._head_state().nonce(transaction.sender)
        self.pool.add(transaction, nonce)
        return transaction.hash

    def begin(self, parent: Block, given: PayloadAttributes, skips: bool = False) -> L2Execution:
        """Starts a block with the transactions of the attributes; with `skips` without those that cannot be executed.
        Raises InvalidBlock where one cannot be included, InvalidBlockTransaction for the first that is malformed before
        any is executed."""
        for index, raw in enumerate(given.transactions):
            try:
                read_transaction(raw, self.chain_id)
            except MalformedTransaction as error:
                raise InvalidBlockTransaction(index, error) from None
            except InvalidTransaction:
                pass
        execution = self._execution(parent, block_attributes(self.spec, given))
        self._apply_all(execution, given.transactions, skips)
        return execution

    def fill(self, execution: L2Execution) -> None:
        """Adds pending transactions while they fit; after an invalid one, the rest of that sender's are skipped."""
        execution.limit_da(self.da_limits)
        self.pool.fill(execution)

    def check(self, parent: Block, payload: ExecutionPayload) -> Block:
        """Executes a payload whose hash has been checked. Raises InvalidBlock where the result differs from it."""
        check_extra_data(self.spec, payload.timestamp, payload.extra_data)
        attributes = BlockAttributes(
            timestamp=payload.timestamp,
            prev_randao=payload.prev_randao,
            fee_recipient=payload.fee_recipient,
            gas_limit=payload.gas_limit,
            extra_data=payload.extra_data,
            parent_beacon_root=payload.parent_beacon_root,
        )
        execution = self._execution(parent, attributes)
        self._apply_all(execution, payload.transactions)
        block = execution.seal()
        if block.hash != payload.block_hash:
            raise InvalidBlock(f"execution differs from the payload: {_differences(block, payload)}")
        return block

    def set_head(self, head: Block) -> None:
        """Makes a known block the head, and moves transactions between chain and pool."""
        change = self.chain.set_head(head)
        for block in change.removed:
            self.pool.reinject(block.transactions)
        for block in change.added:
            self.pool.remove(block.transactions)

    def _execution(self, parent: Block, attributes: BlockAttributes) -> L2Execution:
        return L2Execution(self.spec, self.store, parent, attributes, self.chain.hashes_before(parent))

    def _apply_all(self, execution: L2Execution, transactions: tuple[bytes, ...], skips: bool = False) -> None:
        for index, raw in enumerate(transactions):
            try:
                execution.apply(read_transaction(raw, self.chain_id))
            except InvalidTransaction as error:
                if isinstance(error, UnusableTransaction) or not skips:
                    raise InvalidBlockTransaction(index, error) from None

    def _head_state(self) -> State:
        return State(self.store, self.chain.head.header.state_root)


def payload_of(block: Block) -> ExecutionPayload:
    """A block as an execution payload."""
    return payload_of_header(block.header, block.hash, tuple(each.raw for each in block.transactions))


def _differences(block: Block, payload: ExecutionPayload) -> str:
    """The fields in which an executed block differs from the payload, with both values."""
    computed, claimed = msgspec.structs.asdict(payload_of(block)), msgspec.structs.asdict(payload)
    return ", ".join(
        f"{name} {_shown(computed[name])} instead of {_shown(claimed[name])}"
        for name in computed
        if computed[name] != claimed[name] and name not in ("block_hash", "transactions", "logs_bloom")
    )


def _shown(value: object) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)
