"""The header and the block hash that follow from an execution payload [HSH10 to HSH16]."""

from rollup_node.stages.protocol.headers import (
    EMPTY_REQUESTS_HASH,
    EMPTY_UNCLES_HASH,
    ZERO_NONCE,
    Header,
    header_hash,
)
from rollup_node.stages.protocol.mpt import EMPTY_ROOT, ordered_root
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash


def payload_header(payload: ExecutionPayload) -> Header:
    """The header of a payload's block. Its roots go by the fields that are present, not by fork times [HSH14]."""
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
    """The hash computed from the payload's other fields; `payload.block_hash` is only what its sender claims."""
    return header_hash(payload_header(payload))
