"""Encoded transactions of all types with their hash and sender, as blocks and pools hold them."""

from functools import lru_cache
from typing import NamedTuple

from rollup_node.stages.protocol.deposits import (
    DEPOSIT_TYPE,
    DepositError,
    DepositTransaction,
    decode_deposit,
    is_deposit,
)
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.transactions import (
    Transaction,
    TransactionError,
    decode_transaction,
    recover_sender,
)
from rollup_node.stages.protocol.types import Address, Hash


class InvalidTransaction(Exception):
    """No block may hold the transaction, at least not now and here; the text says why."""


class SignedTransaction(NamedTuple):
    """A transaction of types 0 to 4."""

    raw: bytes
    hash: Hash
    sender: Address
    body: Transaction

    @property
    def kind(self) -> int:
        return self.body.kind


class Deposit(NamedTuple):
    """A transaction that L1 imposes."""

    raw: bytes
    hash: Hash
    sender: Address
    body: DepositTransaction

    @property
    def kind(self) -> int:
        return DEPOSIT_TYPE


AnyTransaction = SignedTransaction | Deposit


@lru_cache(2048)
def read_transaction(raw: bytes, chain_id: int) -> AnyTransaction:
    """Decodes a transaction and recovers its sender; InvalidTransaction where that cannot be done."""
    if is_deposit(raw):
        try:
            deposit = decode_deposit(raw)
        except DepositError as error:
            raise InvalidTransaction(str(error)) from None
        return Deposit(raw, keccak256(raw), deposit.sender, deposit)
    return read_signed(raw, chain_id)


def read_signed(raw: bytes, chain_id: int) -> SignedTransaction:
    """As `read_transaction`, of types 0 to 4 only."""
    try:
        body = decode_transaction(raw)
    except TransactionError as error:
        raise InvalidTransaction(str(error)) from None
    sender = recover_sender(body, chain_id)
    if sender is None:
        raise InvalidTransaction(f"invalid signature, or not for chain {chain_id} (its chain id is {body.chain_id})")
    return SignedTransaction(raw, keccak256(raw), sender, body)
