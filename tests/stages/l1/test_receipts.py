"""Receipts against the receipts root, in every form in which providers return them [LHD15]."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.receipts import (
    ONE_BY_ONE,
    RETRY_SECONDS,
    ReceiptsMethods,
    VerifiedLogs,
    is_not_found,
    is_unsupported,
    verified_logs,
)
from rollup_node.stages.l1.verify import InvalidDataError, VerifiedBlock
from rollup_node.tools.recorded.recording import Recording
from tests.support.l1_blocks import verify_json

BLOCK = 6_582_933
Json = Any


def logs_of(receipts: Json, block: VerifiedBlock, l1_filter: L1Filter) -> VerifiedLogs:
    return verified_logs(orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": receipts}), block, (l1_filter,))[0]


@pytest.fixture
def block(recording: Recording, l1_filter: L1Filter) -> VerifiedBlock:
    """Return a block with one deposit of OP Sepolia's, its log 90."""
    return verify_json(recording.block(BLOCK).block(True), BLOCK, False, l1_filter)


def error_of(receipts: Json, block: VerifiedBlock, l1_filter: L1Filter) -> str:
    with pytest.raises(InvalidDataError) as caught:
        logs_of(receipts, block, l1_filter)
    return str(caught.value)


def test_all_forms_give_the_same_logs(recording: Recording, block: VerifiedBlock, l1_filter: L1Filter) -> None:
    listed = recording.block(BLOCK).receipts_json()
    (deposit,), updates, challenges = logs_of(listed, block, l1_filter)
    assert (updates, challenges) == ((), ())
    assert deposit.index == 90
    assert deposit.address == l1_filter.deposit_contract
    assert logs_of({"receipts": listed}, block, l1_filter).deposits == (deposit,)
    raw = ["0x" + receipt.hex() for receipt in recording.block(BLOCK).receipts or ()]
    assert logs_of(raw, block, l1_filter).deposits == (deposit,)


Change = Callable[[Json], None]


def replaced(path: list[Any], value: Any) -> Change:
    def change(receipts: Json) -> None:
        target = receipts
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return change


@pytest.mark.fault("F3")
@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            replaced([4, "transactionIndex"], "0x5"),
            "receipt 4 has transactionIndex '0x5', which is not that of its place",
        ),
        (replaced([4, "blockNumber"], None), "receipt 4 has blockNumber None"),
        (replaced([4, "blockHash"], "0x" + "11" * 32), "receipt 4 has blockHash '0x1111"),
        (replaced([4, "transactionHash"], "0x" + "11" * 32), "receipt 4 has transactionHash"),
        (replaced([4, "gasUsed"], "0x1"), "receipt 4 has gas used 1, expected"),
        (replaced([4, "cumulativeGasUsed"], "0x1"), "has gas used"),
        (replaced([4, "gasUsed"], None), "malformed"),
        (replaced([4, "logs"], None), "malformed"),
        (replaced([4, "logsBloom"], "0x" + "11" * 256), "do not match its receipts root"),
        (replaced([4, "status"], "0x0"), "do not match its receipts root"),
        (replaced([7], None), "neither an object nor raw bytes"),
        (replaced([-1], "0x00"), "do not match its receipts root"),
        (replaced([7], "00"), "malformed"),
        (lambda receipts: receipts.pop(), "transactions"),
    ],
)
def test_changed_receipts_are_refused(
    change: Change, error: str, block: VerifiedBlock, l1_filter: L1Filter, receipts_json: Callable[[int], Json]
) -> None:
    receipts = receipts_json(BLOCK)
    change(receipts)
    assert error in error_of(receipts, block, l1_filter)


@pytest.mark.fault("F3")
@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("logIndex", "0x0", "has log index 0x0, expected"),
        ("removed", True, "is marked as removed"),
        ("transactionIndex", "0x0", "has transactionIndex"),
        ("blockHash", "0x" + "22" * 32, "has blockHash"),
        ("data", "0x01", "do not match its receipts root"),
        ("topics", [], "do not match its receipts root"),
        ("topics", 5, "malformed"),
    ],
)
def test_changed_logs_are_refused(
    field: str, value: Any, error: str, block: VerifiedBlock, l1_filter: L1Filter, receipts_json: Callable[[int], Json]
) -> None:
    receipts = receipts_json(BLOCK)
    place = max(index for index, receipt in enumerate(receipts) if receipt["logs"])
    receipts[place]["logs"][-1][field] = value
    assert error in error_of(receipts, block, l1_filter)


@pytest.mark.fault("F2")
def test_receipts_of_another_block_are_refused(
    recording: Recording, block: VerifiedBlock, l1_filter: L1Filter, receipts_json: Callable[[int], Json]
) -> None:
    other = receipts_json(6_582_934)[: len(block.transaction_hashes)]
    assert "receipt" in error_of(other, block, l1_filter)
    for wrong in (None, 5, "0x", {"receipts": None}):
        assert ("are not a list" if wrong is None else "the answer is malformed") in error_of(wrong, block, l1_filter)


def order(kind: str, transactions: int) -> list[str]:
    methods = ReceiptsMethods(kind)
    tried = [methods.choose(transactions, 0.0)]
    while tried[-1] != ONE_BY_ONE:
        methods.drop(tried[-1], 0.0)
        tried.append(methods.choose(transactions, 0.0))
    return tried[:-1]


@pytest.mark.parametrize(
    ("kind", "transactions", "tried"),
    [
        ("standard", 1, ["eth_getBlockReceipts"]),
        ("infura", 1, ["eth_getBlockReceipts"]),
        ("basic", 500, []),
        ("debug_geth", 1, ["debug_getRawReceipts"]),
        ("alchemy", 16, []),
        ("alchemy", 17, ["alchemy_getTransactionReceipts"]),
        ("alchemy", 34, ["alchemy_getTransactionReceipts", "eth_getBlockReceipts"]),
        ("quicknode", 29, ["debug_getRawReceipts"]),
        ("quicknode", 30, ["debug_getRawReceipts", "eth_getBlockReceipts"]),
        ("parity", 1, ["parity_getBlockReceipts"]),
        ("nethermind", 1, ["parity_getBlockReceipts"]),
        ("erigon", 1, ["erigon_getBlockReceiptsByBlockHash"]),
        (
            "any",
            1,
            [
                "alchemy_getTransactionReceipts",
                "debug_getRawReceipts",
                "erigon_getBlockReceiptsByBlockHash",
                "eth_getBlockReceipts",
                "parity_getBlockReceipts",
            ],
        ),
    ],
)
def test_methods_are_tried_in_order(kind: str, transactions: int, tried: list[str]) -> None:
    """[OPT71]"""
    assert order(kind, transactions) == tried


def test_a_dropped_method_is_tried_again_after_a_minute() -> None:
    """[OPT73]"""
    methods = ReceiptsMethods("standard")
    methods.drop("eth_getBlockReceipts", 100.0)
    assert methods.choose(5, 100.0 + RETRY_SECONDS - 1) == ONE_BY_ONE
    assert methods.choose(5, 100.0 + RETRY_SECONDS) == "eth_getBlockReceipts"


def test_unsupported_methods_and_missing_blocks() -> None:
    assert is_unsupported(-32601, "whatever")
    assert is_unsupported(-32000, "the method eth_getBlockReceipts does not exist/is not available")
    assert not is_unsupported(-32000, "header not found")
    assert not is_unsupported(-32005, "limit exceeded")
    assert is_not_found("Unknown block")
    assert is_not_found("header not found")
    assert not is_not_found("limit exceeded")
