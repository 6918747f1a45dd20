"""Encoded L1 transactions with valid or invalid signatures."""

from collections.abc import Callable
from typing import Any

import rlp

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.keys import private_key
from rollup_node.stages.protocol.secp256k1 import ORDER
from rollup_node.stages.protocol.types import Address, Hash
from tests.conformance.kit.chain import INBOX, L1_CHAIN_ID
from tests.conformance.kit.notation import item

SECRET, OTHER_SECRET = b"\x11" * 32, b"\x22" * 32
DATA = item("A0!")
LEGACY, ACCESS_LIST, DYNAMIC_FEE, BLOB, SET_CODE = range(5)

Signature = tuple[int, int, int]


def address_of(secret: bytes) -> Address:
    """Return the account of a secret key."""
    return private_key(secret).public_key.to_canonical_address()


SIGNER, OTHER_SIGNER = address_of(SECRET), address_of(OTHER_SECRET)


def high_s(signature: Signature) -> Signature:
    """Return the other signature that the curve allows, with s in the upper half."""
    parity, r, s = signature
    return 1 - parity, r, ORDER - s


def zero_r(signature: Signature) -> Signature:
    parity, _, s = signature
    return parity, 0, s


def signed(
    kind: int,
    *,
    to: Address | None = INBOX,
    data: bytes = DATA,
    chain_id: int = L1_CHAIN_ID,
    secret: bytes = SECRET,
    value: int = 0,
    nonce: int = 0,
    protected: bool = True,
    blob_hashes: tuple[Hash, ...] = (),
    change: Callable[[Signature], Signature] = lambda signature: signature,
) -> bytes:
    """Return a transaction of types 0 to 5; type 5 is as type 2."""
    fees: list[Any] = [10**9] if kind in (LEGACY, ACCESS_LIST) else [1, 10**9]
    fields: list[Any] = [] if kind == LEGACY else [chain_id]
    fields += [nonce, *fees, 100_000, to or b"", value, data]
    if kind != LEGACY:
        fields.append([])
    if kind == BLOB:
        fields += [1, list(blob_hashes)]
    if kind == SET_CODE:
        fields.append([[chain_id, b"\x44" * 20, 0, 0, 1, 1]])
    protection = [chain_id, 0, 0] if kind == LEGACY and protected else []
    prefix = b"" if kind == LEGACY else bytes((kind,))
    parity, r, s = change(_sign(keccak256(prefix + rlp.encode([*fields, *protection])), secret))
    v = parity if kind != LEGACY else parity + (35 + 2 * chain_id if protected else 27)
    return prefix + bytes(rlp.encode([*fields, v, r, s]))


def _sign(digest: Hash, secret: bytes) -> Signature:
    return private_key(secret).sign_msg_hash(digest).vrs
