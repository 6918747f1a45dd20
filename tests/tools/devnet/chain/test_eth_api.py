"""The eth_* methods and filters; the objects of blocks rebuild to the blocks' own hashes and roots."""

from typing import Any

import pytest

from rollup_node.stages.protocol.headers import header_from_json, header_hash
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.receipts import receipt_from_json
from rollup_node.stages.protocol.transaction_json import transaction_from_json
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain import blocks as chain_blocks
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.predeploys.alloc import TOKEN
from tests.support.chains.l2_test_chain import L2TestChain, call_data
from tests.support.servers.http_listener import json_rpc_app, listening

MINT = call_data("mint(uint256)", 100)
TRANSFER = keccak256(b"Transfer(address,address,uint256)")
UNKNOWN = "0x" + "ab" * 32


class EthApiHarness:
    """A chain of three blocks with a few transactions, and its methods."""

    def __init__(self, l2: L2TestChain) -> None:
        self.l2 = l2
        self.backend = l2.backend()
        l2.extend(self.backend, l2.deposit(b"\xee" * 20, b"\xdd" * 20, mint=3), l2.transfer(0, 0))
        l2.extend(self.backend, l2.transfer(0, 1, TOKEN, 0, MINT), l2.transfer(1, 0, None, 0, b"\x60\x00"))
        l2.extend(self.backend)
        safe = self.backend.chain.at(1)
        assert safe is not None
        self.backend.chain.safe = safe
        self.methods = EthApi(self.backend, "test").methods()

    def __call__(self, method: str, *parameters: Any) -> Any:
        return self.methods[method](*parameters)

    def mint(self) -> Block:
        return self.l2.extend(self.backend, self.l2.transfer(0, 2, TOKEN, 0, MINT))


@pytest.fixture
def api() -> EthApiHarness:
    return EthApiHarness(L2TestChain())


@pytest.mark.parametrize("newest", ["regolith", "canyon", "jovian"])
def test_blocks_rebuild_to_their_hash_and_roots(newest: str) -> None:
    api = EthApiHarness(L2TestChain(newest))
    for number in range(4):
        block = api("eth_getBlockByNumber", hex(number), True)
        header = header_from_json(block)
        assert to_hex(header_hash(header)) == block["hash"] and block.get("withdrawals") == (
            None if newest == "regolith" else []
        )
        raw = [transaction_from_json(item) for item in block["transactions"]]
        assert ordered_root(raw) == header.transactions_root
        receipts = [receipt_from_json(item) for item in api("eth_getBlockReceipts", block["hash"])]
        assert ordered_root(receipts) == header.receipts_root
        assert api("debug_getRawReceipts", hex(number)) == [to_hex(receipt) for receipt in receipts]
        assert keccak256(from_hex(api("debug_getRawHeader", hex(number)))) == header_hash(header)
        assert api("eth_getBlockByHash", block["hash"])["transactions"] == [to_hex(keccak256(item)) for item in raw]
        for item, encoded in zip(block["transactions"], raw, strict=True):
            assert api("debug_getRawTransaction", item["hash"]) == to_hex(encoded)
            assert api("eth_getTransactionByHash", item["hash"]) == item
            assert api("eth_getTransactionReceipt", item["hash"])["blockHash"] == block["hash"]


def test_tags(api: EthApiHarness) -> None:
    chain = api.backend.chain
    expected = {"latest": 3, "pending": 3, "safe": 1, "finalized": 0, "earliest": 0, "0x2": 2}
    for tag, number in expected.items():
        assert api("eth_getBlockByNumber", tag)["number"] == hex(number)
    assert api("eth_blockNumber") == "0x3" and api("eth_chainId") == hex(901)
    assert api("eth_getBlockByNumber", "0x9") is None and api("eth_getBlockByHash", UNKNOWN) is None
    assert api("eth_getTransactionReceipt", UNKNOWN) is None and api("eth_getBlockReceipts", "0x9") is None
    by_hash = {"blockHash": to_hex(chain.safe.hash)}
    assert api("eth_getBalance", "0x" + "ee" * 20, by_hash) == "0x3"
    with pytest.raises(JsonRpcError, match="header not found"):
        api("eth_getBalance", "0x" + "ee" * 20, "0x9")
    with pytest.raises(HexError):
        api("eth_getBlockByNumber", "newest")


def test_calls_and_estimates(api: EthApiHarness) -> None:
    owner = api.l2.keys[0].address
    balance = {"to": to_hex(TOKEN), "data": to_hex(call_data("balanceOf(address)", owner))}
    assert int(api("eth_call", balance), 16) == 100 and int(api("eth_call", balance, "0x1"), 16) == 0
    transfer = call_data("transfer(address,uint256)", 1, 5)
    for method in ("eth_call", "eth_estimateGas"):
        with pytest.raises(JsonRpcError, match="execution reverted") as raised:
            api(method, {"to": to_hex(TOKEN), "input": to_hex(transfer)})
        assert raised.value.code == 3 and raised.value.data.startswith("0x4e487b71")
    mint = {"from": to_hex(owner), "to": to_hex(TOKEN), "data": to_hex(MINT)}
    estimate = int(api("eth_estimateGas", mint), 16)
    block = api.l2.extend(api.backend, api.l2.transfer(0, 2, TOKEN, 0, MINT, gas=estimate))
    assert block.executed[1].result.succeeded and estimate - block.executed[1].result.gas_used <= 64
    assert api("eth_estimateGas", {"from": to_hex(owner), "to": "0x" + "11" * 20, "value": "0x1"}) == hex(21_000)
    for values, error in (
        ({"value": "0x1", "from": "0x" + "22" * 20}, "insufficient funds"),
        ({"gas": hex(20_999)}, "intrinsic gas too low"),
    ):
        with pytest.raises(JsonRpcError, match=error):
            api("eth_call", {"to": "0x" + "11" * 20, **values})


def test_logs_by_range_address_and_topic(api: EthApiHarness) -> None:
    every: dict[str, Any] = {"fromBlock": "0x0", "toBlock": "latest"}
    result = api("eth_getLogs", every | {"address": to_hex(TOKEN), "topics": [to_hex(TRANSFER)]})
    assert [log["blockNumber"] for log in result] == ["0x2"] and result[0]["address"] == to_hex(TOKEN)
    owner = to_hex(api.l2.keys[0].address.rjust(32, b"\0"))
    assert api("eth_getLogs", every | {"topics": [None, None, [owner, UNKNOWN]]}) == result
    assert api("eth_getLogs", {"blockHash": result[0]["blockHash"]}) == result
    assert api("eth_getLogs", every | {"topics": [UNKNOWN]}) == api("eth_getLogs", every | {"toBlock": "0x1"}) == []


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("eth_call", [{"to": "0x12"}]),
        ("eth_estimateGas", [None]),
        ("eth_newFilter", [{"topics": [[]] * 5}]),
        ("eth_getLogs", [{"topics": "0x"}]),
        ("eth_getProof", ["0x" + "00" * 20, "0x0"]),
        ("eth_getBalance", ["0x12"]),
        ("eth_getBlockByNumber", [5]),
        ("eth_getBlockByHash", ["0x12"]),
        ("eth_feeHistory", ["many", "latest"]),
        ("eth_sendRawTransaction", [None]),
        ("eth_getStorageAt", ["0x" + "00" * 20, "slot"]),
    ],
)
def test_malformed_parameters_are_refused(api: EthApiHarness, method: str, parameters: list[Any]) -> None:
    with pytest.raises((HexError, JsonRpcError)):
        api(method, *parameters)


def test_transactions_of_a_block_by_their_index(api: EthApiHarness) -> None:
    block = api("eth_getBlockByNumber", "latest", True)
    count = len(block["transactions"])
    for name, tag in (("Number", "latest"), ("Hash", block["hash"])):
        assert api(f"eth_getBlockTransactionCountBy{name}", tag) == hex(count)
        result = [api(f"eth_getTransactionByBlock{name}AndIndex", tag, hex(index)) for index in range(count + 1)]
        assert result == [*block["transactions"], None]
    last = block["transactions"][-1]["hash"]
    assert api("eth_getRawTransactionByHash", last) == api("debug_getRawTransaction", last) != "0x"


def test_new_blocks_and_logs_are_reported_once(api: EthApiHarness) -> None:
    blocks, logs = api("eth_newBlockFilter"), api("eth_newFilter", {"address": to_hex(TOKEN), "fromBlock": "latest"})
    others = api("eth_newFilter", {"address": "0x" + "11" * 20})
    assert api("eth_getFilterChanges", blocks) == [] and api("eth_getFilterChanges", logs) == []
    first, second = api.mint(), api.l2.extend(api.backend)
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


def test_the_logs_of_replaced_blocks_are_reported_as_removed(api: EthApiHarness) -> None:
    before = api.backend.chain.head
    blocks, logs = api("eth_newBlockFilter"), api("eth_newFilter", {"address": to_hex(TOKEN)})
    old = api.mint()
    api("eth_getFilterChanges", blocks), api("eth_getFilterChanges", logs)
    api.backend.set_head(before)
    new = api.l2.extend(api.backend, api.l2.transfer(1, 1), api.l2.transfer(0, 2, TOKEN, 0, MINT))
    assert api("eth_getFilterChanges", blocks) == [to_hex(new.hash)]
    result = [(log["blockHash"], log["removed"]) for log in api("eth_getFilterChanges", logs)]
    assert result == [(to_hex(old.hash), True), (to_hex(new.hash), False)]


def test_filters_are_bounded(api: EthApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_web3_reads_the_chain_as_a_batcher_does(api: EthApiHarness) -> None:
    from eth_utils.address import to_checksum_address
    from web3 import AsyncHTTPProvider, AsyncWeb3

    account = to_checksum_address("0x" + "99" * 20)
    async with listening(json_rpc_app(api.methods)) as (url,):
        provider = AsyncHTTPProvider(url)
        eth: Any = AsyncWeb3(provider).eth
        new_blocks, minted = await eth.filter("latest"), await eth.filter({"address": TOKEN})
        block = api.mint()
        assert [bytes(get_new_entry) for get_new_entry in await new_blocks.get_new_entries()] == [block.hash]
        (entry,) = await minted.get_new_entries()
        assert bytes(entry["blockHash"]) == block.hash
        assert await eth.block_number == 4 and await eth.chain_id == 901 and await eth.syncing is False
        assert bytes((await eth.get_block("latest", True))["hash"]) == block.hash
        receipt = await eth.get_transaction_receipt(block.transactions[0].hash)
        assert receipt["status"] == 1 and (await eth.get_block_receipts(4))[0]["blockNumber"] == 4
        fees = await eth.fee_history(1, "latest", [10.0])
        assert len(fees["baseFeePerGas"]) == 2
        for value in (await eth.gas_price, await eth.max_priority_fee, await eth.blob_base_fee):
            assert value > 0
        assert await eth.get_balance(account) == 0 and await eth.get_transaction_count(account, "pending") == 0
        assert await eth.estimate_gas({"from": account, "to": account, "value": 0}) >= 21_000
        assert bytes(await eth.call({"to": account})) == b"" and bytes(await eth.get_code(account)) == b""
        assert len(await eth.get_logs({"fromBlock": 0})) == 2
        await provider.disconnect()
