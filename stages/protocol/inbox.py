"""The transactions of an L1 block to the batch inbox, and their senders [BF1, BF2, BF3]."""

from collections.abc import Sequence

from msgspec.structs import replace

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.deposits import DEPOSIT_TYPE, DepositError, decode_deposit
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.rlp import RlpError
from rollup_node.stages.protocol.transactions import BLOB, TransactionError, decode_transaction, recover_sender
from rollup_node.stages.protocol.types import Address, BlobRef, InboxTransaction

_BLOB_HASHES_FIELD = 10
_ENCODED_HASH = 33


def inbox_transactions(
    transactions: Sequence[bytes], batch_inbox: Address, l1_chain_id: int, with_hashes: bool = False
) -> tuple[InboxTransaction, ...]:
    """Return the inbox transactions among a block's encoded ones, in order; blobs are numbered over the whole block."""
    result: list[InboxTransaction] = []
    first_blob = 0
    for raw in transactions:
        blobs = _blob_count(raw)
        if batch_inbox in raw:  # a cheap test before decoding: few transactions contain the address
            transaction = inbox_transaction(raw, batch_inbox, l1_chain_id, first_blob)
            if transaction is not None:
                if with_hashes:
                    transaction = replace(transaction, hash=keccak256(raw))
                result.append(transaction)
        first_blob += blobs
    return tuple(result)


def inbox_transaction(
    raw: bytes, batch_inbox: Address, l1_chain_id: int, first_blob: int = 0
) -> InboxTransaction | None:
    """Return the transaction if it passes [BF1, BF2, BF3], else None; `first_blob` is the index of its first blob."""
    if raw[:1] == bytes((DEPOSIT_TYPE,)):
        return _inbox_deposit(raw, batch_inbox)
    # Set-code and unknown types do not count, whatever they hold [BF1].
    if not raw or BLOB < raw[0] < 0xC0:
        return None
    try:
        transaction = decode_transaction(raw)
    except TransactionError:
        return None
    if transaction.to != batch_inbox:
        return None
    sender = recover_sender(transaction, l1_chain_id)
    if sender is None:
        return None
    blobs = tuple(BlobRef(first_blob + index, item) for index, item in enumerate(transaction.blob_hashes))
    return InboxTransaction(transaction.kind, sender, transaction.data, blobs)


def calldata(raw: bytes) -> bytes:
    """Return the calldata of an encoded transaction. Raises TransactionError or DepositError."""
    return decode_deposit(raw).data if raw[:1] == bytes((DEPOSIT_TYPE,)) else decode_transaction(raw).data


def _inbox_deposit(raw: bytes, batch_inbox: Address) -> InboxTransaction | None:
    try:
        deposit = decode_deposit(raw)
    except DepositError:
        return None
    return InboxTransaction(DEPOSIT_TYPE, deposit.sender, deposit.data, ()) if deposit.to == batch_inbox else None


def _blob_count(raw: bytes) -> int:
    if raw[:1] != b"\x03":
        return 0
    try:
        hashes = rlp.split(raw, 1)[_BLOB_HASHES_FIELD]
        _, start, end = rlp.header(hashes, 0, len(hashes))
    except (RlpError, IndexError):
        return 0
    return (end - start) // _ENCODED_HASH
