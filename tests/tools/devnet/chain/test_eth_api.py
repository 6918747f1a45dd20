"""The eth_* methods; the objects of blocks rebuild to the blocks' own hashes and roots."""

from typing import Any

import pytest

from rollup_node.stages.protocol.headers import header_from_json, header_hash
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.receipts import receipt_from_json
from rollup_node.stages.protocol.transaction_json import transaction_from_json
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet.chain.eth_api import EthApi
from rollup_node.tools.devnet.predeploys.alloc import TOKEN
from tests.support.chains.l2_test_chain import L2TestChain, call_data

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
