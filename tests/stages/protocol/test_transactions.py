"""Transactions of types 0 to 4 against a signing library [BF3]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol import rlp, transactions
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.secp256k1 import ORDER
from rollup_node.stages.protocol.transactions import (
    inbox_transactions,
)
from tests.support.foreign.signing_library import eth_account

KEY = b"\x11" * 32
SENDER = bytes.fromhex("19e7e376e7c213b7e7e7e46cc70a5dd086daff2a")
TO = b"\xab" * 20
CHAIN = 11155111
BASE: dict[str, Any] = {"nonce": 5, "gas": 21000, "to": TO, "value": 7, "data": b"hello", "chainId": CHAIN}
FEES = {"maxFeePerGas": 30, "maxPriorityFeePerGas": 2}
ACCESS_LIST = [{"address": TO, "storageKeys": ["0x" + "01" * 32, "0x" + "02" * 32]}]
UNSIGNED: dict[str, dict[str, Any]] = {
    "legacy": BASE | {"gasPrice": 9},
    "creation": {name: value for name, value in BASE.items() if name != "to"} | {"gasPrice": 9},
    "access list": BASE | {"type": 1, "gasPrice": 9, "accessList": ACCESS_LIST},
    "dynamic fee": BASE | FEES | {"type": 2, "accessList": ACCESS_LIST},
    "blob": BASE | FEES | {"type": 3, "maxFeePerBlobGas": 4, "blobVersionedHashes": [b"\x01" * 32, b"\x01\x02" * 16]},
}


def signed(name: str) -> bytes:
    return bytes(eth_account().sign_transaction(UNSIGNED[name], KEY).raw_transaction)


@pytest.mark.parametrize("name", UNSIGNED)
def test_the_sender_of_signed_transactions(name: str) -> None:
    raw = signed(name)
    transaction = transactions.decode_transaction(raw)
    assert transactions.encode_transaction(transaction) == raw
    assert (transaction.nonce, transaction.gas, transaction.value, transaction.data) == (5, 21000, 7, b"hello")
    assert transaction.to == (None if name == "creation" else b"\xab" * 20)
    assert transaction.max_blob_fee == (4 if name == "blob" else 0)
    assert transactions.recover_sender(transaction, CHAIN) == SENDER
    assert transactions.recover_sender(transaction, 1) is None


def test_set_code_transactions_have_a_sender() -> None:
    authorization = eth_account().sign_authorization({"chainId": CHAIN, "address": TO, "nonce": 1}, KEY)
    unsigned = BASE | FEES | {"type": 4, "authorizationList": [authorization]}
    raw = bytes(eth_account().sign_transaction(unsigned, KEY).raw_transaction)
    transaction = transactions.decode_transaction(raw)
    assert transactions.encode_transaction(transaction) == raw
    assert transaction.authorizations[0][:3] == (CHAIN, b"\xab" * 20, 1)
    assert transactions.recover_sender(transaction, CHAIN) == SENDER


@pytest.mark.parametrize(
    "changes", [{"r": 0}, {"s": 0}, {"r": ORDER}, {"s": ORDER // 2 + 1}, {"s": ORDER}, {"r": 2**256 - 1}, {"r": 5}]
)
def test_signatures_out_of_range_have_no_sender(changes: dict[str, int]) -> None:
    transaction = transactions.decode_transaction(signed("dynamic fee"))
    assert transactions.recover_sender(msgspec.structs.replace(transaction, **changes), CHAIN) is None


INBOX = b"\xff" + bytes(17) + b"\x01\x02"
INBOX_CHAIN = 900
TO_INBOX: dict[str, Any] = {"nonce": 0, "gas": 21000, "to": INBOX, "value": 1, "data": b"\x00frame"}
INBOX_FEES = {"maxFeePerGas": 30, "maxPriorityFeePerGas": 2, "chainId": INBOX_CHAIN}
KINDS: dict[int, dict[str, Any]] = {
    0: {"gasPrice": 9, "chainId": INBOX_CHAIN},
    2: INBOX_FEES | {"type": 2},
    3: INBOX_FEES | {"type": 3, "maxFeePerBlobGas": 4, "blobVersionedHashes": [b"\x01" * 32, b"\x01\x02" * 16]},
}


def signed_as(kind: int, **changes: Any) -> bytes:
    return bytes(eth_account().sign_transaction(TO_INBOX | KINDS[kind] | changes, KEY).raw_transaction)


def test_blobs_are_counted_over_the_whole_block() -> None:
    foreign = signed_as(3, to=b"\xab" * 20, blobVersionedHashes=[b"\x01" * 32] * 3)
    strange = b"\x03" + rlp.encode([INBOX] * 14)
    block = [signed_as(2), foreign, b"\x03", strange, signed_as(3), signed_as(0), signed_as(3)]
    result = inbox_transactions(block, INBOX, INBOX_CHAIN)
    assert [item.kind for item in result] == [2, 3, 0, 3]
    assert [[blob.index for blob in item.blobs] for item in result] == [[], [3, 4], [], [5, 6]]


def test_hashes_only_where_they_are_wanted() -> None:
    raw = signed_as(2)
    assert [item.hash for item in inbox_transactions([raw], INBOX, INBOX_CHAIN)] == [b""]
    assert [item.hash for item in inbox_transactions([raw], INBOX, INBOX_CHAIN, with_hashes=True)] == [keccak256(raw)]
