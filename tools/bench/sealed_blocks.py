"""Blocks that nobody executed: a genesis block, blocks sealed of attributes, and transactions for them."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes, payload_block_hash
from rollup_node.stages.protocol.system_config import encode_extra_data
from rollup_node.stages.protocol.transactions import Transaction, encode_transaction
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId

SECRET = b"\x42" * 32
"""The JWT secret of the engines of benchmarks."""


def pool(count: int) -> tuple[bytes, ...]:
    """Transactions for blocks: transfers with some data, different ones."""
    return tuple(
        encode_transaction(
            Transaction(2, 10, nonce, 1, 100, 50_000, b"\x05" * 20, 5, nonce.to_bytes(68, "big"), 1, 3 + nonce, 4)
        )
        for nonce in range(count)
    )


def genesis_payload(timestamp: int) -> ExecutionPayload:
    """Return the L2 genesis block."""
    payload = ExecutionPayload(
        parent_hash=ZERO_HASH,
        fee_recipient=bytes(20),
        state_root=ZERO_HASH,
        receipts_root=ZERO_HASH,
        logs_bloom=bytes(256),
        prev_randao=ZERO_HASH,
        block_number=0,
        gas_limit=60_000_000,
        gas_used=0,
        timestamp=timestamp,
        extra_data=b"",
        base_fee=1,
        block_hash=ZERO_HASH,
        transactions=(),
        withdrawals=False,
        blob_gas_used=None,
        excess_blob_gas=None,
        withdrawals_root=None,
        parent_beacon_root=None,
    )
    return msgspec.structs.replace(payload, block_hash=payload_block_hash(payload))


def sealed(
    config: RollupConfig, parent: BlockId, attributes: PayloadAttributes, transactions: tuple[bytes, ...]
) -> ExecutionPayload:
    """Return the block of attributes with further transactions; Ecotone is active."""
    assert config.chain_op_config is not None
    payload = ExecutionPayload(
        parent_hash=parent.hash,
        fee_recipient=attributes.fee_recipient,
        state_root=ZERO_HASH,
        receipts_root=ZERO_HASH,
        logs_bloom=bytes(256),
        prev_randao=attributes.prev_randao,
        block_number=parent.number + 1,
        gas_limit=attributes.gas_limit,
        gas_used=21_000,
        timestamp=attributes.timestamp,
        extra_data=encode_extra_data(attributes.eip1559_params, attributes.min_base_fee, config.chain_op_config),
        base_fee=1,
        block_hash=ZERO_HASH,
        transactions=(*attributes.transactions, *transactions),
        withdrawals=attributes.withdrawals,
        blob_gas_used=0,
        excess_blob_gas=0,
        withdrawals_root=ZERO_HASH if config.schedule().l2(attributes.timestamp).withdrawals_root else None,
        parent_beacon_root=attributes.parent_beacon_root,
    )
    return msgspec.structs.replace(payload, block_hash=payload_block_hash(payload))
