"""The eth_* methods over a chain in memory, as a method table for the JSON-RPC server."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.errors import INVALID_PARAMS, SERVER_ERROR
from rollup_node.stages.protocol.headers import encode_header
from rollup_node.stages.protocol.hex_encoding import address_from_hex, from_hex, from_quantity, hash_from_hex, to_hex
from rollup_node.stages.protocol.types import ZERO_ADDRESS, Address
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.blocks import (
    Block,
    BlockChain,
    EthFilters,
    bare_transaction_json,
    block_json,
    logs_json,
    receipt_json,
    transaction_json,
)
from rollup_node.tools.devnet.chain.jsonrpc_server import Method
from rollup_node.tools.devnet.chain.transaction_pool import TransactionPool
from rollup_node.tools.devnet.evm.call_frame import BlockContext, TransactionEnvironment
from rollup_node.tools.devnet.evm.rules import EvmRules, blob_fee
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction
from rollup_node.tools.devnet.evm.transition import ExecutionResult, intrinsic_gas, run_body

REVERTED = 3
TIP = 1_000_000
MIN_BLOB_FEE = 1
_MAX_LOGS = 10_000
_MAX_HISTORY = 1024


class EthBackend(Protocol):
    """A chain with its pool and state, and the rules its blocks are executed by."""

    chain: BlockChain
    pool: TransactionPool
    store: StateDatabase
    chain_id: int

    def evm_rules(self, timestamp: int) -> EvmRules:
        """Return the EVM rules of a block with this timestamp."""

    def next_base_fee(self, parent: Block) -> int:
        """Return the base fee of a child of `parent`, in wei."""

    def send(self, raw: bytes) -> bytes:
        """Add an encoded transaction to the pool; its hash. Raises InvalidTransaction."""


class LogFilter(NamedTuple):
    """The criteria of eth_getLogs; None matches anything."""

    addresses: frozenset[bytes] | None
    topics: tuple[frozenset[bytes] | None, ...]


class EthApi:
    """The eth_*, debug_* and web3_* methods over a backend."""

    def __init__(self, backend: EthBackend, client_version: str) -> None:
        self._backend = backend
        self._version = client_version
        self._filters = EthFilters(backend.chain, self.logs)

    def methods(self) -> dict[str, Method]:
        """Return the method table."""
        return {
            "web3_clientVersion": lambda: self._version,
            "net_listening": lambda: True,
            "net_peerCount": lambda: "0x0",
            "net_version": lambda: str(self._backend.chain_id),
            "eth_chainId": lambda: hex(self._backend.chain_id),
            "eth_syncing": lambda: False,
            "eth_accounts": list,
            "eth_blockNumber": lambda: hex(self._backend.chain.head.number),
            "eth_getBlockByNumber": self.block_by_tag,
            "eth_getBlockByHash": self.block_by_hash,
            "eth_getBlockTransactionCountByNumber": self.transaction_count_of_block,
            "eth_getBlockTransactionCountByHash": self.transaction_count_of_block,
            "eth_getBlockReceipts": self.block_receipts,
            "eth_getTransactionByHash": self.transaction,
            "eth_getTransactionByBlockNumberAndIndex": self.transaction_of_block,
            "eth_getTransactionByBlockHashAndIndex": self.transaction_of_block,
            "eth_getRawTransactionByHash": self.raw_transaction,
            "eth_getTransactionReceipt": self.receipt,
            "eth_getLogs": self.logs,
            "eth_getBalance": self.balance,
            "eth_getTransactionCount": self.transaction_count,
            "eth_getCode": self.code,
            "eth_getStorageAt": self.storage,
            "eth_getProof": self.proof,
            "eth_call": self.call,
            "eth_estimateGas": self.estimate_gas,
            "eth_gasPrice": self.gas_price,
            "eth_maxPriorityFeePerGas": lambda: hex(TIP),
            "eth_blobBaseFee": self.blob_base_fee,
            "eth_feeHistory": self.fee_history,
            "eth_sendRawTransaction": self.send,
            "debug_getRawHeader": lambda tag: to_hex(encode_header(self.require(tag).header)),
            "debug_getRawBlock": self.raw_block,
            "debug_getRawReceipts": lambda tag: [to_hex(entry.receipt) for entry in self.require(tag).executed],
            "debug_getRawTransaction": self.raw_transaction,
            **self._filters.methods(),
        }

    # --- block lookup ----------------------------------------------------------------------------------------------

    def find(self, tag: Any) -> Block | None:
        """Return the block of a label, a number, a hash, or an EIP-1898 object. Raises HexError for anything else."""
        chain = self._backend.chain
        if isinstance(tag, dict):
            tag = tag.get("blockHash") or tag.get("blockNumber")
        labels = {
            "latest": chain.head,
            "pending": chain.head,
            "safe": chain.safe,
            "finalized": chain.finalized,
            "earliest": chain.genesis,
        }
        if tag is None or tag in labels:
            return labels[tag or "latest"]
        if isinstance(tag, str) and len(tag) == 66:
            return chain.get(hash_from_hex(tag))
        return chain.at(from_quantity(tag))

    def require(self, tag: Any) -> Block:
        """As `find`. Raises JsonRpcError where there is no such block."""
        block = self.find(tag)
        if block is None:
            raise JsonRpcError(SERVER_ERROR, "header not found")
        return block

    def state(self, tag: Any) -> State:
        """Return the state after a block."""
        return State(self._backend.store, self.require(tag).header.state_root)

    # --- blocks, transactions, receipts ----------------------------------------------------------------------------

    def block_by_tag(self, tag: Any, full: bool = False) -> dict[str, Any] | None:
        """eth_getBlockByNumber."""
        block = self.find(tag)
        return None if block is None else block_json(block, full)

    def block_by_hash(self, block_hash: Any, full: bool = False) -> dict[str, Any] | None:
        """eth_getBlockByHash."""
        block = self._backend.chain.get(hash_from_hex(block_hash))
        return None if block is None else block_json(block, full)

    def transaction_count_of_block(self, tag: Any) -> str | None:
        """eth_getBlockTransactionCountByNumber and eth_getBlockTransactionCountByHash."""
        block = self.find(tag)
        return None if block is None else hex(len(block.executed))

    def block_receipts(self, tag: Any) -> list[dict[str, Any]] | None:
        """eth_getBlockReceipts."""
        block = self.find(tag)
        return None if block is None else [receipt_json(block, position) for position in range(len(block.executed))]

    def transaction(self, transaction_hash: Any) -> dict[str, Any] | None:
        """eth_getTransactionByHash, also of pending transactions."""
        wanted = hash_from_hex(transaction_hash)
        location = self._backend.chain.locate(wanted)
        if location is not None:
            return transaction_json(location.block, location.position)
        waiting = self._backend.pool.get(wanted)
        return None if waiting is None else bare_transaction_json(waiting)

    def transaction_of_block(self, tag: Any, index: Any) -> dict[str, Any] | None:
        """eth_getTransactionByBlockNumberAndIndex and eth_getTransactionByBlockHashAndIndex."""
        block, position = self.find(tag), from_quantity(index)
        return None if block is None or position >= len(block.executed) else transaction_json(block, position)

    def receipt(self, transaction_hash: Any) -> dict[str, Any] | None:
        """eth_getTransactionReceipt."""
        location = self._backend.chain.locate(hash_from_hex(transaction_hash))
        return None if location is None else receipt_json(location.block, location.position)

    def raw_block(self, tag: Any) -> str:
        """debug_getRawBlock."""
        block = self.require(tag)
        transactions = [
            entry.transaction.raw if entry.transaction.kind == 0 else rlp.encode_bytes(entry.transaction.raw)
            for entry in block.executed
        ]
        parts = [encode_header(block.header), rlp.encode_list(transactions), rlp.EMPTY_LIST]
        if block.header.withdrawals_root is not None:
            parts.append(rlp.EMPTY_LIST)
        return to_hex(rlp.encode_list(parts))

    def raw_transaction(self, transaction_hash: Any) -> str:
        """debug_getRawTransaction and eth_getRawTransactionByHash."""
        result = self._backend.chain.locate(hash_from_hex(transaction_hash))
        return "0x" if result is None else to_hex(result.block.executed[result.position].transaction.raw)

    def logs(self, query: Any) -> list[dict[str, Any]]:
        """eth_getLogs of one block by hash or of a canonical range. Raises JsonRpcError for too many logs."""
        query = _object(query)
        if query.get("blockHash") is not None:
            blocks = [self.require(query["blockHash"])]
        else:
            first, last = self.require(query.get("fromBlock")), self.require(query.get("toBlock"))
            numbers = range(first.number, last.number + 1)
            blocks = [block for number in numbers if (block := self._backend.chain.at(number)) is not None]
        wanted = _filter(query)
        result: list[dict[str, Any]] = []
        for block in blocks:
            for position, entry in enumerate(block.executed):
                if entry.result.logs:
                    location = {
                        "transactionHash": to_hex(entry.transaction.hash),
                        "transactionIndex": hex(position),
                        "blockHash": to_hex(block.hash),
                        "blockNumber": hex(block.number),
                    }
                    pairs = zip(entry.result.logs, logs_json(entry, location), strict=True)
                    result.extend(log_json for log, log_json in pairs if _matches(wanted, log.address, log.topics))
            if len(result) > _MAX_LOGS:
                raise JsonRpcError(SERVER_ERROR, f"query returned more than {_MAX_LOGS} results")
        return result

    # --- state -----------------------------------------------------------------------------------------------------

    def balance(self, address: Any, tag: Any = "latest") -> str:
        """eth_getBalance."""
        return hex(self.state(tag).balance(address_from_hex(address)))

    def transaction_count(self, address: Any, tag: Any = "latest") -> str:
        """eth_getTransactionCount, with pending transactions for the tag `pending`."""
        sender = address_from_hex(address)
        nonce = self.state(tag).nonce(sender)
        return hex(self._backend.pool.next_nonce(sender, nonce) if tag == "pending" else nonce)

    def code(self, address: Any, tag: Any = "latest") -> str:
        """eth_getCode."""
        return to_hex(self.state(tag).code(address_from_hex(address)))

    def storage(self, address: Any, slot: Any, tag: Any = "latest") -> str:
        """eth_getStorageAt."""
        value = self.state(tag).storage(address_from_hex(address), from_quantity(slot, 256))
        return to_hex(value.to_bytes(32, "big"))

    def proof(self, address: Any, slots: Any, tag: Any = "latest") -> dict[str, Any]:
        """eth_getProof. Raises JsonRpcError unless `slots` is a list."""
        if not isinstance(slots, list):
            raise JsonRpcError(INVALID_PARAMS, "storage keys must be a list")
        state, owner = self.state(tag), address_from_hex(address)
        keys = [(slot, from_quantity(slot, 256)) for slot in slots]
        return {
            "address": to_hex(owner),
            "accountProof": [to_hex(node) for node in state.prove_account(owner)],
            "balance": hex(state.balance(owner)),
            "codeHash": to_hex(state.code_hash(owner)),
            "nonce": hex(state.nonce(owner)),
            "storageHash": to_hex(state.storage_root(owner)),
            "storageProof": [
                {
                    "key": text,
                    "value": hex(state.storage(owner, slot)),
                    "proof": [to_hex(node) for node in state.prove_storage(owner, slot)],
                }
                for text, slot in keys
            ],
        }

    # --- calls and sending -----------------------------------------------------------------------------------------

    def call(self, call: Any, tag: Any = "latest") -> str:
        """eth_call. Raises JsonRpcError for a failed call."""
        result = self._simulated(simulate, call, tag)
        return to_hex(result.output)

    def estimate_gas(self, call: Any, tag: Any = "latest") -> str:
        """eth_estimateGas. Raises JsonRpcError for a failed call."""
        return hex(self._simulated(estimate, call, tag).gas_used)

    def _simulated(self, run: Callable[..., ExecutionResult], value: Any, tag: Any) -> ExecutionResult:
        block, call = self.require(tag), call_from_json(_object(value))
        gas = min(call.gas or GAS_CAP, max(block.header.gas_limit, GAS_CAP))
        state = State(self._backend.store, block.header.state_root)
        try:
            result = run(state, self._backend.evm_rules(block.header.timestamp), self._context(block), call, gas)
        except InvalidTransaction as error:
            raise JsonRpcError(SERVER_ERROR, str(error)) from None
        if not result.succeeded:
            if result.error == "execution reverted":
                raise JsonRpcError(REVERTED, result.error, to_hex(result.output))
            raise JsonRpcError(SERVER_ERROR, result.error)
        return result

    def _context(self, block: Block) -> BlockContext:
        """Return the context of a call on top of a block. Calls offer no fee and are charged none."""
        header = block.header
        return BlockContext(
            number=header.number,
            timestamp=header.timestamp,
            coinbase=header.miner,
            gas_limit=header.gas_limit,
            base_fee=header.base_fee or 0,
            prev_randao=header.mix_hash,
            chain_id=self._backend.chain_id,
            block_hash=self._backend.chain.hashes_before(block),
            slot_number=header.slot_number or 0,
        )

    def gas_price(self) -> str:
        """eth_gasPrice."""
        return hex((self._backend.chain.head.header.base_fee or 0) + TIP)

    def blob_base_fee(self) -> str | None:
        """eth_blobBaseFee: the price of blob gas in the head; None where blocks have no blob fields."""
        header = self._backend.chain.head.header
        rules = self._backend.evm_rules(header.timestamp).blobs
        if header.excess_blob_gas is None:
            return None
        return hex(MIN_BLOB_FEE if rules is None else blob_fee(rules, header.excess_blob_gas))

    def fee_history(self, count: Any, newest: Any, percentiles: Any = None) -> dict[str, Any]:
        """eth_feeHistory; every reward is the tip of eth_maxPriorityFeePerGas."""
        last = self.require(newest)
        wanted = min(count if type(count) is int else from_quantity(count), _MAX_HISTORY, last.number + 1)
        blocks = [self._backend.chain.ancestor(last, last.number - back) for back in range(wanted - 1, -1, -1)]
        history: dict[str, Any] = {
            "oldestBlock": hex(blocks[0].number if blocks else last.number),
            "baseFeePerGas": [hex(block.header.base_fee or 0) for block in blocks]
            + [hex(self._backend.next_base_fee(last))],
            "gasUsedRatio": [block.header.gas_used / block.header.gas_limit for block in blocks],
        }
        if isinstance(percentiles, list) and percentiles:
            history["reward"] = [[hex(TIP)] * len(percentiles) for _ in blocks]
        return history

    def send(self, raw: Any) -> str:
        """eth_sendRawTransaction. Raises JsonRpcError for an invalid transaction."""
        try:
            return to_hex(self._backend.send(from_hex(raw)))
        except InvalidTransaction as error:
            raise JsonRpcError(SERVER_ERROR, str(error)) from None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise JsonRpcError(INVALID_PARAMS, "expected an object")
    return value


def _filter(query: dict[str, Any]) -> LogFilter:
    address = query.get("address")
    addresses = address if isinstance(address, list) else [address]
    topics = query.get("topics") or []
    if not isinstance(topics, list) or len(topics) > 4:
        raise JsonRpcError(INVALID_PARAMS, "topics must be a list of at most 4")
    return LogFilter(
        addresses=None if address is None else frozenset(map(address_from_hex, addresses)),
        topics=tuple(_topic(topic) for topic in topics),
    )


def _topic(topic: Any) -> frozenset[bytes] | None:
    if topic is None:
        return None
    return frozenset(map(hash_from_hex, topic if isinstance(topic, list) else [topic]))


def _matches(wanted: LogFilter, address: bytes, topics: tuple[bytes, ...]) -> bool:
    if wanted.addresses is not None and address not in wanted.addresses:
        return False
    if len(wanted.topics) > len(topics):
        return False
    pairs = zip(wanted.topics, topics, strict=False)
    return all(choice is None or topic in choice for choice, topic in pairs)


GAS_CAP = 50_000_000
_PRECISION = 64


class CallRequest(NamedTuple):
    """The call object of eth_call; without `to` it creates a contract."""

    sender: Address
    to: Address | None
    value: int
    data: bytes
    gas: int | None


def call_from_json(fields: dict[str, Any]) -> CallRequest:
    """Parse a call object. Raises HexError for a malformed field."""
    data = fields.get("input") if fields.get("input") is not None else fields.get("data")
    return CallRequest(
        sender=ZERO_ADDRESS if fields.get("from") is None else address_from_hex(fields["from"]),
        to=None if fields.get("to") is None else address_from_hex(fields["to"]),
        value=0 if fields.get("value") is None else from_quantity(fields["value"], 256),
        data=b"" if data is None else from_hex(data),
        gas=None if fields.get("gas") is None else from_quantity(fields["gas"]),
    )


def simulate(state: State, rules: EvmRules, context: BlockContext, call: CallRequest, gas: int) -> ExecutionResult:
    """Run a call with this gas limit and revert its changes. Raises InvalidTransaction where it cannot start."""
    intrinsic = intrinsic_gas(rules, call.to, call.data)
    if gas < max(intrinsic):
        raise InvalidTransaction(f"intrinsic gas too low: have {gas}, want {max(intrinsic)}")
    balance = state.balance(call.sender)
    if balance < call.value:
        raise InvalidTransaction(f"insufficient funds for transfer: 0x{call.sender.hex()} has {balance}")
    state.begin_transaction()
    snapshot = state.snapshot()
    result = run_body(
        TransactionEnvironment(state, rules, context, call.sender, 0), call.to, call.value, call.data, gas, intrinsic
    )
    state.revert(snapshot)
    return result


def estimate(state: State, rules: EvmRules, context: BlockContext, call: CallRequest, cap: int) -> ExecutionResult:
    """Return the result with the lowest gas limit, to within 64, at which a call succeeds as `gas_used`.

    It is found by bisection. A call that fails with `cap` gas gives its failed result."""
    result = simulate(state, rules, context, call, cap)
    if not result.succeeded:
        return result
    # Refunds and the 64th of EIP-150 make the limit exceed the gas used, mostly by less than a fifth.
    guesses = [result.gas_used + result.gas_used // 5, result.gas_used]
    low, high = result.gas_used - 1, cap
    while high - low > _PRECISION:
        guess = guesses.pop() if guesses else 0
        tried = guess if low < guess < high else (low + high) // 2
        low, high = (low, tried) if _succeeds(state, rules, context, call, tried) else (tried, high)
    return result._replace(gas_used=high)


def _succeeds(state: State, rules: EvmRules, context: BlockContext, call: CallRequest, gas: int) -> bool:
    try:
        return simulate(state, rules, context, call, gas).succeeded
    except InvalidTransaction:
        return False
