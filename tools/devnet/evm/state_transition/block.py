"""A block in execution: transactions applied one by one, their receipts, gas and blooms, and system calls."""

from typing import NamedTuple

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.blooms import bloom_mask
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.types import Address, Hash
from rollup_node.tools.devnet.evm.call_frame import BlockContext, CallMessage, TransactionEnvironment
from rollup_node.tools.devnet.evm.fees import BLOB_GAS
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import EventLog, State
from rollup_node.tools.devnet.evm.state_transition.interpreter import execute
from rollup_node.tools.devnet.evm.state_transition.transition import (
    ExecutionResult,
    ExtraFeesFunction,
    apply_transaction,
)
from rollup_node.tools.devnet.evm.transactions import AnyTransaction, InvalidTransaction, SignedTransaction

SYSTEM_ADDRESS: Address = b"\xff" * 19 + b"\xfe"
BEACON_ROOTS: Address = bytes.fromhex("000f3df6d732807ef1319fb7b8bb8522d0beac02")
BLOCK_HASHES: Address = bytes.fromhex("0000f90827f1c53a10cb7a02335b175320002935")
_SYSTEM_GAS = 30_000_000


class ExecutedTransaction(NamedTuple):
    """A transaction in its block, with its receipt. `log_index` is the first log's place in the block; `extra` holds
    what the chain's receipts have beyond Ethereum's, in JSON's terms."""

    transaction: AnyTransaction
    outcome: ExecutionResult
    cumulative_gas: int
    bloom: int
    receipt: bytes
    log_index: int
    extra: dict[str, object]


class BlockExecution:
    """Applies transactions to the parent's state. The same code builds a block and checks one."""

    def __init__(self, state: State, rules: EvmRules, context: BlockContext, fees: ExtraFeesFunction) -> None:
        self.state = state
        self.rules = rules
        self.context = context
        self.executed: list[ExecutedTransaction] = []
        self.gas_used = 0
        self.blob_gas_used = 0
        self.bloom = 0
        self._fees = fees
        self._logs = 0

    @property
    def gas_left(self) -> int:
        """Gas that further transactions may ask for."""
        return self.context.gas_limit - self.gas_used

    def system_call(self, address: Address, data: bytes) -> None:
        """Calls a contract as the protocol does (EIP-4788, 2935); without code there, nothing happens."""
        code = self.state.code(address)
        if not code:
            return
        self.state.begin_transaction()
        environment = TransactionEnvironment(self.state, self.rules, self.context, SYSTEM_ADDRESS, 0)
        self.state.preload(self.rules.warm_addresses())
        execute(environment, CallMessage(SYSTEM_ADDRESS, address, address, code, 0, data, _SYSTEM_GAS))
        self.state.end_transaction()

    def apply(self, transaction: AnyTransaction) -> ExecutedTransaction:
        """Executes a transaction and adds it to the block; InvalidTransaction leaves all as it was."""
        if not isinstance(transaction, SignedTransaction):
            raise InvalidTransaction("this chain has no deposit transactions")
        body = transaction.body
        self.require_gas(body.gas)
        blob_gas = BLOB_GAS * len(body.blob_hashes)
        blobs = self.rules.blobs
        if blobs is not None and self.blob_gas_used + blob_gas > BLOB_GAS * blobs.maximum:
            raise InvalidTransaction("blob gas limit of the block reached")
        outcome = apply_transaction(self.state, self.rules, self.context, transaction, self._fees)
        self.blob_gas_used += blob_gas
        fees = {"blobGasUsed": hex(blob_gas), "blobGasPrice": hex(self.context.blob_base_fee)} if blob_gas else {}
        return self.record(transaction, outcome, dict(fees), ())

    def require_gas(self, gas: int) -> None:
        """InvalidTransaction where the block has not that much gas left."""
        if gas > self.gas_left:
            raise InvalidTransaction(f"gas limit of the block reached: have {self.gas_left}, want {gas}")

    def record(
        self,
        transaction: AnyTransaction,
        outcome: ExecutionResult,
        extra: dict[str, object],
        receipt_tail: tuple[int, ...],
    ) -> ExecutedTransaction:
        """Adds what was executed; `receipt_tail` are the receipt's fields after the usual four."""
        self.gas_used += outcome.gas_used
        bloom = 0
        for log in outcome.logs:
            bloom |= bloom_mask(log.address)
            for topic in log.topics:
                bloom |= bloom_mask(topic)
        receipt = encode_receipt(transaction.kind, outcome.succeeded, self.gas_used, bloom, outcome.logs, receipt_tail)
        entry = ExecutedTransaction(transaction, outcome, self.gas_used, bloom, receipt, self._logs, extra)
        self.bloom |= bloom
        self._logs += len(outcome.logs)
        self.executed.append(entry)
        return entry

    def transactions_root(self) -> Hash:
        return ordered_root([entry.transaction.raw for entry in self.executed])

    def receipts_root(self) -> Hash:
        return ordered_root([entry.receipt for entry in self.executed])


def encode_receipt(
    kind: int, succeeded: bool, cumulative_gas: int, bloom: int, logs: tuple[EventLog, ...], tail: tuple[int, ...] = ()
) -> bytes:
    """A receipt's bytes under the receipts root."""
    parts = [
        rlp.encode_int(1 if succeeded else 0),
        rlp.encode_int(cumulative_gas),
        rlp.encode_bytes(bloom.to_bytes(256, "big")),
        rlp.encode([[log.address, log.topics, log.data] for log in logs]),
        *map(rlp.encode_int, tail),
    ]
    body = rlp.encode_list(parts)
    return body if kind == 0 else bytes((kind,)) + body
