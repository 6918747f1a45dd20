"""Payload attributes: L1 origins, order of transactions, fields by fork, and the config read back from their block."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.protocol import attributes as builder
from rollup_node.stages.protocol.attributes import (
    L1InfoCreationError,
    OriginMismatchError,
    PreparedAttributes,
    UndecodableDepositsError,
    prepare_attributes,
    system_config_after,
)
from rollup_node.stages.protocol.config import ChainOpConfig, Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC, decode_deposit, is_deposit
from rollup_node.stages.protocol.errors import CriticalError, ResetError
from rollup_node.stages.protocol.forks.rules import L1InfoFormat
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.l1_info import l1_info_of_block
from rollup_node.stages.protocol.system_config import CONFIG_UPDATE_TOPIC, packed_scalar
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L1Header, L2BlockRef, Log
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

PORTAL, L1_CONFIG = b"\x04" * 20, b"\x99" * 20
CONFIG = SystemConfig(b"\x01" * 20, ZERO_HASH, packed_scalar(11, 12), 30_000_000)
OLD_ORIGIN, NEW_ORIGIN = b"\x0a" * 32, b"\x0b" * 32
PARENT = L2BlockRef(b"\x20" * 32, 49, b"\x21" * 32, 1_800_000_098, BlockId(100, OLD_ORIGIN), 3)
TIME = PARENT.timestamp + 2


def chain(**fork_times: int) -> RollupConfig:
    return msgspec.structs.replace(
        PLAIN_ROLLUP,
        genesis=Genesis(BlockId(1, b"\x01" * 32), BlockId(0, b"\x02" * 32), 1_800_000_000, CONFIG),
        fork_times=fork_times,
        deposit_contract=PORTAL,
        l1_system_config=L1_CONFIG,
        chain_op_config=ChainOpConfig(6, 50, 250),
    )


def until(fork: str, time: int = 0, **changes: Any) -> RollupConfig:
    """Return a chain with all forks up to this one from genesis on, but the last from `time` on."""
    earlier = {name: 0 for name in FORK_NAMES[1 : FORK_NAMES.index(fork)]}
    return msgspec.structs.replace(chain(**earlier, **{fork: time}), **changes)


def epoch(number: int = 101, block_hash: bytes = NEW_ORIGIN, **changes: Any) -> L1Header:
    l1_header = L1Header(block_hash, number, OLD_ORIGIN, TIME - 40, b"\x31" * 32, 7, 40_000_000, b"\x32" * 32)
    return msgspec.structs.replace(l1_header, **changes)


SAME = epoch(100, OLD_ORIGIN, parent_hash=b"\x0c" * 32)


def prepared(
    config: RollupConfig,
    origin: L1Header = SAME,
    system: SystemConfig = CONFIG,
    deposits: tuple[Log, ...] = (),
    updates: tuple[Log, ...] = (),
    parent: L2BlockRef = PARENT,
) -> PreparedAttributes:
    return prepare_attributes(config, L1_CHAINS[1], parent, system, origin, deposits, updates)


def portal_log(gas: int, index: int) -> Log:
    opaque = bytes(64) + gas.to_bytes(8, "big") + b"\0" + bytes(23)
    data = (32).to_bytes(32, "big") + len(opaque).to_bytes(32, "big") + opaque
    return Log(PORTAL, (DEPOSIT_TOPIC, ZERO_HASH, ZERO_HASH, ZERO_HASH), data, index)


def update(kind: int, value: int) -> Log:
    topics = (CONFIG_UPDATE_TOPIC, ZERO_HASH, kind.to_bytes(32, "big"))
    return Log(L1_CONFIG, topics, b"".join(number.to_bytes(32, "big") for number in (32, 32, value)), 0)


def test_within_an_epoch_logs_do_not_count() -> None:
    config = until("jovian")
    result, system = prepared(config, deposits=(portal_log(5, 1),), updates=(update(2, 9),))
    assert len(result.transactions) == 1
    assert (result.gas_limit, system) == (30_000_000, CONFIG)
    info = l1_info_of_block(result.transactions, L1InfoFormat.JOVIAN)
    assert (info.sequence_number, info.origin) == (4, PARENT.l1_origin)


def test_the_first_block_of_an_epoch() -> None:
    config = until("jovian")
    logs = (portal_log(5, 1), portal_log(6, 4))
    result, system = prepared(config, epoch(), deposits=logs, updates=(update(2, 9), update(2, 2**70), update(6, 8)))
    info = l1_info_of_block(result.transactions, L1InfoFormat.JOVIAN)
    assert (info.sequence_number, info.number, info.block_hash) == (0, 101, NEW_ORIGIN)
    assert (info.base_fee_scalar, info.blob_base_fee_scalar, info.da_footprint_gas_scalar) == (11, 12, 400)
    assert [decode_deposit(transaction).gas for transaction in result.transactions] == [1_000_000, 5, 6]
    assert (system.gas_limit, system.min_base_fee) == (result.gas_limit, result.min_base_fee) == (9, 8)


@pytest.mark.parametrize(
    ("fork", "withdrawals", "beacon_root", "params", "min_base_fee"),
    [
        ("regolith", False, None, None, None),
        ("canyon", True, None, None, None),
        ("ecotone", True, b"\x32" * 32, None, None),
        ("granite", True, b"\x32" * 32, None, None),
        ("holocene", True, b"\x32" * 32, bytes(8), None),
        ("isthmus", True, b"\x32" * 32, bytes(8), None),
        ("jovian", True, b"\x32" * 32, bytes(8), 0),
    ],
)
def test_fields_appear_with_their_forks(
    fork: str, withdrawals: bool, beacon_root: bytes | None, params: bytes | None, min_base_fee: int | None
) -> None:
    attributes = prepared(until(fork)).attributes
    assert (attributes.withdrawals, attributes.parent_beacon_root) == (withdrawals, beacon_root)
    assert (attributes.eip1559_params, attributes.min_base_fee) == (params, min_base_fee)


def test_an_l1_without_beacon_root_gives_the_zero_hash() -> None:
    origin = msgspec.structs.replace(SAME, parent_beacon_root=None, excess_blob_gas=None)
    attributes = prepared(until("ecotone"), origin).attributes
    assert attributes.parent_beacon_root == ZERO_HASH
    assert l1_info_of_block(attributes.transactions, L1InfoFormat.ECOTONE).blob_base_fee == 1


def test_before_regolith_the_l1_attributes_deposit_is_a_system_transaction() -> None:
    attributes = prepared(chain(regolith=TIME + 2)).attributes
    first = decode_deposit(attributes.transactions[0])
    assert (first.gas, first.is_system) == (150_000_000, True)


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (epoch(parent_hash=b"\x0f" * 32), "cannot create new block with L1 origin 101:"),
        (epoch(100), "in conflict with L1 origin 100:"),
        (epoch(timestamp=TIME + 1), f"for time {TIME} before L1 origin"),
        (msgspec.structs.replace(SAME, timestamp=TIME + 1), f"for time {TIME} before L1 origin"),
    ],
)
def test_origins_that_do_not_follow_reset(origin: L1Header, text: str) -> None:
    """[ATT5, ATT6, ATT7]"""
    with pytest.raises(OriginMismatchError) as raised:
        prepared(until("jovian"), origin)
    assert text in str(raised.value)
    assert isinstance(raised.value, ResetError)


def test_an_origin_of_the_same_time_is_allowed_and_numbers_may_jump() -> None:
    assert prepared(until("jovian"), epoch(105, timestamp=TIME)).attributes.timestamp == TIME


TOPICS = st.lists(st.sampled_from([DEPOSIT_TOPIC, CONFIG_UPDATE_TOPIC, ZERO_HASH, b"\x01" * 32]), max_size=4)
LOGS = st.lists(
    st.builds(Log, st.just(PORTAL), TOPICS.map(tuple), st.binary(max_size=130), st.integers(0, 9)), max_size=2
)


@settings(max_examples=50)
@given(LOGS, LOGS, st.sampled_from(FORK_NAMES[1:]))
def test_no_logs_raise_another_error(deposits: list[Log], updates: list[Log], fork: str) -> None:
    config = until(fork)
    try:
        built = prepared(config, epoch(), deposits=tuple(deposits), updates=tuple(updates)).attributes
    except (UndecodableDepositsError, L1InfoCreationError):
        return
    assert is_deposit(built.transactions[0])
    assert system_config_after(config, built, 50).batcher == CONFIG.batcher or updates


def test_an_unreadable_scalar_is_critical_from_ecotone_on() -> None:
    strange = msgspec.structs.replace(CONFIG, scalar=b"\x02" + bytes(31))
    with pytest.raises(L1InfoCreationError, match="failed to create l1InfoTx"):
        prepared(until("ecotone"), system=strange)
    assert prepared(until("delta"), system=strange).config == strange
    assert prepared(until("ecotone", TIME), system=strange).config == strange, "its activation block is of the old form"


def test_the_pectra_correction_reaches_the_l1_attributes() -> None:
    config = until("jovian")
    corrected = msgspec.structs.replace(config, pectra_blob_schedule_time=TIME + 100)
    fees = [
        l1_info_of_block(prepared(item).attributes.transactions, L1InfoFormat.JOVIAN).blob_base_fee
        for item in (config, corrected)
    ]
    assert fees == [30, 159773]


def test_upgrade_transactions_come_after_the_deposits() -> None:
    transactions = prepared(until("fjord", TIME), epoch(), deposits=(portal_log(5, 1),)).attributes.transactions
    assert transactions[2:] == load_bundle("fjord").transactions and all(map(is_deposit, transactions))


def test_batch_transactions_come_last_and_deposits_only_removes_them() -> None:
    template = prepared(until("ecotone", TIME)).attributes
    full = builder.with_transactions(template, [b"\x02a", b"", b"\xf8"])
    assert full.transactions == (*template.transactions, b"\x02a", b"", b"\xf8")
    assert not builder.is_deposits_only(full)
    assert builder.deposits_only(full) == template
    assert builder.is_deposits_only(template)
    assert builder.is_deposits_only(msgspec.structs.replace(template, transactions=()))


# --- the config that is read back from the block -------------------------------------------------------------------

ODD = SystemConfig(
    batcher=b"\x02" * 20,
    overhead=ZERO_HASH,
    scalar=packed_scalar(3, 0xFF000004),
    gas_limit=5_000_000,
    eip1559_params=bytes.fromhex("0000000500000007"),
    operator_fee_params=(1 << 200 | 6 << 64 | 7).to_bytes(32, "big"),
    min_base_fee=8,
    da_footprint_gas_scalar=9,
)


def after(config: RollupConfig, system: SystemConfig = ODD) -> SystemConfig:
    return system_config_after(config, prepared(config, system=system).attributes, PARENT.number + 1)


def test_after_all_forks_only_unused_bytes_are_lost() -> None:
    kept = msgspec.structs.replace(ODD, operator_fee_params=(6 << 64 | 7).to_bytes(32, "big"))
    assert after(until("jovian")) == kept
    assert after(until("jovian"), kept) == kept


def test_zeros_are_read_back_as_the_constants() -> None:
    result = after(until("jovian"), CONFIG)
    assert result.eip1559_params == bytes.fromhex("000000fa00000006")
    assert result.da_footprint_gas_scalar == 400
    assert after(until("granite"), CONFIG) == CONFIG


@pytest.mark.parametrize(
    ("config", "lost"),
    [
        (until("granite"), {"eip1559_params": bytes(8), "operator_fee_params": ZERO_HASH}),
        (until("holocene", TIME), {"operator_fee_params": ZERO_HASH}),
        (until("isthmus", TIME), {"operator_fee_params": ZERO_HASH}),
        (until("isthmus"), {}),
    ],
)
def test_values_that_a_block_cannot_carry_are_lost(config: RollupConfig, lost: dict[str, Any]) -> None:
    """[SYS40 to SYS44]"""
    expected = msgspec.structs.replace(
        ODD,
        **{"operator_fee_params": (6 << 64 | 7).to_bytes(32, "big"), "min_base_fee": 0, "da_footprint_gas_scalar": 0}
        | lost,
    )
    assert after(config) == expected


def test_jovian_activation_keeps_the_minimum_but_not_the_footprint() -> None:
    result = after(until("jovian", TIME))
    assert (result.min_base_fee, result.da_footprint_gas_scalar) == (8, 0)


def test_v0_scalars_become_v1_and_words_stay_before_ecotone() -> None:
    v0 = msgspec.structs.replace(CONFIG, scalar=(684000).to_bytes(32, "big"), overhead=b"\x05" * 32)
    result = after(until("ecotone"), v0)
    assert (result.scalar, result.overhead) == (packed_scalar(684000, 0), ZERO_HASH)
    for config in (until("delta"), until("ecotone", TIME)):
        old = after(config, v0)
        assert (old.scalar, old.overhead) == (v0.scalar, v0.overhead)
    padded = msgspec.structs.replace(CONFIG, scalar=b"\x00\x01" + bytes(30))
    assert after(until("ecotone"), padded).scalar == packed_scalar(0xFFFFFFFF, 0)


def test_holocene_needs_the_constants_of_the_chain() -> None:
    config = until("holocene", chain_op_config=None)
    with pytest.raises(CriticalError, match="chain_op_config"):
        system_config_after(config, prepared(config).attributes, 50)
