"""Signed blocks of a synthetic chain for benchmarks of gossip: 100 KB of incompressible transactions each."""

import random

import msgspec

from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash
from rollup_node.stages.protocol.types import BlockId

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
