"""Decoding of transactions with their sender."""

import msgspec
import pytest

from rollup_node.stages.protocol.transactions import decode_transaction, encode_transaction, signing_hash
from rollup_node.tools.batcher.driver import Key
from rollup_node.tools.devnet.evm.transactions import (
    Deposit,
    InvalidTransaction,
    MalformedTransaction,
    UnusableTransaction,
    read_signed,
    read_transaction,
)
from tests.support.chains.l2_test_chain import L2TestChain
from tests.support.chains.signed_transactions import unsigned_transaction

KEY = Key(b"\x21" * 32)
CHAIN_ID = 901


def encoded(kind: int, chain_id: int | None = CHAIN_ID) -> bytes:
    unsigned = unsigned_transaction(kind, chain_id)
    parity, r, s = KEY.sign(signing_hash(unsigned))
    return encode_transaction(msgspec.structs.replace(unsigned, y_parity=parity, r=r, s=s))


def test_legacy_transactions_without_chain_id_fit_every_chain() -> None:
    assert read_signed(encoded(0, None), 5).sender == KEY.address


def test_deposits() -> None:
    raw = L2TestChain().deposit(b"\xee" * 20, b"\xdd" * 20, mint=3)
    deposit = read_transaction(raw, CHAIN_ID)
    assert isinstance(deposit, Deposit)
    assert (deposit.kind, deposit.sender, deposit.body.mint) == (0x7E, b"\xee" * 20, 3)
    with pytest.raises(InvalidTransaction, match="type"):
        read_signed(raw, CHAIN_ID)


def test_invalid_transactions() -> None:
    with pytest.raises(InvalidTransaction, match="invalid chain id for signer: have 901 want 5"):
        read_transaction(encoded(2), 5)
    for raw in (b"", b"\x02\xc0", b"\x05\xc0", b"\x7e\xc0"):
        with pytest.raises(MalformedTransaction):
            read_transaction(raw, CHAIN_ID)
    unsigned = msgspec.structs.replace(decode_transaction(encoded(2)), r=5)
    with pytest.raises(UnusableTransaction, match="invalid transaction signature"):
        read_transaction(encode_transaction(unsigned), CHAIN_ID)
