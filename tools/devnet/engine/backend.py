"""The engine's chain: builds blocks from payload attributes, executes payloads, follows the head, keeps a journal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson

from rollup_node.stages.protocol.block_refs import payload_of_header
from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import CROSS_L2_INBOX, Hash
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
    AnyTransaction,
    InvalidTransaction,
    MalformedTransaction,
    SignedTransaction,
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
        """Return the EVM rules of a block with this timestamp."""
        return self.spec.execution.at(timestamp).evm

    def next_base_fee(self, parent: Block) -> int:
        """Return the base fee of a child of `parent` with the parent's forks, in wei."""
        return l2_base_fee(self.spec, parent.header, parent.header.timestamp)

    def send(self, raw: bytes) -> Hash:
        """Add a signed transaction to the pool; its hash. Raises InvalidTransaction."""
        transaction = read_signed(raw, self.chain_id)
        if transaction.kind == 3:
            raise InvalidTransaction("blob transactions are not supported")
        nonce = self._head_state().nonce(transaction.sender)
        self.pool.add(transaction, nonce)
        return transaction.hash

    def begin(self, parent: Block, payload_attributes: PayloadAttributes, skips: bool = False) -> L2Execution:
        """Start a block with the transactions of the attributes; with `skips` without those that cannot be executed.

        Raises InvalidBlock where one cannot be included, InvalidBlockTransaction for the first that is malformed
        before any is executed."""
        for index, raw in enumerate(payload_attributes.transactions):
            try:
                read_transaction(raw, self.chain_id)
            except MalformedTransaction as error:
                raise InvalidBlockTransaction(index, error) from None
            except InvalidTransaction:
                pass
        execution = self._execution(parent, block_attributes(self.spec, payload_attributes))
        self._apply_all(execution, payload_attributes.transactions, skips)
        return execution

    def fill(self, execution: L2Execution) -> None:
        """Add pending transactions while they fit; after an invalid one, the rest of that sender's are skipped."""
        execution.limit_da(self.da_limits)
        self.pool.fill(execution)

    def check(self, parent: Block, payload: ExecutionPayload) -> Block:
        """Execute a payload whose hash has been checked. Raises InvalidBlock where the result differs from it."""
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
        """Make a known block the head, and move transactions between chain and pool."""
        change = self.chain.set_head(head)
        for block in change.removed:
            # As the interop filter of a public engine: a message that made its block invalid must not come back.
            self.pool.reinject(item for item in block.transactions if not _executes_message(item))
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
    """Return a block as an execution payload."""
    return payload_of_header(block.header, block.hash, tuple(transaction.raw for transaction in block.transactions))


def _differences(block: Block, payload: ExecutionPayload) -> str:
    """Return the fields in which an executed block differs from the payload, with both values."""
    computed, claimed = msgspec.structs.asdict(payload_of(block)), msgspec.structs.asdict(payload)
    return ", ".join(
        f"{name} {_shown(computed[name])} instead of {_shown(claimed[name])}"
        for name in computed
        if computed[name] != claimed[name] and name not in ("block_hash", "transactions", "logs_bloom")
    )


def _shown(value: object) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


FILE_NAME = "accepted-blocks.jsonl"


def drop_last_blocks(directory: Path, count: int) -> None:
    """Remove the last `count` payloads, and all that follows them, from the journal of a stopped engine.

    As if a crash had lost them."""
    path = directory / FILE_NAME
    lines = path.read_bytes().splitlines(keepends=True)
    payloads = [at for at, line in enumerate(lines) if b'"executionPayload"' in line]
    if len(payloads) > count:
        path.write_bytes(b"".join(lines[: payloads[-count]]))


class Journal:
    """One JSON object per line in the engine's data directory. Only the last line can be cut off, by a crash."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / FILE_NAME
        self._file = self._path.open("ab", buffering=0)

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield the entries, oldest first; an incomplete last line is removed from the file."""
        with self._path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    self._file.truncate(self._path.stat().st_size - len(line))
                    return
                yield orjson.loads(line)

    def insert(self, payload: ExecutionPayload) -> None:
        """Append an accepted payload."""
        self._append(envelope_to_json(payload))

    def follow(self, head: Hash, safe: Hash, finalized: Hash) -> None:
        """Append an accepted forkchoice state."""
        hashes = {"head": head, "safe": safe, "finalized": finalized}
        self._append({f"{name}BlockHash": to_hex(value) for name, value in hashes.items()})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _append(self, entry: dict[str, Any]) -> None:
        self._file.write(orjson.dumps(entry) + b"\n")


def _executes_message(transaction: AnyTransaction) -> bool:
    return isinstance(transaction, SignedTransaction) and transaction.body.to == CROSS_L2_INBOX
