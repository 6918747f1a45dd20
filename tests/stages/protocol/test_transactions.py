"""Transactions of types 0 to 4 against a signing library [BF3]."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.protocol import rlp, transactions
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.secp256k1 import ORDER
from rollup_node.stages.protocol.transactions import (
    AccessTuple,
    Authorization,
    Transaction,
    TransactionError,
    inbox_transaction,
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
U64, U256 = st.integers(0, 2**64 - 1), st.integers(0, 2**256 - 1)
ADDRESS, WORD = st.binary(min_size=20, max_size=20), st.binary(min_size=32, max_size=32)
ACCESS = st.lists(st.builds(AccessTuple, ADDRESS, st.lists(WORD, max_size=2).map(tuple)), max_size=2).map(tuple)


def signed(name: str) -> bytes:
    return bytes(eth_account().sign_transaction(UNSIGNED[name], KEY).raw_transaction)


@st.composite
def any_transaction(draw: Any) -> Transaction:
    kind = draw(st.integers(0, 4))
    fee = draw(U256)
    return Transaction(
        kind=kind,
        chain_id=draw(st.none() | U64) if kind == 0 else draw(U256),
        nonce=draw(U64),
        max_priority_fee=draw(U256) if kind >= 2 else fee,
        max_fee=fee,
        gas=draw(U64),
        to=draw(ADDRESS if kind >= 3 else st.none() | ADDRESS),
        value=draw(U256),
        data=draw(st.binary(max_size=60)),
        y_parity=draw(st.integers(0, 1)),
        r=draw(U256),
        s=draw(U256),
        access_list=draw(ACCESS) if kind else (),
        max_blob_fee=draw(U256) if kind == 3 else 0,
        blob_hashes=tuple(draw(st.lists(WORD, max_size=3))) if kind == 3 else (),
        authorizations=tuple(
            draw(st.lists(st.builds(Authorization, U256, ADDRESS, U64, st.integers(0, 1), U256, U256), max_size=2))
        )
        if kind == 4
        else (),
    )


@settings(max_examples=50)
@given(any_transaction())
def test_transactions_round_trip(transaction: Transaction) -> None:
    raw = transactions.encode_transaction(transaction)
    assert transactions.decode_transaction(raw) == transaction
    assert transactions.transaction_kind(raw) == transaction.kind


@pytest.mark.parametrize("name", UNSIGNED)
def test_the_sender_of_signed_transactions(name: str) -> None:
    raw = signed(name)
    transaction = transactions.decode_transaction(raw)
    assert transactions.encode_transaction(transaction) == raw
    assert (transaction.nonce, transaction.gas, transaction.value, transaction.data) == (5, 21000, 7, b"hello")
    assert transaction.to == (None if name == "creation" else b"\xab" * 20)
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


@pytest.mark.parametrize(
    "raw", [b"", b"\x05", b"\x7e\xc0", b"\x80", b"\xbf", b"\x00\xc0", b"\xc0", b"\x02\xc0", b"\x03"]
)
def test_malformed_transactions(raw: bytes) -> None:
    with pytest.raises(TransactionError):
        transactions.decode_transaction(raw)


@given(st.integers(0, 4), st.binary(max_size=80))
def test_random_bytes_raise_the_modules_error(kind: int, data: bytes) -> None:
    for raw in (bytes([kind]) + data, data, bytes([kind]) + rlp.encode([data] * 12)):
        with pytest.raises(TransactionError):
            transactions.decode_transaction(raw)


@pytest.mark.parametrize("v", [0, 1, 26, 29, 34])
def test_signature_values_of_legacy_transactions(v: int) -> None:
    items = rlp.decode_list(signed("legacy"))
    with pytest.raises(TransactionError, match=f"v={v}"):
        transactions.decode_transaction(rlp.encode([*items[:6], rlp.decode(rlp.encode_int(v)), *items[7:]]))


def test_a_blob_transaction_needs_a_recipient() -> None:
    items = rlp.decode_list(signed("blob")[1:])
    items[5] = b""
    with pytest.raises(TransactionError, match="no recipient"):
        transactions.decode_transaction(b"\x03" + rlp.encode(items))


def test_recorded_transactions_of_a_beacon_block(shared_data: Path) -> None:
    block = json.loads((shared_data / "l1" / "block_deneb.json").read_bytes())["body"]["execution_payload"]
    raws = [bytes.fromhex(text[2:]) for text in block["transactions"]]
    assert len(raws) == 322
    kinds = set()
    for raw in raws:
        transaction = transactions.decode_transaction(raw)
        kinds.add(transaction.kind)
        assert transactions.encode_transaction(transaction) == raw
    assert kinds == {0, 2, 3} or kinds == {0, 1, 2, 3}
    for raw in raws[:10]:
        expected = bytes.fromhex(eth_account().recover_transaction(raw)[2:])
        assert transactions.recover_sender(transactions.decode_transaction(raw), 1) == expected
    assert ordered_root(raws) == ordered_root(tuple(raws)) != keccak256(b"\x80")


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


@given(st.binary(max_size=60))
def test_random_bytes_are_ignored(data: bytes) -> None:
    for raw in (data, data + INBOX, b"\x03" + data, b"\x7e" + data + INBOX, b"\x03" + rlp.encode([data + INBOX] * 14)):
        assert inbox_transaction(raw, INBOX, INBOX_CHAIN) is None
        assert inbox_transactions([raw], INBOX, INBOX_CHAIN) == ()


def test_blobs_are_counted_over_the_whole_block() -> None:
    foreign = signed_as(3, to=b"\xab" * 20, blobVersionedHashes=[b"\x01" * 32] * 3)
    block = [signed_as(2), foreign, signed_as(3), signed_as(0), signed_as(3)]
    result = inbox_transactions(block, INBOX, INBOX_CHAIN)
    assert [item.kind for item in result] == [2, 3, 0, 3]
    assert [[blob.index for blob in item.blobs] for item in result] == [[], [3, 4], [], [5, 6]]


def test_hashes_only_where_they_are_wanted() -> None:
    raw = signed_as(2)
    assert [inbox_transaction.hash for inbox_transaction in inbox_transactions([raw], INBOX, INBOX_CHAIN)] == [b""]
    assert [
        inbox_transaction.hash for inbox_transaction in inbox_transactions([raw], INBOX, INBOX_CHAIN, with_hashes=True)
    ] == [keccak256(raw)]
