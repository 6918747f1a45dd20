"""Blocks, transactions and receipts as JSON-RPC gives them, of both chains."""

from typing import Any

import msgspec

from rollup_node.stages.protocol.headers import HEADER_FIELDS, Header
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.evm.state_transition.block import ExecutedTransaction
from rollup_node.tools.devnet.evm.transactions import AnyTransaction, Deposit, SignedTransaction


def header_json(header: Header) -> dict[str, Any]:
    """A header's fields by their JSON-RPC names, without absent optional ones."""
    values = zip(HEADER_FIELDS, msgspec.structs.astuple(header), strict=True)
    return {
        field.json_name: hex(value) if field.bits else to_hex(value) for field, value in values if value is not None
    }


def block_json(block: Block, full: bool) -> dict[str, Any]:
    """A block object with transaction hashes, or with transaction objects if `full`."""
    found = header_json(block.header)
    found["hash"] = to_hex(block.hash)
    found["size"] = hex(block.size)
    found["uncles"] = []
    if block.header.withdrawals_root is not None:
        found["withdrawals"] = []
    if full:
        found["transactions"] = [transaction_json(block, position) for position in range(len(block.executed))]
    else:
        found["transactions"] = [to_hex(entry.transaction.hash) for entry in block.executed]
    return found


def transaction_json(block: Block, position: int) -> dict[str, Any]:
    """The object of a transaction in a block."""
    entry = block.executed[position]
    found = bare_transaction_json(entry.transaction)
    found |= {
        "blockHash": to_hex(block.hash),
        "blockNumber": hex(block.number),
        "transactionIndex": hex(position),
        "gasPrice": hex(entry.result.gas_price),
    }
    if isinstance(entry.transaction, Deposit):
        found["nonce"] = entry.extra.get("depositNonce", "0x0")
        if "depositReceiptVersion" in entry.extra:
            found["depositReceiptVersion"] = entry.extra["depositReceiptVersion"]
    return found


def bare_transaction_json(transaction: AnyTransaction) -> dict[str, Any]:
    """The object of a pending transaction."""
    body = transaction.body
    found: dict[str, Any] = {
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
    return found | (_deposit_fields(transaction) if isinstance(transaction, Deposit) else _signed_fields(transaction))


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
    found: dict[str, Any] = {
        "nonce": hex(body.nonce),
        "gasPrice": hex(body.max_fee),
        "r": hex(body.r),
        "s": hex(body.s),
        "v": hex(body.y_parity),
    }
    if body.chain_id is not None:
        found["chainId"] = hex(body.chain_id)
    if body.kind == 0:
        found["v"] = hex(body.y_parity + (27 if body.chain_id is None else 35 + 2 * body.chain_id))
        return found
    found["yParity"] = hex(body.y_parity)
    found["accessList"] = [
        {"address": to_hex(access.address), "storageKeys": [to_hex(slot) for slot in access.slots]}
        for access in body.access_list
    ]
    if body.kind >= 2:
        found["maxFeePerGas"] = hex(body.max_fee)
        found["maxPriorityFeePerGas"] = hex(body.max_priority_fee)
    if body.blob_hashes:
        found["maxFeePerBlobGas"] = hex(body.max_blob_fee)
        found["blobVersionedHashes"] = [to_hex(blob_hash) for blob_hash in body.blob_hashes]
    if body.authorizations:
        found["authorizationList"] = [
            {
                "chainId": hex(each.chain_id),
                "address": to_hex(each.address),
                "nonce": hex(each.nonce),
                "yParity": hex(each.y_parity),
                "r": hex(each.r),
                "s": hex(each.s),
            }
            for each in body.authorizations
        ]
    return found


def receipt_json(block: Block, position: int) -> dict[str, Any]:
    """The receipt of a transaction in a block."""
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
    """The log objects of a transaction; `location` has the fields that name transaction and block."""
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
