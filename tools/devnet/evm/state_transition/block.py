"""A block in execution: applies transactions and system calls, and collects receipts, gas and blooms."""

from typing import NamedTuple

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.receipts import bloom_mask
from rollup_node.stages.protocol.types import Address, Hash
from rollup_node.tools.devnet.evm.call_frame import (
    SYSTEM_ADDRESS,
    BlockContext,
    CallMessage,
    TransactionEnvironment,
)
from rollup_node.tools.devnet.evm.rules import BLOB_GAS, EvmRules
from rollup_node.tools.devnet.evm.state import EventLog, State
from rollup_node.tools.devnet.evm.state_transition.interpreter import execute
from rollup_node.tools.devnet.evm.state_transition.transition import (
    ExecutionResult,
    ExtraFeesFunction,
    apply_transaction,
)
from rollup_node.tools.devnet.evm.transactions import (
    AnyTransaction,
    InvalidTransaction,
    SignedTransaction,
    UnusableTransaction,
)

BEACON_ROOTS: Address = bytes.fromhex("000f3df6d732807ef1319fb7b8bb8522d0beac02")
BLOCK_HASHES: Address = bytes.fromhex("0000f90827f1c53a10cb7a02335b175320002935")
_SYSTEM_GAS = 30_000_000


class ExecutedTransaction(NamedTuple):
    """A transaction of a block with its receipt.

    `log_index` is the index of its first log in the block; `extra` has the chain's additional receipt fields as JSON
    values."""

    transaction: AnyTransaction
    result: ExecutionResult
    cumulative_gas: int
    bloom: int
    receipt: bytes
    log_index: int
    extra: dict[str, object]


class BlockExecution:
    """Applies transactions to the parent's state, both to build a block and to validate one."""

    def __init__(self, state: State, rules: EvmRules, context: BlockContext, extra_fees: ExtraFeesFunction) -> None:
        self.state = state
        self.rules = rules
        self.context = context
        self.executed: list[ExecutedTransaction] = []
        self.gas_used = 0
        self.blob_gas_used = 0
        self.bloom = 0
        self._extra_fees = extra_fees
        self._logs = 0

    @property
    def gas_left(self) -> int:
        """The gas left for further transactions."""
        return self.context.gas_limit - self.gas_used

    def system_call(self, address: Address, data: bytes) -> None:
        """Call a system contract (EIP-4788, EIP-2935); does nothing where it has no code."""
        code = self.state.code(address)
        if not code:
            return
        self.state.begin_transaction()
        environment = TransactionEnvironment(self.state, self.rules, self.context, SYSTEM_ADDRESS, 0)
        self.state.preload(self.rules.warm_addresses())
        execute(environment, CallMessage(SYSTEM_ADDRESS, address, address, code, 0, data, _SYSTEM_GAS))
        self.state.end_transaction()
        self.state.note_access(0)

    def apply(self, transaction: AnyTransaction) -> ExecutedTransaction:
        """Execute a transaction and add it to the block. Raises InvalidTransaction and leaves the block unchanged."""
        if not isinstance(transaction, SignedTransaction):
            raise InvalidTransaction("this chain has no deposit transactions")
        body = transaction.body
        self.require_gas(body.gas)
        blob_gas = BLOB_GAS * len(body.blob_hashes)
        blobs = self.rules.blobs
        if blobs is not None and self.blob_gas_used + blob_gas > BLOB_GAS * blobs.maximum:
            raise InvalidTransaction("blob gas limit of the block reached")
        result = apply_transaction(self.state, self.rules, self.context, transaction, self._extra_fees)
        self.blob_gas_used += blob_gas
        fees = {"blobGasUsed": hex(blob_gas), "blobGasPrice": hex(self.context.blob_base_fee)} if blob_gas else {}
        return self.record(transaction, result, dict(fees), ())

    def require_gas(self, gas: int) -> None:
        """Raise UnusableTransaction where the block has less gas left."""
        if gas > self.gas_left:
            raise UnusableTransaction(f"gas limit of the block reached: have {self.gas_left}, want {gas}")

    def record(
        self,
        transaction: AnyTransaction,
        result: ExecutionResult,
        extra: dict[str, object],
        receipt_tail: tuple[int, ...],
    ) -> ExecutedTransaction:
        """Add an executed transaction; `receipt_tail` has the receipt's fields after the four of Ethereum."""
        self.gas_used += result.gas_used
        bloom = 0
        for log in result.logs:
            bloom |= bloom_mask(log.address)
            for topic in log.topics:
                bloom |= bloom_mask(topic)
        receipt = encode_receipt(transaction.kind, result.succeeded, self.gas_used, bloom, result.logs, receipt_tail)
        entry = ExecutedTransaction(transaction, result, self.gas_used, bloom, receipt, self._logs, extra)
        self.bloom |= bloom
        self._logs += len(result.logs)
        self.executed.append(entry)
        self.state.note_access(len(self.executed))
        return entry

    def transactions_root(self) -> Hash:
        """Return the trie root of the transactions so far."""
        return ordered_root([entry.transaction.raw for entry in self.executed])

    def receipts_root(self) -> Hash:
        """Return the trie root of the receipts so far."""
        return ordered_root([entry.receipt for entry in self.executed])


def encode_receipt(
    kind: int, succeeded: bool, cumulative_gas: int, bloom: int, logs: tuple[EventLog, ...], tail: tuple[int, ...] = ()
) -> bytes:
    """Return the consensus encoding of a receipt."""
    parts = [
        rlp.encode_int(1 if succeeded else 0),
        rlp.encode_int(cumulative_gas),
        rlp.encode_bytes(bloom.to_bytes(256, "big")),
        rlp.encode([[log.address, log.topics, log.data] for log in logs]),
        *map(rlp.encode_int, tail),
    ]
    body = rlp.encode_list(parts)
    return body if kind == 0 else bytes((kind,)) + body
