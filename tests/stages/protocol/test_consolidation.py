"""Consolidation: each field alone makes a mismatch, and the order of the checks [CON2 to CON23]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol.config import ChainOpConfig, RollupConfig
from rollup_node.stages.protocol.consolidation import (
    ComparedField,
    SealedMismatch,
    first_mismatch,
    mismatches,
    sealed_mismatch,
)
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from tests.support.chains.chain_fixture import chain_with
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.chains.sample_payload import SAMPLE_PAYLOAD

PARENT = SAMPLE_PAYLOAD.parent_hash
PARAMS = bytes.fromhex("0000000500000007")


def chain(fork: str) -> RollupConfig:
    return msgspec.structs.replace(
        PLAIN_ROLLUP,
        fork_times={name: 0 for name in FORK_NAMES[: FORK_NAMES.index(fork) + 1]},
        chain_op_config=ChainOpConfig(6, 50, 250),
    )


ATTRIBUTES: dict[str, Any] = {
    "timestamp": 1000,
    "prev_randao": b"\x02" * 32,
    "fee_recipient": b"\x03" * 20,
    "withdrawals": False,
    "parent_beacon_root": None,
    "transactions": (b"\x7ea", b"\x02b"),
    "no_tx_pool": True,
    "gas_limit": 30_000_000,
    "eip1559_params": None,
    "min_base_fee": None,
}
BLOCK = msgspec.structs.asdict(SAMPLE_PAYLOAD)
BY_FORK: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {"regolith": ({}, {})}
BY_FORK["canyon"] = ({"withdrawals": True}, {"withdrawals": True})
BEACON_ROOT = {"parent_beacon_root": b"\x07" * 32}
BY_FORK["ecotone"] = (BY_FORK["canyon"][0] | BEACON_ROOT, BY_FORK["canyon"][1] | BEACON_ROOT)
BY_FORK["holocene"] = (
    BY_FORK["ecotone"][0] | {"eip1559_params": PARAMS},
    BY_FORK["ecotone"][1] | {"extra_data": b"\x00" + PARAMS},
)
BY_FORK["isthmus"] = (BY_FORK["holocene"][0], BY_FORK["holocene"][1] | {"withdrawals_root": b"\x08" * 32})
BY_FORK["jovian"] = (
    BY_FORK["isthmus"][0] | {"min_base_fee": 9},
    BY_FORK["isthmus"][1] | {"extra_data": b"\x01" + PARAMS + (9).to_bytes(8, "big")},
)


def compare(
    fork: str, attributes: dict[str, Any] | None = None, block: dict[str, Any] | None = None
) -> ComparedField | None:
    base_attributes, base_block = BY_FORK[fork]
    result = first_mismatch(
        chain(fork),
        PayloadAttributes(**(ATTRIBUTES | base_attributes | (attributes or {}))),
        PARENT,
        ExecutionPayload(**(BLOCK | base_block | (block or {}))),
    )
    assert result is None or (result.text and "\n" not in result.text)
    return None if result is None else result.field


@pytest.mark.parametrize("fork", BY_FORK)
def test_equal_blocks_match(fork: str) -> None:
    assert compare(fork) is None


@pytest.mark.parametrize(
    ("fork", "attributes", "block", "field"),
    [
        ("regolith", {}, {"transactions": (b"\x7ea", b"\x02c")}, ComparedField.TRANSACTION),
        ("jovian", {}, {"transactions": (b"\x02b", b"\x7ea")}, ComparedField.TRANSACTION),
        ("canyon", {}, {"extra_data": b"\x09"}, ComparedField.EXTRA_DATA),
        ("regolith", {"withdrawals": True}, {}, ComparedField.WITHDRAWALS),
        ("regolith", {}, {"withdrawals": True}, None),
        ("canyon", {}, {"withdrawals": False}, ComparedField.WITHDRAWALS),
        ("canyon", {"withdrawals": False}, {}, ComparedField.WITHDRAWALS),
        ("canyon", {}, {"withdrawals_root": EMPTY_ROOT}, None),
        ("canyon", {}, {"withdrawals_root": b"\x08" * 32}, ComparedField.WITHDRAWALS_ROOT),
        ("isthmus", {}, {"withdrawals_root": None}, ComparedField.WITHDRAWALS_ROOT),
        ("isthmus", {}, {"withdrawals_root": b"\x18" * 32}, None),
        ("ecotone", {"parent_beacon_root": None}, {}, ComparedField.BEACON_ROOT),
        ("ecotone", {}, {"parent_beacon_root": None}, ComparedField.BEACON_ROOT),
        ("ecotone", {}, {"extra_data": b"\x00" + PARAMS}, ComparedField.EXTRA_DATA),
        ("holocene", {"eip1559_params": None}, {}, ComparedField.EXTRA_DATA),
        ("holocene", {"eip1559_params": None}, {"extra_data": b""}, None),
        ("holocene", {"eip1559_params": bytes(7) + b"\x01"}, {}, ComparedField.EIP1559_PARAMS),
        ("holocene", {"eip1559_params": b"\x01" + bytes(7)}, {}, ComparedField.EIP1559_PARAMS),
        ("holocene", {"eip1559_params": bytes(8)}, {}, ComparedField.EIP1559_PARAMS),
        ("holocene", {"eip1559_params": bytes(8)}, {"extra_data": bytes.fromhex("00000000fa00000006")}, None),
        ("holocene", {}, {"extra_data": bytes.fromhex("00000000fa00000006")}, ComparedField.EIP1559_PARAMS),
        ("holocene", {}, {"extra_data": bytes(9)}, ComparedField.EXTRA_DATA),
        ("holocene", {"min_base_fee": 0}, {}, ComparedField.MIN_BASE_FEE),
        ("jovian", {"min_base_fee": None}, {}, ComparedField.MIN_BASE_FEE),
        ("jovian", {"min_base_fee": 8}, {}, ComparedField.MIN_BASE_FEE),
    ],
)
def test_rules_by_fork(
    fork: str, attributes: dict[str, Any], block: dict[str, Any], field: ComparedField | None
) -> None:
    assert compare(fork, attributes, block) is field


def test_fields_that_the_engine_checks_are_not_compared() -> None:
    others = {"state_root": b"\x19" * 32, "receipts_root": b"\x19" * 32, "logs_bloom": b"\x01" * 256, "gas_used": 6}
    assert compare("jovian", block=others | {"base_fee": 8, "blob_gas_used": 5, "block_number": 7}) is None


def test_mismatches_are_found_in_order() -> None:
    everything = {
        "parent_hash": b"\x09" * 32,
        "timestamp": 1002,
        "prev_randao": b"\x09" * 32,
        "transactions": (b"\x7ea",),
        "gas_limit": 1,
        "withdrawals": False,
        "parent_beacon_root": None,
        "fee_recipient": b"\x09" * 20,
        "extra_data": b"\x01" + bytes.fromhex("0000000500000008") + bytes(8),
    }
    config, (attributes, block) = chain("jovian"), BY_FORK["jovian"]
    asked, built = PayloadAttributes(**(ATTRIBUTES | attributes)), ExecutionPayload(**(BLOCK | block | everything))
    result = list(mismatches(config, asked, PARENT, built))
    assert result[0] == first_mismatch(config, asked, PARENT, built)
    assert [mismatch.field for mismatch in result] == [
        ComparedField.PARENT_HASH,
        ComparedField.TIMESTAMP,
        ComparedField.PREV_RANDAO,
        ComparedField.TRANSACTION_COUNT,
        ComparedField.GAS_LIMIT,
        ComparedField.WITHDRAWALS,
        ComparedField.BEACON_ROOT,
        ComparedField.FEE_RECIPIENT,
        ComparedField.EIP1559_PARAMS,
        ComparedField.MIN_BASE_FEE,
    ]


def test_long_transactions_do_not_flood_the_text() -> None:
    result = first_mismatch(
        chain("regolith"),
        PayloadAttributes(**(ATTRIBUTES | {"transactions": (b"a" * 100_000,)})),
        PARENT,
        ExecutionPayload(**(BLOCK | {"transactions": (b"b" * 100_000,)})),
    )
    assert result is not None and result.field is ComparedField.TRANSACTION and len(result.text) < 1000


def test_holocene_needs_the_constants_of_the_chain() -> None:
    attributes, block = BY_FORK["holocene"]
    config = msgspec.structs.replace(chain("holocene"), chain_op_config=None)
    with pytest.raises(CriticalError, match="chain_op_config"):
        first_mismatch(
            config, PayloadAttributes(**(ATTRIBUTES | attributes)), PARENT, ExecutionPayload(**(BLOCK | block))
        )


DEPOSIT, POOL = b"\x7e\xc0", (b"\x02one", b"\x04two")
SEALED = chain_with()


def asked(pool: bool = False) -> tuple[PayloadAttributes, ExecutionPayload]:
    """Attributes of an L1 info deposit, another deposit and three transactions, and the block that is built of them."""
    attributes = SEALED.attributes(SEALED.genesis, 100, [])
    value = (*attributes.transactions, DEPOSIT, b"\x02a", b"\x02b", b"\x02a")
    attributes = msgspec.structs.replace(attributes, transactions=value, no_tx_pool=not pool)
    return attributes, SEALED.seal(SEALED.genesis, attributes, POOL if pool else ())


def compare_sealed(pool: bool = False, **changes: Any) -> SealedMismatch | None:
    attributes, block = asked(pool)
    block = msgspec.structs.replace(block, **changes)
    return sealed_mismatch(SEALED.rollup, attributes, SEALED.genesis, block)


@pytest.mark.parametrize("pool", [False, True])
def test_the_block_that_was_asked_for(pool: bool) -> None:
    assert compare_sealed(pool) is None


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"block_number": 2}, "sealed block 2 instead of 1"),
        ({"parent_hash": b"\x09" * 32}, "parent hash field does not match"),
        ({"timestamp": 7}, "timestamp field does not match"),
        ({"prev_randao": b"\x09" * 32}, "random field does not match"),
        ({"fee_recipient": b"\x09" * 20}, "fee recipient data does not match"),
        ({"gas_limit": 7}, "gas limit does not match"),
        ({"withdrawals": False}, "expected withdrawals in block to be non-nil"),
        ({"withdrawals_root": None}, "expected withdrawalsRoot in block to be non-nil"),
        ({"parent_beacon_root": None}, "expected non-nil parent beacon block root"),
        ({"extra_data": b"\x00" * 9}, "invalid block extraData"),
        ({"transactions": ()}, "transaction 0 is none instead of 0x"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_another_block_is_a_fault_of_the_engine(pool: bool, changes: dict[str, Any], text: str) -> None:
    result = compare_sealed(pool, **changes)
    assert result is not None and text in result.text and not result.left_out


@pytest.mark.parametrize("kept", [(0, 1), (0, 1, 2), (0, 1, 3), (0, 1, 3, 4), (0, 1, 2, 4)])
def test_left_out_transactions_make_the_attributes_invalid(kept: tuple[int, ...]) -> None:
    _, block = asked()
    result = compare_sealed(transactions=tuple(block.transactions[index] for index in kept))
    assert result is not None and result.left_out
    first = next(index for index in range(5) if index >= len(kept) or kept[index] != index)
    assert f"the engine left out transaction {first} (0x" in result.text
    assert (f"{4 - len(kept)} more" in result.text) is (len(kept) < 4)


@pytest.mark.parametrize("kept", [(1, 2, 3, 4), (0, 2, 3, 4), (0, 1, 3, 2, 4), (0, 1, 2, 3, 4, 4), (0, 1, 3, 3)])
def test_a_deposit_that_is_missing_or_another_order_is_a_fault_of_the_engine(kept: tuple[int, ...]) -> None:
    _, block = asked()
    result = compare_sealed(transactions=tuple(block.transactions[index] for index in kept))
    assert result is not None and not result.left_out and "other transactions than it was given" in result.text


def test_a_block_from_the_pool_begins_with_what_was_given() -> None:
    attributes, _ = asked(pool=True)
    transactions = attributes.transactions
    assert compare_sealed(True, transactions=transactions) is None
    result = compare_sealed(True, transactions=(*transactions[:2], *transactions[3:], *POOL))
    assert result is not None and not result.left_out and "transaction 2 is 0x" in result.text
    for added, text in ((DEPOSIT, "transaction 6 of the block that the engine sealed is a deposit"), (b"", "6 of the")):
        result = compare_sealed(True, transactions=(*transactions, POOL[0], added, POOL[1]))
        assert result is not None and not result.left_out and text in result.text
