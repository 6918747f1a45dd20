"""JSON-RPC, the pool, and transactions as JSON."""

import asyncio
from typing import Any

import msgspec
import orjson
import pytest

from rollup_node.stages.protocol.deposits import decode_deposit, encode_deposit
from rollup_node.stages.protocol.hex_encoding import from_quantity, to_hex
from rollup_node.stages.protocol.transaction_json import transaction_from_json
from rollup_node.stages.protocol.transactions import encode_transaction, signing_hash
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.batcher.driver import Fees, Key, dynamic_fee_transaction
from rollup_node.tools.devnet.chain import transaction_pool as pools
from rollup_node.tools.devnet.chain.blocks import bare_transaction_json
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc
from rollup_node.tools.devnet.chain.transaction_pool import TransactionPool
from rollup_node.tools.devnet.evm.transactions import (
    InvalidTransaction,
    SignedTransaction,
    read_signed,
    read_transaction,
)
from tests.support.chains.l2_test_chain import CHAIN_ID, L2TestChain
from tests.support.chains.signed_transactions import unsigned_transaction

KEY = Key(b"\x31" * 32)


@pytest.mark.parametrize("kind", range(5))
def test_signed_transactions_of_all_types_parse_back(kind: int) -> None:
    unsigned = unsigned_transaction(kind, CHAIN_ID)
    parity, r, s = KEY.sign(signing_hash(unsigned))
    raw = encode_transaction(msgspec.structs.replace(unsigned, y_parity=parity, r=r, s=s))
    result = bare_transaction_json(read_signed(raw, CHAIN_ID))
    assert transaction_from_json(result) == raw
    assert (result["from"], result["type"], result["blockHash"]) == (to_hex(KEY.address), hex(kind), None)


def test_a_deposit() -> None:
    raw = L2TestChain().deposit(b"\xee" * 20, None, mint=7, data=b"\x60")
    result = bare_transaction_json(read_transaction(raw, CHAIN_ID))
    assert transaction_from_json(result) == raw
    assert (result["mint"], result["to"], result["gasPrice"]) == ("0x7", None, "0x0")
    assert "isSystemTx" not in result, "op-alloy's clients read a quantity and end at false"

    raw = encode_deposit(msgspec.structs.replace(decode_deposit(raw), is_system=True))
    result = bare_transaction_json(read_transaction(raw, CHAIN_ID))
    assert result["isSystemTx"] is True and transaction_from_json(result) == raw, "before Regolith"


def refuse() -> None:
    raise JsonRpcError(-38001, "unknown payload", {"err": "gone"})


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value


RPC = JsonRpc(
    {"add": lambda a, b=1: a + b, "later": later, "refuse": refuse, "parse": from_quantity, "nothing": lambda: None}
)


async def ask(body: object) -> Any:
    answer = await RPC.respond(body if isinstance(body, bytes) else orjson.dumps(body))
    return orjson.loads(answer) if answer else None


def call(method: object, *parameters: object, identity: object = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": list(parameters)}


async def test_results_and_batches() -> None:
    assert await ask(call("add", 2, 3)) == {"jsonrpc": "2.0", "id": 1, "result": 5}
    assert await ask([call("later", 7), call("add", 1, identity="x")]) == [
        {"jsonrpc": "2.0", "id": 1, "result": 7},
        {"jsonrpc": "2.0", "id": "x", "result": 2},
    ]
    assert await ask({"jsonrpc": "2.0", "method": "add", "params": [1]}) is None
    assert await ask(call("nothing")) == {"jsonrpc": "2.0", "id": 1, "result": None}, "no member error [RPC97]"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        ([], -32600),
        (3, -32600),
        (call(5), -32600),
        (call("absent"), -32601),
        (call("add"), -32602),
        (call("add", 1, 2, 3), -32602),
        (call("parse", "zz"), -32602),
        (call("refuse"), -38001),
        (call("add", 1, "x"), -32603),
    ],
)
async def test_errors(body: object, code: int) -> None:
    assert (await ask(body))["error"]["code"] == code


async def test_a_batch_that_is_too_large_is_one_error() -> None:
    """[RPC7]"""
    (response,) = await ask([[]] * 1001)
    assert response["error"]["code"] == -32600


KEYS = [Key(bytes([number]) * 32) for number in range(1, 4)]


def signed(key: int, nonce: int, tip: int = 1, cap: int = 1000, data: bytes = b"") -> SignedTransaction:
    fees = Fees(tip=tip, cap=cap)
    return read_signed(dynamic_fee_transaction(KEYS[key], 1, nonce, b"\x01" * 20, 0, data, 21_000, fees), 1)


def ready(pool: TransactionPool, nonces: dict[bytes, int] | None = None) -> list[SignedTransaction]:
    return list(pool.ready(10, lambda sender: (nonces or {}).get(sender, 0)))


def test_senders_by_tip_and_transactions_by_nonce() -> None:
    pool = TransactionPool()
    cheap, dear, next_dear, gap = signed(0, 0, 1), signed(1, 0, 9), signed(1, 1, 2), signed(2, 1, 50)
    for transaction in (cheap, next_dear, dear, gap):
        pool.add(transaction, 0)
    assert ready(pool) == [dear, next_dear, cheap]
    assert pool.next_nonce(dear.sender, 0) == 2 and pool.next_nonce(gap.sender, 0) == 0
    assert ready(pool, {dear.sender: 1}) == [next_dear, cheap] and pool.get(dear.hash) is None


def test_a_replacement_pays_ten_percent_more() -> None:
    pool = TransactionPool()
    old = signed(0, 0, cap=1000)
    pool.add(old, 0)
    with pytest.raises(InvalidTransaction, match="underpriced"):
        pool.add(signed(0, 0, cap=1099), 0)
    new = signed(0, 0, cap=1100)
    pool.add(new, 0)
    assert pool.get(old.hash) is None and pool.get(new.hash) == new and len(pool) == 1


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = TransactionPool()
    monkeypatch.setattr(pools, "MAX_TRANSACTIONS", 2)
    with pytest.raises(InvalidTransaction, match="bytes"):
        pool.add(signed(0, 0, data=bytes(pools.MAX_SIZE)), 0)
    pool.add(signed(0, 0), 0)
    pool.add(signed(0, 1), 0)
    with pytest.raises(InvalidTransaction, match="full"):
        pool.add(signed(1, 0), 0)
    pool.add(signed(0, 1, cap=5000), 0)
    pool.reinject([signed(1, 0)])
    assert len(pool) == 2
