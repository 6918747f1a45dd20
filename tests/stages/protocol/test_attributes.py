"""Payload attributes beyond the known answers of tests/vectors, and the config read back from their block."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol.attributes import (
    L1InfoCreationError,
    PreparedAttributes,
    prepare_attributes,
    system_config_after,
)
from rollup_node.stages.protocol.config import ChainOpConfig, Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.deposits import DEPOSIT_TOPIC, decode_deposit
from rollup_node.stages.protocol.forks.rules import L1InfoFormat
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.l1_chains import L1_CHAINS
from rollup_node.stages.protocol.l1_info import l1_info_of_block
from rollup_node.stages.protocol.system_config import packed_scalar
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L1Header, L2BlockRef, Log
from tests.conformance.kit.chain import abi_words, config_log
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

PORTAL = b"\x04" * 20
CONFIG = SystemConfig(b"\x01" * 20, ZERO_HASH, packed_scalar(11, 12), 30_000_000)
OLD_ORIGIN, NEW_ORIGIN = b"\x0a" * 32, b"\x0b" * 32
PARENT = L2BlockRef(b"\x20" * 32, 49, b"\x21" * 32, 1_800_000_098, BlockId(100, OLD_ORIGIN), 3)
TIME = PARENT.timestamp + 2


def until(fork: str, time: int = 0) -> RollupConfig:
    """Return a chain with all forks up to this one from genesis on, but the last from `time` on."""
    return msgspec.structs.replace(
        PLAIN_ROLLUP,
        genesis=Genesis(BlockId(1, b"\x01" * 32), BlockId(0, b"\x02" * 32), 1_800_000_000, CONFIG),
        fork_times=dict.fromkeys(FORK_NAMES[1 : FORK_NAMES.index(fork)], 0) | {fork: time},
        chain_op_config=ChainOpConfig(6, 50, 250),
    )


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
) -> PreparedAttributes:
    return prepare_attributes(config, L1_CHAINS[1], PARENT, system, origin, deposits, updates)


def portal_log(gas: int, index: int) -> Log:
    opaque = bytes(64) + gas.to_bytes(8, "big") + b"\0" + bytes(23)
    data = (32).to_bytes(32, "big") + len(opaque).to_bytes(32, "big") + opaque
    return Log(PORTAL, (DEPOSIT_TOPIC, ZERO_HASH, ZERO_HASH, ZERO_HASH), data, index)


def update(kind: int, value: int) -> Log:
    return config_log(kind, abi_words(32, 32, value))


def test_the_first_block_of_an_epoch() -> None:
    config = until("jovian")
    logs = (portal_log(5, 1), portal_log(6, 4))
    result, system = prepared(config, epoch(), deposits=logs, updates=(update(2, 9), update(2, 2**70), update(6, 8)))
    info = l1_info_of_block(result.transactions, L1InfoFormat.JOVIAN)
    assert (info.sequence_number, info.number, info.block_hash) == (0, 101, NEW_ORIGIN)
    assert (info.base_fee_scalar, info.blob_base_fee_scalar, info.da_footprint_gas_scalar) == (11, 12, 400)
    assert [decode_deposit(transaction).gas for transaction in result.transactions] == [1_000_000, 5, 6]
    assert (system.gas_limit, system.min_base_fee) == (result.gas_limit, result.min_base_fee) == (9, 8)


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
