"""Receipts against the receipts root, in every form in which providers return them [LHD15]."""

from collections.abc import Callable
from typing import Any

import pytest

from rollup_node.stages.l1.filter import L1Filter
from rollup_node.stages.l1.receipts import verified_logs
from rollup_node.stages.l1.verify import InvalidDataError, VerifiedBlock, verify_block
from rollup_node.tools.recorded.recording import Recording

BLOCK = 6_582_933
Json = Any


@pytest.fixture
def block(recording: Recording, l1_filter: L1Filter) -> VerifiedBlock:
    """A block with one deposit of OP Sepolia's, its log 90."""
    return verify_block(recording.block(BLOCK).block(True), BLOCK, False, l1_filter)


def error_of(receipts: Json, block: VerifiedBlock, l1_filter: L1Filter) -> str:
    with pytest.raises(InvalidDataError) as caught:
        verified_logs(receipts, block, l1_filter)
    return str(caught.value)


def test_all_forms_give_the_same_logs(recording: Recording, block: VerifiedBlock, l1_filter: L1Filter) -> None:
    listed = recording.block(BLOCK).receipts_json()
    (deposit,), updates, challenges = verified_logs(listed, block, l1_filter)
    assert (updates, challenges) == ((), ())
    assert deposit.index == 90
    assert deposit.address == l1_filter.deposit_contract
    assert verified_logs({"receipts": listed}, block, l1_filter).deposits == (deposit,)
    raw = ["0x" + each.hex() for each in recording.block(BLOCK).receipts or ()]
    assert verified_logs(raw, block, l1_filter).deposits == (deposit,)


def test_all_recorded_receipts_verify(recording: Recording, l1_filter: L1Filter) -> None:
    verified = 0
    for each in recording.by_number.values():
        if each.transactions is None or each.receipts is None:
            continue
        verified_block = verify_block(each.block(True), each.number, False, l1_filter)
        hashes = tuple(bytes.fromhex(tx["hash"][2:]) for tx in each.transactions_json)
        block = VerifiedBlock(verified_block.header, (), verified_block.receipts_root, True, hashes, 0)
        logs = verified_logs(each.receipts_json(), block, l1_filter).deposits
        assert len(logs) == (1 if each.number in (BLOCK, 6_582_952) else 0)
        verified += 1
    assert verified == 57


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
    field: str,
    value: Any,
    error: str,
    block: VerifiedBlock,
    l1_filter: L1Filter,
    receipts_json: Callable[[int], Json],
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
        assert "are not a list" in error_of(wrong, block, l1_filter)
