"""References, system configs and payloads of L2 blocks that an engine sealed or JSON-RPC returned [ATT44, ATT45].

And references of any block as JSON."""

from collections.abc import Mapping
from typing import Any

from rollup_node.stages.protocol.config import RollupConfig, SystemConfig
from rollup_node.stages.protocol.headers import Header, HeaderError, header_from_json
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, hash_from_hex, short_repr, to_hex
from rollup_node.stages.protocol.l1_info import L1InfoError, l1_info_of_block, parse_l1_info
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash
from rollup_node.stages.protocol.system_config import system_config_of_block
from rollup_node.stages.protocol.transaction_json import transaction_from_json
from rollup_node.stages.protocol.transactions import TransactionError
from rollup_node.stages.protocol.types import BlockId, BlockRef, Hash, L2BlockRef


class BlockError(ValueError):
    """The block does not belong to this rollup, or its JSON is malformed."""


def l2_ref_of_payload(config: RollupConfig, payload: ExecutionPayload) -> L2BlockRef:
    """Return a sealed block's reference [ATT44, ATT45]. Raises BlockError: unreadable L1 attributes, other genesis."""
    genesis = config.genesis
    if payload.block_number == genesis.l2.number:
        return _genesis_ref(config, payload.block_hash, payload.parent_hash, payload.timestamp)
    try:
        info = l1_info_of_block(payload.transactions, config.schedule().l1_info_format(payload.timestamp))
    except L1InfoError as error:
        raise BlockError(f"block {payload.block_number}: {error}") from None
    return L2BlockRef(
        hash=payload.block_hash,
        number=payload.block_number,
        parent_hash=payload.parent_hash,
        timestamp=payload.timestamp,
        l1_origin=info.origin,
        sequence_number=info.sequence_number,
    )


def system_config_of_payload(config: RollupConfig, payload: ExecutionPayload) -> SystemConfig:
    """Return the system config of a sealed block. Raises system_config.BlockConfigError if it carries none."""
    return system_config_of_block(
        config,
        number=payload.block_number,
        block_hash=payload.block_hash,
        timestamp=payload.timestamp,
        gas_limit=payload.gas_limit,
        extra_data=payload.extra_data,
        transactions=payload.transactions,
    )


def _genesis_ref(config: RollupConfig, block_hash: Hash, parent_hash: Hash, timestamp: int) -> L2BlockRef:
    genesis = config.genesis
    if block_hash != genesis.l2.hash:
        raise BlockError(
            "expected L2 genesis hash to match L2 block at genesis block number "
            f"{genesis.l2.number}: 0x{block_hash.hex()} <> 0x{genesis.l2.hash.hex()}"
        )
    return L2BlockRef(block_hash, genesis.l2.number, parent_hash, timestamp, genesis.l1, 0)


def l2_ref_from_json(config: RollupConfig, block: Any) -> L2BlockRef:
    """Return the reference of a JSON-RPC block with full transactions, its hash unverified. Raises BlockError."""
    header, block_hash = _header_and_hash(block)
    if header.number == config.genesis.l2.number:
        return _genesis_ref(config, block_hash, header.parent_hash, header.timestamp)
    try:
        layout = config.schedule().l1_info_format(header.timestamp)
        info = parse_l1_info(_first_call_data(block), layout)
    except (L1InfoError, HexError) as error:
        raise BlockError(f"block {header.number}: {error}") from None
    origin = BlockId(info.number, info.block_hash)
    return L2BlockRef(block_hash, header.number, header.parent_hash, header.timestamp, origin, info.sequence_number)


def payload_from_block_json(block: Any, *, verify: bool = True) -> ExecutionPayload:
    """Return the payload of a JSON-RPC block with full transactions, hashed with `verify`. Raises BlockError."""
    header, block_hash = _header_and_hash(block)
    if block.get("withdrawals"):
        raise BlockError(f"block {header.number}: an L2 block has no withdrawals")
    try:
        transactions = tuple([transaction_from_json(item) for item in _transactions(block)])
    except TransactionError as error:
        raise BlockError(f"block {header.number}: {error}") from None
    payload = payload_of_header(header, block_hash, transactions)
    if verify and payload_block_hash(payload) != block_hash:
        raise BlockError(f"block {header.number}: its content does not have the hash 0x{block_hash.hex()}")
    return payload


def payload_of_header(header: Header, block_hash: Hash, transactions: tuple[bytes, ...]) -> ExecutionPayload:
    """Return the payload of the block with this header, hash and encoded transactions."""
    root = header.withdrawals_root
    is_empty_list = root == EMPTY_ROOT and header.requests_hash is None  # not a storage root [HSH17]
    return ExecutionPayload(
        parent_hash=header.parent_hash,
        fee_recipient=header.miner,
        state_root=header.state_root,
        receipts_root=header.receipts_root,
        logs_bloom=header.logs_bloom,
        prev_randao=header.mix_hash,
        block_number=header.number,
        gas_limit=header.gas_limit,
        gas_used=header.gas_used,
        timestamp=header.timestamp,
        extra_data=header.extra_data,
        base_fee=header.base_fee or 0,
        block_hash=block_hash,
        transactions=transactions,
        withdrawals=root is not None,
        blob_gas_used=header.blob_gas_used,
        excess_blob_gas=header.excess_blob_gas,
        withdrawals_root=None if is_empty_list else root,
        parent_beacon_root=header.parent_beacon_root,
    )


def _header_and_hash(block: Any) -> tuple[Header, Hash]:
    if not isinstance(block, dict):
        raise BlockError(f"expected a block object, got {short_repr(block)}")
    try:
        header = header_from_json(block)
    except HeaderError as error:
        raise BlockError(f"malformed block: {error}") from None
    try:
        return header, hash_from_hex(block.get("hash"))
    except HexError as error:
        raise BlockError(f"malformed block: hash: {error}") from None


def _transactions(block: Mapping[str, Any]) -> list[Any]:
    transactions = block.get("transactions")
    if not isinstance(transactions, list):
        raise BlockError("malformed block: transactions are not a list")
    return transactions


def _first_call_data(block: Mapping[str, Any]) -> bytes:
    transactions = _transactions(block)
    if not transactions:
        raise L1InfoError("it came without transactions, which are pruned or not downloaded yet: no L1 info")
    first = transactions[0]
    if not isinstance(first, dict) or first.get("type") != "0x7e":
        raise L1InfoError("the block's first transaction is no deposit, or only its hash was given")
    return from_hex(first.get("input"))


def block_id_object(block: BlockId) -> dict[str, Any]:
    """Return a BlockID as a JSON object [RPC21]."""
    return {"hash": to_hex(block.hash), "number": block.number}


def ref_object(ref: BlockRef | L2BlockRef) -> dict[str, Any]:
    """Return what all references have as a JSON object [RPC21, IOP21]."""
    return {
        "hash": to_hex(ref.hash),
        "number": ref.number,
        "parentHash": to_hex(ref.parent_hash),
        "timestamp": ref.timestamp,
    }


def l2_ref_object(ref: L2BlockRef) -> dict[str, Any]:
    """Return an L2BlockRef as a JSON object [RPC21]."""
    return {**ref_object(ref), "l1origin": block_id_object(ref.l1_origin), "sequenceNumber": ref.sequence_number}


def output_object(state_root: Hash, storage_root: Hash, block_hash: Hash) -> dict[str, Any]:
    """Return what an output root is made of as a JSON object."""
    names = ("stateRoot", "messagePasserStorageRoot", "blockHash")
    return dict(zip(names, map(to_hex, (state_root, storage_root, block_hash)), strict=True))
