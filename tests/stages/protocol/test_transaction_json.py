"""The encoding of JSON-RPC transactions."""

import json
from typing import Any

import pytest

from rollup_node.stages.protocol import deposits, transactions
from rollup_node.stages.protocol.deposits import DepositTransaction
from rollup_node.stages.protocol.foreign_json import decode_json
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.transaction_json import TransactionJson, transaction_from_json
from rollup_node.stages.protocol.transactions import AccessTuple, Authorization, Transaction
from rollup_node.tools.devnet.chain.blocks import bare_transaction_json
from rollup_node.tools.devnet.evm.transactions import SignedTransaction

ACCESS_LIST = (AccessTuple(b"\x01" * 20, (b"\x02" * 32,)), AccessTuple(b"\x03" * 20, ()))
AUTHORIZATIONS = (Authorization(5, b"\x06" * 20, 7, 1, 8, 9),)
DEPOSIT = {
    "type": "0x7e",
    "sourceHash": "0x" + "01" * 32,
    "from": "0x" + "02" * 20,
    "to": "0x" + "03" * 20,
    "mint": "0x1",
    "value": "0x5",
    "gas": hex(1_000_000),
    "isSystemTx": True,
    "input": "0x" + b"data".hex(),
    "nonce": "0x0",
}


def example(kind: int, to: bytes | None = b"\xab" * 20) -> Transaction:
    return Transaction(
        kind=kind,
        chain_id=10,
        nonce=0,
        max_priority_fee=2 if kind >= 2 else 300,
        max_fee=300,
        gas=21000,
        to=to,
        value=10**18,
        data=b"\x00\x01",
        y_parity=1,
        r=2**255,
        s=1,
        access_list=ACCESS_LIST if kind else (),
        max_blob_fee=4 if kind == 3 else 0,
        blob_hashes=(b"\x01" * 32, b"\x02" * 32) if kind == 3 else (),
        authorizations=AUTHORIZATIONS if kind == 4 else (),
    )


def as_json(transaction: Transaction) -> dict[str, Any]:
    raw = transactions.encode_transaction(transaction)
    return bare_transaction_json(SignedTransaction(raw, keccak256(raw), b"\x0c" * 20, transaction))


def typed(text: Any) -> TransactionJson:
    """As an answer is decoded; Raises MalformedJsonError."""
    result = decode_json(json.dumps(text).encode(), TransactionJson, 1000)
    assert isinstance(result, TransactionJson)
    return result


@pytest.mark.parametrize("kind", range(5))
def test_every_type(kind: int) -> None:
    result = example(kind)
    encoded, whole = transactions.encode_transaction(result), as_json(result) | {"yParity": "0x1"}
    for missing in ("yParity", "v") if kind else ("yParity", ""):
        text = {name: value for name, value in whole.items() if name != missing}
        assert transaction_from_json(text) == encoded
        assert transaction_from_json(typed(text | {"blockHash": {}, "ffff": 1})) == encoded


@pytest.mark.parametrize("to", [None, b"\x03" * 20])
@pytest.mark.parametrize("mint", [0, 10**18])
@pytest.mark.parametrize("is_system", [False, True])
def test_deposits(to: bytes | None, mint: int, is_system: bool) -> None:
    deposit = DepositTransaction(b"\x01" * 32, b"\x02" * 20, to, mint, 5, 1_000_000, is_system, b"data")
    text = DEPOSIT | {"to": None if to is None else "0x" + to.hex(), "mint": hex(mint), "isSystemTx": is_system}
    assert transaction_from_json(text) == deposits.encode_deposit(deposit)
    assert transaction_from_json(typed(text)) == deposits.encode_deposit(deposit)
    # op-reth writes a quantity, and like op-geth leaves it out where it is false.
    quantity = text | {"isSystemTx": hex(is_system)}
    for other in (quantity, typed(quantity), *([] if is_system else [{**text, "isSystemTx": None}])):
        assert transaction_from_json(other) == deposits.encode_deposit(deposit)
    if mint == 0:
        assert transaction_from_json(text | {"mint": None}) == deposits.encode_deposit(deposit)
