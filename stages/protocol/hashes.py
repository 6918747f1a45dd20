"""What a payload hashes to, and the output root that L1 is told (attributes-rules 6.3, 6.5, 6.6)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.headers import (
    EMPTY_REQUESTS_HASH,
    EMPTY_UNCLES_HASH,
    ZERO_NONCE,
    Header,
    header_hash,
)
from rollup_node.stages.protocol.hex_encoding import address_from_hex, from_quantity
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, ordered_root
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.rlp import encode_bytes, encode_int
from rollup_node.stages.protocol.types import ZERO_HASH, Hash


def payload_header(payload: ExecutionPayload) -> Header:
    """The header that a payload stands for. Roots follow from what is present, not from fork times."""
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
    """The hash the payload should claim."""
    return header_hash(payload_header(payload))


def withdrawals_root(withdrawals: Sequence[Mapping[str, Any]]) -> Hash:
    """Root of an L1 block's withdrawals as JSON-RPC gives them; raises HexError for malformed ones."""
    return ordered_root([_encoded_withdrawal(each) for each in withdrawals])


def _encoded_withdrawal(withdrawal: Mapping[str, Any]) -> bytes:
    return rlp.encode_list(
        (
            encode_int(from_quantity(withdrawal.get("index"))),
            encode_int(from_quantity(withdrawal.get("validatorIndex"))),
            encode_bytes(address_from_hex(withdrawal.get("address"))),
            encode_int(from_quantity(withdrawal.get("amount"))),
        )
    )


# --- output roots --------------------------------------------------------------------------------------------------


def output_preimage(state_root: Hash, storage_root: Hash, block_hash: Hash) -> bytes:
    """The 128 bytes of a version 0 output."""
    return ZERO_HASH + state_root + storage_root + block_hash


def output_root(state_root: Hash, storage_root: Hash, block_hash: Hash) -> Hash:
    """The output root of a block; `storage_root` is that of the L2-to-L1 message passer."""
    return keccak256(output_preimage(state_root, storage_root, block_hash))


def super_preimage(timestamp: int, outputs: Iterable[tuple[int, Hash]]) -> bytes:
    """A version 1 super root's preimage from (chain id, output root) pairs in any order."""
    chains = b"".join(chain_id.to_bytes(32, "big") + output for chain_id, output in sorted(outputs))
    return b"\x01" + timestamp.to_bytes(8, "big") + chains


def super_root(timestamp: int, outputs: Iterable[tuple[int, Hash]]) -> Hash:
    """The root over the outputs of several chains at one time in seconds."""
    return keccak256(super_preimage(timestamp, outputs))
