"""JSON-RPC, the pool and the block chain in memory."""

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
from rollup_node.tools.devnet.chain import blocks as chain_blocks
from rollup_node.tools.devnet.chain import transaction_pool as pools
from rollup_node.tools.devnet.chain.blocks import (
    Block,
    bare_transaction_json,
)
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc
from rollup_node.tools.devnet.chain.transaction_pool import TransactionPool
from rollup_node.tools.devnet.engine.backend import L2Backend
from rollup_node.tools.devnet.evm.transactions import (
    InvalidTransaction,
    SignedTransaction,
    read_signed,
    read_transaction,
)
from rollup_node.tools.devnet.predeploys.alloc import TOKEN
from tests.support.chains.l2_test_chain import CHAIN_ID, L2TestChain, call_data
from tests.support.chains.signed_transactions import unsigned_transaction
from tests.support.servers.http_listener import json_rpc_app, listening

KEY = Key(b"\x31" * 32)
MINT = call_data("mint(uint256)", 100)


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


class FilterHarness:
    """A chain at its genesis, and its methods."""

    def __init__(self) -> None:
        self.l2 = L2TestChain()
        self.backend: L2Backend = self.l2.backend()
        self.methods = EthApi(self.backend, "test").methods()

    def __call__(self, method: str, *parameters: Any) -> Any:
        return self.methods[method](*parameters)

    def mint(self, nonce: int) -> Block:
        return self.l2.extend(self.backend, self.l2.transfer(0, nonce, TOKEN, 0, MINT))


@pytest.fixture
def api() -> FilterHarness:
    return FilterHarness()


def test_new_blocks_and_logs_are_reported_once(api: FilterHarness) -> None:
    blocks, logs = api("eth_newBlockFilter"), api("eth_newFilter", {"address": to_hex(TOKEN), "fromBlock": "latest"})
    others = api("eth_newFilter", {"address": "0x" + "11" * 20})
    assert api("eth_getFilterChanges", blocks) == [] and api("eth_getFilterChanges", logs) == []
    first, second = api.mint(0), api.l2.extend(api.backend)
    assert api("eth_getFilterChanges", blocks) == [to_hex(first.hash), to_hex(second.hash)]
    (log,) = api("eth_getFilterChanges", logs)
    assert (log["blockHash"], log["removed"]) == (to_hex(first.hash), False)
    assert api("eth_getFilterChanges", others) == []
    assert api("eth_getFilterChanges", blocks) == [] and api("eth_getFilterChanges", logs) == []
    api("eth_uninstallFilter", logs)
    for name in (logs, "0x1"):
        with pytest.raises(JsonRpcError, match="filter not found"):
            api("eth_getFilterChanges", name)
    assert api("eth_uninstallFilter", logs) is False and api("eth_uninstallFilter", blocks) is True


def test_the_logs_of_replaced_blocks_are_reported_as_removed(api: FilterHarness) -> None:
    genesis = api.backend.chain.head
    blocks, logs = api("eth_newBlockFilter"), api("eth_newFilter", {"address": to_hex(TOKEN)})
    old = api.mint(0)
    api("eth_getFilterChanges", blocks), api("eth_getFilterChanges", logs)
    api.backend.set_head(genesis)
    new = api.l2.extend(api.backend, api.l2.transfer(1, 0), api.l2.transfer(0, 0, TOKEN, 0, MINT))
    assert api("eth_getFilterChanges", blocks) == [to_hex(new.hash)]
    result = [(log["blockHash"], log["removed"]) for log in api("eth_getFilterChanges", logs)]
    assert result == [(to_hex(old.hash), True), (to_hex(new.hash), False)]


def test_filters_are_bounded(api: FilterHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_blocks, "MAX_FILTERS", 2)
    first, second = api("eth_newBlockFilter"), api("eth_newBlockFilter")
    api("eth_getFilterChanges", first)
    api("eth_newBlockFilter")
    assert api("eth_getFilterChanges", first) == [], "it was read later than the second"
    with pytest.raises(JsonRpcError, match="filter not found"):
        api("eth_getFilterChanges", second)
    monkeypatch.setattr(chain_blocks, "MAX_CHANGES", 1)
    api.l2.extend(api.backend)
    api.l2.extend(api.backend)
    with pytest.raises(JsonRpcError, match="more than 1 blocks since"):
        api("eth_getFilterChanges", first)


async def test_web3_reads_the_chain_as_a_batcher_does(api: FilterHarness) -> None:
    from eth_utils.address import to_checksum_address
    from web3 import AsyncHTTPProvider, AsyncWeb3

    account = to_checksum_address("0x" + "ee" * 20)
    async with listening(json_rpc_app(api.methods)) as (url,):
        provider = AsyncHTTPProvider(url)
        eth: Any = AsyncWeb3(provider).eth
        new_blocks, minted = await eth.filter("latest"), await eth.filter({"address": TOKEN})
        block = api.mint(0)
        assert [bytes(get_new_entry) for get_new_entry in await new_blocks.get_new_entries()] == [block.hash]
        (entry,) = await minted.get_new_entries()
        assert bytes(entry["blockHash"]) == block.hash
        assert await eth.block_number == 1 and await eth.chain_id == 901 and await eth.syncing is False
        assert bytes((await eth.get_block("latest", True))["hash"]) == block.hash
        receipt = await eth.get_transaction_receipt(block.transactions[0].hash)
        assert receipt["status"] == 1 and (await eth.get_block_receipts(1))[0]["blockNumber"] == 1
        fees = await eth.fee_history(1, "latest", [10.0])
        assert len(fees["baseFeePerGas"]) == 2
        for value in (await eth.gas_price, await eth.max_priority_fee, await eth.blob_base_fee):
            assert value > 0
        assert await eth.get_balance(account) == 0 and await eth.get_transaction_count(account, "pending") == 0
        assert await eth.estimate_gas({"from": account, "to": account, "value": 0}) >= 21_000
        assert bytes(await eth.call({"to": account})) == b"" and bytes(await eth.get_code(account)) == b""
        assert len(await eth.get_logs({"fromBlock": 0})) == 1
        await provider.disconnect()


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
