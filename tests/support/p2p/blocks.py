"""Blocks of a test chain for gossip and sync, with valid hashes and parents, and their signer."""

from typing import Any

import msgspec

from rollup_node.stages.messages.p2p import PublishRequest
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.signing import LocalSigner
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.l1_info import L1Info, l1_info_deposit
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash
from rollup_node.stages.protocol.types import BlockId, L2BlockRef
from rollup_node.tools.bench import signed_blocks

CHAIN_ID = signed_blocks.CHAIN_ID
GENESIS_TIME = 1_700_000_000
BLOCK_TIME = 2
SIGNER = signed_blocks.SIGNER
LAST_FORK = {1: "regolith", 2: "delta", 3: "holocene", 4: "isthmus"}


def chain_config(last_fork: str = "jovian") -> RollupConfig:
    """Return a chain with the forks up to one of them at genesis."""
    forks = FORK_NAMES[1 : FORK_NAMES.index(last_fork) + 1]
    return msgspec.structs.replace(
        signed_blocks.chain_config(GENESIS_TIME), fork_times=dict.fromkeys(forks, GENESIS_TIME)
    )


def block(version: int = 4, number: int = 1, parent: bytes = bytes(32), **changes: Any) -> ExecutionPayload:
    """Return a block of a version with its hash; `changes` are made before that is computed."""
    fields: dict[str, Any] = {
        "parent_hash": parent,
        "fee_recipient": b"\x42" * 20,
        "state_root": b"\x01" * 32,
        "receipts_root": b"\x02" * 32,
        "logs_bloom": bytes(255) + b"\x03",
        "prev_randao": b"\x04" * 32,
        "block_number": number,
        "gas_limit": 30_000_000,
        "gas_used": 21_000,
        "timestamp": GENESIS_TIME + BLOCK_TIME * number,
        "extra_data": b"extra",
        "base_fee": 10**9,
        "block_hash": bytes(32),
        "transactions": (b"\x7e" + bytes(99), b"\x02" + number.to_bytes(8, "big") * 20),
        "withdrawals": version >= 2,
        "blob_gas_used": 0 if version >= 3 else None,
        "excess_blob_gas": 0 if version >= 3 else None,
        "withdrawals_root": b"\x05" * 32 if version >= 4 else None,
        "parent_beacon_root": b"\x06" * 32 if version >= 3 else None,
    }
    payload = ExecutionPayload(**(fields | changes))
    return msgspec.structs.replace(payload, block_hash=payload_block_hash(payload))


def chain(count: int, version: int = 4, first: int = 1) -> list[ExecutionPayload]:
    """Consecutive blocks from number `first` on."""
    blocks: list[ExecutionPayload] = []
    for number in range(first, first + count):
        blocks.append(block(version, number, blocks[-1].block_hash if blocks else bytes(32)))
    return blocks


NO_ORIGIN = BlockId(0, bytes(32))


def publish_request(
    payload: ExecutionPayload, request_id: int | None = None, parent_origin: BlockId = NO_ORIGIN
) -> PublishRequest:
    """Return the engine process's request for a block, with the block's number as its id by default.

    The parent's parent has a hash of zeros."""
    number = payload.block_number
    parent = L2BlockRef(payload.parent_hash, number - 1, bytes(32), payload.timestamp - BLOCK_TIME, parent_origin, 0)
    return PublishRequest(number if request_id is None else request_id, payload, parent, derived=0)


def l1_info_transaction(config: RollupConfig, timestamp: int, origin: BlockId) -> bytes:
    """Return the first transaction of a block with that L1 origin."""
    info = L1Info(origin.number, timestamp, 7, origin.hash, 0, bytes(20))
    return l1_info_deposit(info, config.schedule().l1_info_format(timestamp), is_system=False)


def signed(
    payload: ExecutionPayload, version: int = 4, signer: LocalSigner = SIGNER, chain_id: int = CHAIN_ID
) -> bytes:
    """Return the decompressed gossip message of a block."""
    part = block_message.encode_signed_part(payload, version)
    return signer.sign(chain_id, part) + part
