"""Consolidation: each field alone makes a mismatch, and the order of the checks [CON2 to CON23]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol.config import ChainOpConfig, RollupConfig
from rollup_node.stages.protocol.consolidation import ComparedField, first_mismatch, mismatches
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
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


@pytest.mark.parametrize("fork", BY_FORK)
@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"parent_hash": b"\x09" * 32}, ComparedField.PARENT_HASH),
        ({"timestamp": 1001}, ComparedField.TIMESTAMP),
        ({"prev_randao": b"\x09" * 32}, ComparedField.PREV_RANDAO),
        ({"transactions": (b"\x7ea",)}, ComparedField.TRANSACTION_COUNT),
        ({"transactions": (b"\x7ea", b"\x02c")}, ComparedField.TRANSACTION),
        ({"transactions": (b"\x02b", b"\x7ea")}, ComparedField.TRANSACTION),
        ({"gas_limit": 30_000_001}, ComparedField.GAS_LIMIT),
        ({"fee_recipient": b"\x09" * 20}, ComparedField.FEE_RECIPIENT),
        ({"parent_beacon_root": b"\x09" * 32}, ComparedField.BEACON_ROOT),
        ({"extra_data": b"\x09"}, ComparedField.EXTRA_DATA),
    ],
)
def test_each_mismatch_is_reported(fork: str, block: dict[str, Any], field: ComparedField) -> None:
    assert compare(fork, block=block) is field


@pytest.mark.parametrize(
    ("fork", "attributes", "block", "field"),
    [
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
