"""Executed blocks in memory by hash, the canonical ones by number, and the three labels.

With their transactions, and all of them as JSON-RPC results."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.headers import HEADER_FIELDS, Header, encode_header
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Hash
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.jsonrpc_server import Method
from rollup_node.tools.devnet.evm.transactions import AnyTransaction, Deposit, SignedTransaction
from rollup_node.tools.devnet.evm.transition import ExecutedTransaction


class Block(NamedTuple):
    """A sealed block."""

    hash: Hash
    header: Header
    executed: tuple[ExecutedTransaction, ...]

    @property
    def number(self) -> int:
        """The block's number."""
        return self.header.number

    @property
    def transactions(self) -> tuple[AnyTransaction, ...]:
        """The block's transactions."""
        return tuple(entry.transaction for entry in self.executed)

    @property
    def size(self) -> int:
        """The size of header and transactions in bytes."""
        return len(encode_header(self.header)) + sum(len(entry.transaction.raw) for entry in self.executed)


class TransactionLocation(NamedTuple):
    """The canonical block of a transaction, and its position in it."""

    block: Block
    position: int


class CanonicalChange(NamedTuple):
    """The blocks that a new head removed from the canonical chain and added to it, lowest first."""

    removed: tuple[Block, ...]
    added: tuple[Block, ...]


class BlockChain:
    """All blocks of a chain from its genesis; blocks off the canonical chain stay available by hash."""

    def __init__(self, genesis: Block) -> None:
        self.genesis = genesis
        self.head = self.safe = self.finalized = genesis
        self._blocks: dict[Hash, Block] = {genesis.hash: genesis}
        self._canonical: list[Block] = [genesis]
        self._locations: dict[Hash, tuple[Hash, int]] = {}

    def insert(self, block: Block) -> None:
        """Add a block whose parent is known."""
        self._blocks[block.hash] = block

    def get(self, block_hash: Hash) -> Block | None:
        """Return the block with a hash, canonical or not."""
        return self._blocks.get(block_hash)

    def at(self, number: int) -> Block | None:
        """Return the canonical block with a number."""
        index = number - self.genesis.number
        return self._canonical[index] if 0 <= index < len(self._canonical) else None

    def is_canonical(self, block: Block) -> bool:
        """Whether a block is on the canonical chain."""
        result = self.at(block.number)
        return result is not None and result.hash == block.hash

    def parent(self, block: Block) -> Block:
        """Return the parent of a known block other than genesis."""
        return self._blocks[block.header.parent_hash]

    def ancestor(self, block: Block, number: int) -> Block:
        """Return the ancestor of a block with a number not above its own; the block itself for its own number."""
        while block.number > number:
            if self.is_canonical(block):
                return self._canonical[number - self.genesis.number]
            block = self.parent(block)
        return block

    def hashes_before(self, parent: Block) -> Callable[[int], Hash]:
        """Return the BLOCKHASH function for a child of `parent`: the hash by number, zero before genesis."""

        def block_hash(number: int) -> Hash:
            return self.ancestor(parent, number).hash if number >= self.genesis.number else bytes(32)

        return block_hash

    def set_head(self, head: Block) -> CanonicalChange:
        """Make a known block the head; labels that leave the canonical chain fall back to the common ancestor."""
        added = []
        block = head
        while not self.is_canonical(block):
            added.append(block)
            block = self.parent(block)
        removed = self._canonical[block.number - self.genesis.number + 1 :]
        del self._canonical[block.number - self.genesis.number + 1 :]
        for old in removed:
            for transaction in old.transactions:
                self._locations.pop(transaction.hash, None)
        added.reverse()
        for new in added:
            self._canonical.append(new)
            for index, transaction in enumerate(new.transactions):
                self._locations[transaction.hash] = (new.hash, index)
        self.head = head
        self.safe = self.safe if self.is_canonical(self.safe) else block
        self.finalized = self.finalized if self.is_canonical(self.finalized) else block
        return CanonicalChange(tuple(removed), tuple(added))

    def locate(self, transaction_hash: Hash) -> TransactionLocation | None:
        """Return the location of a transaction on the canonical chain."""
        location = self._locations.get(transaction_hash)
        return None if location is None else TransactionLocation(self._blocks[location[0]], location[1])


def header_json(header: Header) -> dict[str, Any]:
    """Return a header's fields by their JSON-RPC names, without absent optional ones."""
    values = zip(HEADER_FIELDS, msgspec.structs.astuple(header), strict=True)
    return {
        field.json_name: hex(value) if field.bits else to_hex(value) for field, value in values if value is not None
    }


def block_json(block: Block, full: bool) -> dict[str, Any]:
    """Return a block object with transaction hashes, or with transaction objects if `full`."""
    result = header_json(block.header)
    result["hash"] = to_hex(block.hash)
    result["size"] = hex(block.size)
    result["uncles"] = []
    if block.header.withdrawals_root is not None:
        result["withdrawals"] = []
    if full:
        result["transactions"] = [transaction_json(block, position) for position in range(len(block.executed))]
    else:
        result["transactions"] = [to_hex(entry.transaction.hash) for entry in block.executed]
    return result


def transaction_json(block: Block, position: int) -> dict[str, Any]:
    """Return the object of a transaction in a block."""
    entry = block.executed[position]
    result = bare_transaction_json(entry.transaction)
    result |= {
        "blockHash": to_hex(block.hash),
        "blockNumber": hex(block.number),
        "transactionIndex": hex(position),
        "gasPrice": hex(entry.result.gas_price),
    }
    if isinstance(entry.transaction, Deposit):
        result["nonce"] = entry.extra.get("depositNonce", "0x0")
        if "depositReceiptVersion" in entry.extra:
            result["depositReceiptVersion"] = entry.extra["depositReceiptVersion"]
    return result


def bare_transaction_json(transaction: AnyTransaction) -> dict[str, Any]:
    """Return the object of a pending transaction."""
    body = transaction.body
    result: dict[str, Any] = {
        "hash": to_hex(transaction.hash),
        "type": hex(transaction.kind),
        "from": to_hex(transaction.sender),
        "to": None if body.to is None else to_hex(body.to),
        "value": hex(body.value),
        "gas": hex(body.gas),
        "input": to_hex(body.data),
        "blockHash": None,
        "blockNumber": None,
        "transactionIndex": None,
    }
    return result | (_deposit_fields(transaction) if isinstance(transaction, Deposit) else _signed_fields(transaction))


def _deposit_fields(transaction: Deposit) -> dict[str, Any]:
    """As op-geth writes them: isSystemTx only where it is true, since op-alloy's clients read a quantity there."""
    deposit = transaction.body
    return {
        "sourceHash": to_hex(deposit.source_hash),
        "mint": hex(deposit.mint),
        **({"isSystemTx": True} if deposit.is_system else {}),
        "nonce": "0x0",
        "gasPrice": "0x0",
        "v": "0x0",
        "r": "0x0",
        "s": "0x0",
    }


def _signed_fields(transaction: SignedTransaction) -> dict[str, Any]:
    body = transaction.body
    signed_fields: dict[str, Any] = {
        "nonce": hex(body.nonce),
        "gasPrice": hex(body.max_fee),
        "r": hex(body.r),
        "s": hex(body.s),
        "v": hex(body.y_parity),
    }
    if body.chain_id is not None:
        signed_fields["chainId"] = hex(body.chain_id)
    if body.kind == 0:
        signed_fields["v"] = hex(body.y_parity + (27 if body.chain_id is None else 35 + 2 * body.chain_id))
        return signed_fields
    signed_fields["yParity"] = hex(body.y_parity)
    signed_fields["accessList"] = [
        {"address": to_hex(access.address), "storageKeys": [to_hex(slot) for slot in access.slots]}
        for access in body.access_list
    ]
    if body.kind >= 2:
        signed_fields["maxFeePerGas"] = hex(body.max_fee)
        signed_fields["maxPriorityFeePerGas"] = hex(body.max_priority_fee)
    if body.blob_hashes:
        signed_fields["maxFeePerBlobGas"] = hex(body.max_blob_fee)
        signed_fields["blobVersionedHashes"] = [to_hex(blob_hash) for blob_hash in body.blob_hashes]
    if body.authorizations:
        signed_fields["authorizationList"] = [
            {
                "chainId": hex(authorization.chain_id),
                "address": to_hex(authorization.address),
                "nonce": hex(authorization.nonce),
                "yParity": hex(authorization.y_parity),
                "r": hex(authorization.r),
                "s": hex(authorization.s),
            }
            for authorization in body.authorizations
        ]
    return signed_fields


def receipt_json(block: Block, position: int) -> dict[str, Any]:
    """Return the receipt of a transaction in a block."""
    entry = block.executed[position]
    transaction, result = entry.transaction, entry.result
    location = {
        "transactionHash": to_hex(transaction.hash),
        "transactionIndex": hex(position),
        "blockHash": to_hex(block.hash),
        "blockNumber": hex(block.number),
    }
    created = result.created if result.succeeded else None
    return {
        **location,
        "type": hex(transaction.kind),
        "from": to_hex(transaction.sender),
        "to": None if transaction.body.to is None else to_hex(transaction.body.to),
        "status": "0x1" if result.succeeded else "0x0",
        "gasUsed": hex(result.gas_used),
        "cumulativeGasUsed": hex(entry.cumulative_gas),
        "effectiveGasPrice": hex(result.gas_price),
        "contractAddress": None if created is None else to_hex(created),
        "logsBloom": to_hex(entry.bloom.to_bytes(256, "big")),
        "logs": logs_json(entry, location),
        **entry.extra,
    }


def logs_json(entry: ExecutedTransaction, location: dict[str, str]) -> list[dict[str, Any]]:
    """Return the log objects of a transaction; `location` has the fields that name transaction and block."""
    return [
        {
            **location,
            "address": to_hex(log.address),
            "topics": [to_hex(topic) for topic in log.topics],
            "data": to_hex(log.data),
            "logIndex": hex(entry.log_index + index),
            "removed": False,
        }
        for index, log in enumerate(entry.result.logs)
    ]


MAX_FILTERS = 256
"""The filter that was read the longest time ago is dropped for a newer one."""
MAX_CHANGES = 10_000

Logs = Callable[[dict[str, Any]], list[dict[str, Any]]]


class Filter(NamedTuple):
    """A filter for blocks, or for logs that match `query`; `seen` is the head when it was last read."""

    seen: Block
    query: dict[str, Any] | None


class EthFilters:
    """The filter methods over a chain; `logs` is eth_getLogs.

    A filter for logs ignores the range of its query, except in eth_getFilterLogs."""

    def __init__(self, chain: BlockChain, logs: Logs) -> None:
        self._chain, self._logs = chain, logs
        self._filters: OrderedDict[str, Filter] = OrderedDict()

    def methods(self) -> dict[str, Method]:
        """Return the method table."""
        return {
            "eth_newBlockFilter": lambda: self._add(None),
            "eth_newFilter": self.new_filter,
            "eth_getFilterChanges": self.changes,
            "eth_getFilterLogs": self.filter_logs,
            "eth_uninstallFilter": lambda name: self._filters.pop(str(name), None) is not None,
        }

    def new_filter(self, query: Any) -> str:
        """eth_newFilter. Raises JsonRpcError and HexError for a malformed query."""
        self._logs_of(self._chain.head, query)
        return self._add(query)

    def changes(self, name: Any) -> list[Any]:
        """eth_getFilterChanges: hashes of new blocks, or logs, those of blocks that left the chain first and marked.

        Raises JsonRpcError for an unknown filter, and for more than MAX_CHANGES blocks."""
        result = self._get(name)
        change = change_since(self._chain, result.seen)
        self._filters[str(name)] = result._replace(seen=self._chain.head)
        if result.query is None:
            return [to_hex(block.hash) for block in change.added]
        removed = [log | {"removed": True} for block in change.removed for log in self._logs_of(block, result.query)]
        return removed + [log for block in change.added for log in self._logs_of(block, result.query)]

    def filter_logs(self, name: Any) -> list[dict[str, Any]]:
        """eth_getFilterLogs. Raises JsonRpcError for an unknown filter, and one for blocks."""
        query = self._get(name).query
        if query is None:
            raise JsonRpcError(SERVER_ERROR, "filter not found")
        return self._logs(query)

    def _logs_of(self, block: Block, query: Any) -> list[dict[str, Any]]:
        if isinstance(query, dict):
            query = {name: query[name] for name in ("address", "topics") if name in query}
            query["blockHash"] = to_hex(block.hash)
        return self._logs(query)

    def _add(self, query: dict[str, Any] | None) -> str:
        name = hex(secrets.randbits(128))
        self._filters[name] = Filter(self._chain.head, query)
        if len(self._filters) > MAX_FILTERS:
            self._filters.popitem(last=False)
        return name

    def _get(self, name: Any) -> Filter:
        result = self._filters.get(str(name))
        if result is None:
            raise JsonRpcError(SERVER_ERROR, "filter not found")
        self._filters.move_to_end(str(name))
        return result


def change_since(chain: BlockChain, seen: Block) -> CanonicalChange:
    """Return what left the canonical chain and joined it since a block was its head, lowest first.

    Raises JsonRpcError for more than MAX_CHANGES blocks."""
    removed = []
    while not chain.is_canonical(seen):
        removed.append(seen)
        seen = chain.parent(seen)
    numbers = range(seen.number + 1, chain.head.number + 1)
    if len(removed) + len(numbers) > MAX_CHANGES:
        raise JsonRpcError(SERVER_ERROR, f"more than {MAX_CHANGES} blocks since the filter was last read")
    return CanonicalChange(tuple(removed[::-1]), tuple(b for n in numbers if (b := chain.at(n)) is not None))
