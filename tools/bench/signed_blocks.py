"""Signed blocks of a synthetic chain for benchmarks of gossip: 100 KB of incompressible transactions each."""

import random

import msgspec

from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes, payload_block_hash
from rollup_node.stages.protocol.system_config import encode_extra_data
from rollup_node.stages.protocol.transactions import Transaction, encode_transaction
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId

CHAIN_ID = 901
TRANSACTIONS, TRANSACTION_SIZE = 400, 250
TOPICS = block_message.block_topics(CHAIN_ID)
VERSION = block_message.VERSIONS[-1]
TOPIC = block_message.block_topic(CHAIN_ID, VERSION)
SIGNER = LocalSigner(b"\x11" * 32)


def chain_config(genesis_time: int) -> RollupConfig:
    """Return a chain whose blocks use the newest gossip version from genesis on."""
    start = BlockId(0, bytes(32))
    return RollupConfig(
        genesis=Genesis(start, start, genesis_time, SystemConfig(bytes(20), bytes(32), bytes(32), 30_000_000)),
        block_time=2,
        max_sequencer_drift=600,
        seq_window_size=3600,
        channel_timeout=300,
        l1_chain_id=900,
        l2_chain_id=CHAIN_ID,
        fork_times=dict.fromkeys(
            ("regolith", "canyon", "delta", "ecotone", "fjord", "granite", "holocene", "isthmus"), 0
        ),
        batch_inbox=bytes(20),
        deposit_contract=bytes(20),
        l1_system_config=bytes(20),
    )


def signed_message(number: int, timestamp: int, chance: random.Random) -> bytes:
    """Return the data of the gossip message of a block: signature and encoded payload, compressed by snappy."""
    payload = ExecutionPayload(
        parent_hash=bytes(32),
        fee_recipient=bytes(20),
        state_root=bytes(32),
        receipts_root=bytes(32),
        logs_bloom=bytes(256),
        prev_randao=bytes(32),
        block_number=number,
        gas_limit=30_000_000,
        gas_used=30_000_000,
        timestamp=timestamp,
        extra_data=bytes(9),
        base_fee=1,
        block_hash=bytes(32),
        transactions=tuple(chance.randbytes(TRANSACTION_SIZE) for _ in range(TRANSACTIONS)),
        withdrawals=True,
        blob_gas_used=0,
        excess_blob_gas=0,
        withdrawals_root=b"\x01" * 32,
        parent_beacon_root=bytes(32),
    )
    payload = msgspec.structs.replace(payload, block_hash=payload_block_hash(payload))
    part = block_message.encode_signed_part(payload, VERSION)
    return block_message.encode_message(SIGNER.sign(CHAIN_ID, part), part)


SECRET = b"\x42" * 32
"""The JWT secret of the engines of benchmarks."""


def transfer(nonce: int, chain_id: int = 10) -> bytes:
    """Return a transfer with some data; no two of them are the same."""
    return encode_transaction(
        Transaction(2, chain_id, nonce, 1, 100, 50_000, b"\x05" * 20, 5, nonce.to_bytes(68, "big"), 1, 3 + nonce, 4)
    )


def pool(count: int) -> tuple[bytes, ...]:
    """Transactions for blocks."""
    return tuple(map(transfer, range(count)))


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
    """Return the block of attributes with further transactions."""
    rules = config.schedule().l2(attributes.timestamp)
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
        blob_gas_used=0 if rules.beacon_root else None,
        excess_blob_gas=0 if rules.beacon_root else None,
        withdrawals_root=ZERO_HASH if rules.withdrawals_root else None,
        parent_beacon_root=attributes.parent_beacon_root,
    )
    return msgspec.structs.replace(payload, block_hash=payload_block_hash(payload))
