"""The block that replaces one that is invalid across chains [IOP18, IOP24].

It says which one it replaced."""

from rollup_node.stages.protocol.deposits import DepositError, decode_deposit, invalidated_block_deposit, is_deposit
from rollup_node.stages.protocol.output_root import output_preimage
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import OPTIMISTIC_BLOCK_DEPOSITOR, ZERO_HASH, Hash

PREIMAGE_BYTES = 128
_WITH_MIN_BASE_FEE = 17


class ReplacementError(Exception):
    """The block cannot be replaced, or is no valid replacement."""


def replacement_attributes(payload: ExecutionPayload) -> PayloadAttributes:
    """Return the attributes of the replacement: the block's deposits and one more.

    Raises ReplacementError for a block of before Isthmus, whose header has no withdrawals root."""
    if payload.withdrawals_root is None:
        raise ReplacementError("withdrawals-root is nil")
    preimage = output_preimage(payload.state_root, payload.withdrawals_root, payload.block_hash)
    deposits = tuple(raw for raw in payload.transactions if is_deposit(raw))
    extra = payload.extra_data
    return PayloadAttributes(
        timestamp=payload.timestamp,
        prev_randao=payload.prev_randao,
        fee_recipient=payload.fee_recipient,
        withdrawals=payload.withdrawals,
        parent_beacon_root=payload.parent_beacon_root,
        transactions=(*deposits, invalidated_block_deposit(preimage)),
        no_tx_pool=True,
        gas_limit=payload.gas_limit,
        eip1559_params=extra[1:9],
        min_base_fee=int.from_bytes(extra[9:], "big") if len(extra) == _WITH_MIN_BASE_FEE else None,
    )


def replaced_output(payload: ExecutionPayload) -> tuple[Hash, Hash, Hash] | None:
    """State root, message passer storage root and hash of the block that this one replaced; None if it replaced none.

    Raises ReplacementError for a replacement that is malformed."""
    if not payload.transactions:
        raise ReplacementError("expected block-replacement tx and more")
    last = payload.transactions[-1]
    if not is_deposit(last):
        return None
    try:
        deposit = decode_deposit(last)
    except DepositError as error:
        raise ReplacementError(f"failed to unmarshal invalidated-block system tx: {error}") from None
    if deposit.sender != OPTIMISTIC_BLOCK_DEPOSITOR:
        return None
    data = deposit.data
    if len(data) != PREIMAGE_BYTES or data[:32] != ZERO_HASH:
        raise ReplacementError("failed to unmarshal output-root preimage: it is not of version 0")
    return data[32:64], data[64:96], data[96:]
