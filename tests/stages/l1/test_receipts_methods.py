"""The choice of a receipts method by provider kind, block size and earlier failures."""

import pytest

from rollup_node.stages.l1.receipts_methods import (
    KINDS,
    ONE_BY_ONE,
    RETRY_SECONDS,
    ReceiptsMethods,
    is_not_found,
    is_unsupported,
)


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


def test_every_kind_is_known() -> None:
    assert len(KINDS) == 10


def test_a_dropped_method_is_tried_again_after_a_minute() -> None:
    """[OPT73]"""
    methods = ReceiptsMethods("standard")
    methods.drop("eth_getBlockReceipts", 100.0)
    assert methods.choose(5, 100.0 + RETRY_SECONDS - 1) == ONE_BY_ONE
    assert methods.choose(5, 100.0 + RETRY_SECONDS) == "eth_getBlockReceipts"


def test_only_alchemy_takes_an_object() -> None:
    """[OPT72]"""
    assert ReceiptsMethods.parameter("eth_getBlockReceipts", "0x1") == "0x1"
    assert ReceiptsMethods.parameter("alchemy_getTransactionReceipts", "0x1") == {"blockHash": "0x1"}


def test_unsupported_methods_and_missing_blocks() -> None:
    assert is_unsupported(-32601, "whatever")
    assert is_unsupported(-32000, "the method eth_getBlockReceipts does not exist/is not available")
    assert not is_unsupported(-32000, "header not found")
    assert not is_unsupported(-32005, "limit exceeded")
    assert is_not_found("Unknown block")
    assert is_not_found("header not found")
    assert not is_not_found("limit exceeded")
