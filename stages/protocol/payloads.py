"""Payload attributes and execution payloads, and the header and hash of a payload's block [HSH10 to HSH16]."""

from collections.abc import Iterable

import msgspec

from rollup_node.stages.protocol.headers import EMPTY_REQUESTS_HASH, EMPTY_UNCLES_HASH, ZERO_NONCE, Header, header_hash
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, ordered_root
from rollup_node.stages.protocol.types import ZERO_HASH, Address, Hash


class PayloadAttributes(msgspec.Struct, frozen=True, array_like=True):
    """What the engine builds a block from [ATT11 to ATT20].

    `withdrawals` says whether the list, which is always empty, is present; the optional values are absent before their
    forks. `timestamp` in seconds, fees in wei."""

    timestamp: int
    prev_randao: Hash
    fee_recipient: Address
    withdrawals: bool
    parent_beacon_root: Hash | None
    transactions: tuple[bytes, ...]
    no_tx_pool: bool
    gas_limit: int
    eip1559_params: bytes | None
    min_base_fee: int | None


class ExecutionPayload(msgspec.Struct, frozen=True, array_like=True):
    """A sealed L2 block with the Engine API's fields [ENG8], and `parent_beacon_root`, which that sends beside them."""

    parent_hash: Hash
    fee_recipient: Address
    state_root: Hash
    receipts_root: Hash
    logs_bloom: bytes
    prev_randao: Hash
    block_number: int
    gas_limit: int
    gas_used: int
    timestamp: int
    extra_data: bytes
    base_fee: int
    block_hash: Hash
    transactions: tuple[bytes, ...]
    withdrawals: bool
    blob_gas_used: int | None
    excess_blob_gas: int | None
    withdrawals_root: Hash | None
    parent_beacon_root: Hash | None


def payload_header(payload: ExecutionPayload) -> Header:
    """Return the header of a payload's block, its roots by the fields present, not by fork times [HSH14]."""
    # From Isthmus on the field holds a storage root, which the list of withdrawals does not show [HSH11].
    if payload.withdrawals_root is not None:
        withdrawals_root: Hash | None = payload.withdrawals_root
    else:
        withdrawals_root = EMPTY_ROOT if payload.withdrawals else None
    return Header(
        parent_hash=payload.parent_hash,
        uncles_hash=EMPTY_UNCLES_HASH,
        miner=payload.fee_recipient,
        state_root=payload.state_root,
        transactions_root=ordered_root(payload.transactions),
        receipts_root=payload.receipts_root,
        logs_bloom=payload.logs_bloom,
        difficulty=0,
        number=payload.block_number,
        gas_limit=payload.gas_limit,
        gas_used=payload.gas_used,
        timestamp=payload.timestamp,
        extra_data=payload.extra_data,
        mix_hash=payload.prev_randao,
        nonce=ZERO_NONCE,
        base_fee=payload.base_fee,
        withdrawals_root=withdrawals_root,
        blob_gas_used=payload.blob_gas_used,
        excess_blob_gas=payload.excess_blob_gas,
        parent_beacon_root=payload.parent_beacon_root,
        requests_hash=None if payload.withdrawals_root is None else EMPTY_REQUESTS_HASH,
    )


def payload_block_hash(payload: ExecutionPayload) -> Hash:
    """Return the hash computed from the payload's other fields; `payload.block_hash` is only what its sender claims."""
    return header_hash(payload_header(payload))


def output_preimage(state_root: Hash, storage_root: Hash, block_hash: Hash) -> bytes:
    """Return the 128 bytes of a version 0 output; `storage_root` is the one of L2ToL1MessagePasser."""
    return ZERO_HASH + state_root + storage_root + block_hash


def output_root(state_root: Hash, storage_root: Hash, block_hash: Hash) -> Hash:
    """Return the version 0 output root of an L2 block; `storage_root` is the one of L2ToL1MessagePasser."""
    return keccak256(output_preimage(state_root, storage_root, block_hash))


def super_preimage(timestamp: int, outputs: Iterable[tuple[int, Hash]]) -> bytes:
    """Return a version 1 super root's preimage; `timestamp` in seconds, (chain id, output root) pairs in any order."""
    chains = b"".join(chain_id.to_bytes(32, "big") + output for chain_id, output in sorted(outputs))
    return b"\x01" + timestamp.to_bytes(8, "big") + chains


def super_root(timestamp: int, outputs: Iterable[tuple[int, Hash]]) -> Hash:
    """Return the version 1 super root; arguments as of `super_preimage`."""
    return keccak256(super_preimage(timestamp, outputs))
