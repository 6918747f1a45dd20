"""Transactions of types 0 to 4: encoding, decoding, signing hash, sender [BF1, BF3]."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from rollup_node.stages.protocol import rlp, secp256k1
from rollup_node.stages.protocol.deposits import DEPOSIT_TYPE, DepositError, decode_deposit
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.rlp import RlpError, encode_bytes, encode_int, wrap_list
from rollup_node.stages.protocol.secp256k1 import recover_address
from rollup_node.stages.protocol.types import Address, BlobRef, Hash, InboxTransaction

LEGACY, ACCESS_LIST, DYNAMIC_FEE, BLOB, SET_CODE = range(5)
POST_EXEC = 0x7D

_FIELDS = {ACCESS_LIST: 11, DYNAMIC_FEE: 12, BLOB: 14, SET_CODE: 13}
_BLOB_HASHES_FIELD = 10
_ENCODED_HASH = 33


class TransactionError(ValueError):
    """The bytes or the JSON object are not a transaction of a known type."""


class AccessTuple(NamedTuple):
    """An entry of an access list (EIP-2930)."""

    address: Address
    slots: tuple[Hash, ...]


class Authorization(NamedTuple):
    """A signed delegation of an account's code (EIP-7702)."""

    chain_id: int
    address: Address
    nonce: int
    y_parity: int
    r: int
    s: int


class Transaction(msgspec.Struct, frozen=True):
    """A signed transaction; `kind` is its type, amounts are in wei.

    `chain_id` is None for a legacy transaction without replay protection (EIP-155), `to` for a contract creation; types
    0 and 1 have their gas price in both fee fields."""

    kind: int
    chain_id: int | None
    nonce: int
    max_priority_fee: int
    max_fee: int
    gas: int
    to: Address | None
    value: int
    data: bytes
    y_parity: int
    r: int
    s: int
    access_list: tuple[AccessTuple, ...] = ()
    max_blob_fee: int = 0
    blob_hashes: tuple[Hash, ...] = ()
    authorizations: tuple[Authorization, ...] = ()


def encode_transaction(transaction: Transaction) -> bytes:
    """Return the transaction's bytes; their keccak is its hash."""
    body = _unsigned_body(transaction)
    if transaction.kind == LEGACY:
        chain_id = transaction.chain_id
        v = transaction.y_parity + (27 if chain_id is None else 35 + 2 * chain_id)
    else:
        v = transaction.y_parity
    body += encode_int(v) + encode_int(transaction.r) + encode_int(transaction.s)
    return _typed(transaction.kind, wrap_list(body))


def signing_hash(transaction: Transaction) -> Hash:
    """Return the hash that the sender signs."""
    body = _unsigned_body(transaction)
    if transaction.kind == LEGACY and transaction.chain_id is not None:
        body += encode_int(transaction.chain_id) + b"\x80\x80"
    return keccak256(_typed(transaction.kind, wrap_list(body)))


def _typed(kind: int, body: bytes) -> bytes:
    return body if kind == LEGACY else kind.to_bytes(1, "big") + body


def _unsigned_body(transaction: Transaction) -> bytes:
    """Return the encoded fields before the signature, joined."""
    kind = transaction.kind
    parts = [] if kind == LEGACY else [encode_int(transaction.chain_id or 0)]
    parts.append(encode_int(transaction.nonce))
    if kind >= DYNAMIC_FEE:
        parts.append(encode_int(transaction.max_priority_fee))
    parts += (
        encode_int(transaction.max_fee),
        encode_int(transaction.gas),
        encode_bytes(transaction.to or b""),
        encode_int(transaction.value),
        encode_bytes(transaction.data),
    )
    if kind >= ACCESS_LIST:
        parts.append(rlp.encode([[address, slots] for address, slots in transaction.access_list]))
    if kind == BLOB:
        parts += (encode_int(transaction.max_blob_fee), rlp.encode(transaction.blob_hashes))
    if kind == SET_CODE:
        parts.append(rlp.encode_list(map(_encoded_authorization, transaction.authorizations)))
    return b"".join(parts)


def _encoded_authorization(authorization: Authorization) -> bytes:
    numbers = (authorization.nonce, authorization.y_parity, authorization.r, authorization.s)
    return rlp.encode_list(
        (encode_int(authorization.chain_id), encode_bytes(authorization.address), *map(encode_int, numbers))
    )


def transaction_kind(raw: bytes) -> int:
    """Return the type of an encoded transaction, 0 for a legacy list. Raises TransactionError if it is empty."""
    if not raw:
        raise TransactionError("empty transaction")
    return LEGACY if raw[0] >= 0xC0 else raw[0]


def decode_transaction(raw: bytes) -> Transaction:
    """Return a transaction of types 0 to 4, if its encoding is canonical. Raises TransactionError."""
    kind = transaction_kind(raw)
    try:
        if kind == LEGACY and raw[0] >= 0xC0:
            return _decode_legacy(rlp.decode_list(raw, 9))
        if kind in _FIELDS:
            return _decode_typed(kind, rlp.decode_list(raw[1:], _FIELDS[kind]))
    except RlpError as error:
        raise TransactionError(f"malformed transaction of type {kind}: {error}") from None
    raise TransactionError(f"unknown transaction type 0x{kind:02x}")


def _decode_legacy(items: list[Any]) -> Transaction:
    nonce, price, gas, to, value, data, v_item, r, s = items
    v, fee = rlp.decode_int(v_item), rlp.decode_int(price)
    if v in (27, 28):
        chain_id, y_parity = None, v - 27
    elif v >= 35:
        chain_id, y_parity = (v - 35) >> 1, (v - 35) & 1
    else:
        raise RlpError(f"invalid signature value v={v}")
    return Transaction(
        kind=LEGACY,
        chain_id=chain_id,
        nonce=rlp.decode_int(nonce, 64),
        max_priority_fee=fee,
        max_fee=fee,
        gas=rlp.decode_int(gas, 64),
        to=_recipient(to),
        value=rlp.decode_int(value),
        data=_bytes(data),
        y_parity=y_parity,
        r=rlp.decode_int(r),
        s=rlp.decode_int(s),
    )


def _decode_typed(kind: int, items: list[Any]) -> Transaction:
    fees_at = 2
    fees = [rlp.decode_int(item) for item in items[fees_at : fees_at + (2 if kind >= DYNAMIC_FEE else 1)]]
    gas, to, value, data, access = items[fees_at + len(fees) : fees_at + len(fees) + 5]
    if kind in (BLOB, SET_CODE) and to == b"":
        raise RlpError("no recipient")
    y_parity = rlp.decode_int(items[-3])
    if y_parity > 1:
        raise RlpError(f"invalid signature parity {y_parity}")
    return Transaction(
        kind=kind,
        chain_id=rlp.decode_int(items[0]),
        nonce=rlp.decode_int(items[1], 64),
        max_priority_fee=fees[0],
        max_fee=fees[-1],
        gas=rlp.decode_int(gas, 64),
        to=_recipient(to),
        value=rlp.decode_int(value),
        data=_bytes(data),
        y_parity=y_parity,
        r=rlp.decode_int(items[-2]),
        s=rlp.decode_int(items[-1]),
        access_list=tuple(map(_access, _list(access))),
        max_blob_fee=rlp.decode_int(items[9]) if kind == BLOB else 0,
        blob_hashes=tuple(rlp.decode_sized(item, 32) for item in _list(items[10])) if kind == BLOB else (),
        authorizations=tuple(map(_authorization, _list(items[9]))) if kind == SET_CODE else (),
    )


def _recipient(item: Any) -> Address | None:
    return None if item == b"" else rlp.decode_sized(item, 20)


def _bytes(item: Any) -> bytes:
    if type(item) is not bytes:
        raise RlpError("expected bytes, got a list")
    return item


def _list(item: Any, count: int | None = None) -> list[Any]:
    if not isinstance(item, list) or (count is not None and len(item) != count):
        raise RlpError("expected a list" if count is None else f"expected a list of {count} items")
    return item


def _access(item: Any) -> AccessTuple:
    address, slots = _list(item, 2)
    return AccessTuple(rlp.decode_sized(address, 20), tuple(rlp.decode_sized(slot, 32) for slot in _list(slots)))


def _authorization(item: Any) -> Authorization:
    chain_id, address, nonce, y_parity, r, s = _list(item, 6)
    return Authorization(
        rlp.decode_int(chain_id),
        rlp.decode_sized(address, 20),
        rlp.decode_int(nonce, 64),
        rlp.decode_int(y_parity, 8),
        rlp.decode_int(r),
        rlp.decode_int(s),
    )


def has_valid_range(transaction: Transaction) -> bool:
    """Whether r and s can be those of a key: of (r, s) and (r, n - s) only that with the low s is valid (EIP-2)."""
    return 0 < transaction.r < secp256k1.ORDER and 0 < transaction.s <= secp256k1.ORDER // 2


def recover_sender(transaction: Transaction, chain_id: int) -> Address | None:
    """Return the sender, or None if signature or chain id are not valid on this chain [BF3]."""
    # A legacy transaction without chain id is valid on every chain.
    if transaction.chain_id != chain_id and (transaction.kind != LEGACY or transaction.chain_id is not None):
        return None
    if not has_valid_range(transaction):
        return None
    r, s = transaction.r.to_bytes(32, "big"), transaction.s.to_bytes(32, "big")
    signature = r + s + transaction.y_parity.to_bytes(1, "big")
    return recover_address(signing_hash(transaction), signature)


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
