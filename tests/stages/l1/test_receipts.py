"""Receipts against the receipts root, in every form in which providers give them."""

from collections.abc import Callable
from typing import Any

import pytest

from rollup_node.stages.l1.filter import Filter
from rollup_node.stages.l1.receipts import verified_logs
from rollup_node.stages.l1.verify import InvalidDataError, VerifiedBlock, verify_block
from rollup_node.tools.recorded.recording import Recording

BLOCK = 6_582_933
Json = Any


@pytest.fixture
def block(recording: Recording, rules: Filter) -> VerifiedBlock:
    """A block with one deposit of OP Sepolia's, its log 90."""
    return verify_block(recording.block(BLOCK).block(True), BLOCK, False, rules)


def refusal(receipts: Json, block: VerifiedBlock, rules: Filter) -> str:
    with pytest.raises(InvalidDataError) as caught:
        verified_logs(receipts, block, rules)
    return str(caught.value)


def test_all_forms_give_the_same_logs(recording: Recording, block: VerifiedBlock, rules: Filter) -> None:
    listed = recording.block(BLOCK).receipts_json()
    (deposit,) = verified_logs(listed, block, rules)
    assert deposit.index == 90
    assert deposit.address == rules.deposit_contract
    assert verified_logs({"receipts": listed}, block, rules) == (deposit,)
    raw = ["0x" + each.hex() for each in recording.block(BLOCK).receipts or ()]
    assert verified_logs(raw, block, rules) == (deposit,)


def test_all_recorded_receipts_verify(recording: Recording, rules: Filter) -> None:
    everything = Filter(rules.chain_id, rules.inbox, rules.deposit_contract, rules.system_config)
    verified = 0
    for each in recording.by_number.values():
        if each.transactions is None or each.receipts is None:
            continue
        header = verify_block(each.block(True), each.number, False, everything)
        hashes = tuple(bytes.fromhex(tx["hash"][2:]) for tx in each.transactions_json)
        block = VerifiedBlock(header.header, (), header.receipts_root, True, hashes)
        logs = verified_logs(each.receipts_json(), block, everything)
        assert len(logs) == (1 if each.number in (BLOCK, 6_582_952) else 0)
        verified += 1
    assert verified == 57


Spoil = Callable[[Json], None]


def spoil(path: list[Any], value: Any) -> Spoil:
    def act(receipts: Json) -> None:
        target = receipts
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return act


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (spoil([4, "transactionIndex"], "0x5"), "receipt 4 has transactionIndex '0x5', which is not that of its place"),
        (spoil([4, "blockNumber"], None), "receipt 4 has blockNumber None"),
        (spoil([4, "blockHash"], "0x" + "11" * 32), "receipt 4 has blockHash '0x1111"),
        (spoil([4, "transactionHash"], "0x" + "11" * 32), "receipt 4 has transactionHash"),
        (spoil([4, "gasUsed"], "0x1"), "receipt 4 has gas used 1, expected"),
        (spoil([4, "cumulativeGasUsed"], "0x1"), "has gas used"),
        (spoil([4, "gasUsed"], None), "malformed"),
        (spoil([4, "logs"], None), "malformed"),
        (spoil([4, "logsBloom"], "0x" + "11" * 256), "do not match its receipts root"),
        (spoil([4, "status"], "0x0"), "do not match its receipts root"),
        (spoil([7], None), "neither an object nor raw bytes"),
        (spoil([-1], "0x00"), "do not match its receipts root"),
        (spoil([7], "00"), "malformed"),
        (lambda receipts: receipts.pop(), "transactions"),
    ],
)
def test_damage_is_refused(
    act: Spoil, reason: str, block: VerifiedBlock, rules: Filter, receipts_json: Callable[[int], Json]
) -> None:
    receipts = receipts_json(BLOCK)
    act(receipts)
    assert reason in refusal(receipts, block, rules)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
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
def test_damaged_logs_are_refused(
    field: str,
    value: Any,
    reason: str,
    block: VerifiedBlock,
    rules: Filter,
    receipts_json: Callable[[int], Json],
) -> None:
    receipts = receipts_json(BLOCK)
    place = max(index for index, receipt in enumerate(receipts) if receipt["logs"])
    receipts[place]["logs"][-1][field] = value
    assert reason in refusal(receipts, block, rules)


def test_receipts_of_another_block_are_refused(
    recording: Recording, block: VerifiedBlock, rules: Filter, receipts_json: Callable[[int], Json]
) -> None:
    other = receipts_json(6_582_934)[: len(block.transaction_hashes)]
    assert "receipt" in refusal(other, block, rules)
    for wrong in (None, 5, "0x", {"receipts": None}):
        assert "are not a list" in refusal(wrong, block, rules)
