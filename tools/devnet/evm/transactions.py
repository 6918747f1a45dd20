"""Decoded transactions of all types with their encoding, hash and sender."""

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
    """The transaction cannot be included in the block; the text is the reason."""


class UnusableTransaction(InvalidTransaction):
    """Nobody can try to execute it: its signature, its type, or the gas that it wants."""


class MalformedTransaction(UnusableTransaction):
    """The bytes are no transaction."""


class SignedTransaction(NamedTuple):
    """A transaction of type 0 to 4."""

    raw: bytes
    hash: Hash
    sender: Address
    body: Transaction

    @property
    def kind(self) -> int:
        """The transaction type."""
        return self.body.kind


class Deposit(NamedTuple):
    """A deposit transaction, type 0x7E."""

    raw: bytes
    hash: Hash
    sender: Address
    body: DepositTransaction

    @property
    def kind(self) -> int:
        """The transaction type."""
        return DEPOSIT_TYPE


AnyTransaction = SignedTransaction | Deposit


@lru_cache(2048)
def read_transaction(raw: bytes, chain_id: int) -> AnyTransaction:
    """Decode a transaction and recover its sender. Raises InvalidTransaction."""
    if is_deposit(raw):
        try:
            deposit = decode_deposit(raw)
        except DepositError as error:
            raise MalformedTransaction(str(error)) from None
        return Deposit(raw, keccak256(raw), deposit.sender, deposit)
    return read_signed(raw, chain_id)


def read_signed(raw: bytes, chain_id: int) -> SignedTransaction:
    """As `read_transaction`, for types 0 to 4. Raises InvalidTransaction."""
    try:
        body = decode_transaction(raw)
    except TransactionError as error:
        raise MalformedTransaction(str(error)) from None
    if body.chain_id is not None and body.chain_id != chain_id:
        raise InvalidTransaction(f"invalid chain id for signer: have {body.chain_id} want {chain_id}")
    sender = recover_sender(body, chain_id)
    if sender is None:
        raise UnusableTransaction("invalid transaction signature")
    return SignedTransaction(raw, keccak256(raw), sender, body)
